"""Pure translators between a provider's wire format and our deltas, one file each."""
