"""Number of input tokens of a request: counted by the provider, or estimated."""
