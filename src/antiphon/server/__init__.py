"""HTTP: routes that parse, call the engine and encode. Nothing is decided here."""
