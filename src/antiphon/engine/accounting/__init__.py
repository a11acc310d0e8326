"""Values that describe a request that has ended, for usage, limits, metrics and spans."""
