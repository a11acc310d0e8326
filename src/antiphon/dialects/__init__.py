"""Pure translators between providers' wire formats and the gateway's deltas, one package each."""
