"""HTTP server: a framework-free application, its endpoints, and an aiohttp adapter around it."""
