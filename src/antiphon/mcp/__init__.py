"""MCP servers: sessions with remote servers, whose tools the gateway calls for models."""
