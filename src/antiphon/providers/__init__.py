"""Providers are data: an address, capabilities and, rarely, a quirk or two."""
