"""The core: deltas in, Responses events out. No IO, no clock, no randomness."""
