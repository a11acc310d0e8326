"""The command `antiphon store`."""
