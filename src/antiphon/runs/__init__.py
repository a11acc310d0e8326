"""Runs, their event logs and their readers."""
