"""HTTP endpoints, one module per resource. They parse, call the engine and encode."""
