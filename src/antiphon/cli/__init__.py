"""The `antiphon` command. One module per subcommand: `add` declares its options, `run` runs it."""
