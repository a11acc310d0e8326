"""Managed MCP: tools of remote MCP servers, which the gateway calls for models that cannot."""
