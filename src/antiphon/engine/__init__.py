"""The only place where things are awaited in order: upstreams, attempts, exchanges."""
