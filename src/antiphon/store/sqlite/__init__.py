"""SQLite store: one file, one writer that batches, a few readers."""
