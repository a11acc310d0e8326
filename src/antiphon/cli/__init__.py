"""The `antiphon` command, one file a subcommand: `add` declares its arguments, `run` does it."""
