"""Search backends: web search run by the gateway, for models without a search of their own."""
