"""Library: the gateway within a Python process, without a server."""
