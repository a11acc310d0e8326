"""Model discovery: the models that a provider's own list names."""
