"""Library: the gateway inside of a Python process, without a server."""
