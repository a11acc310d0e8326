"""The `antiphon` command, one file a subcommand."""
