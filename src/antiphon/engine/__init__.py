"""The engine: routing, runs, attempts, provider health and upstreams."""
