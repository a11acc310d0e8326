"""Configuration while the gateway runs: engines of new files, and the swap from one to another."""
