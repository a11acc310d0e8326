"""WebSocket connections to /v1/responses: frames, lanes, recent turns; and aiohttp's side of it."""
