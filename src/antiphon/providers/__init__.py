"""Providers as data: base URL, model capabilities and dialect quirks, one file each."""
