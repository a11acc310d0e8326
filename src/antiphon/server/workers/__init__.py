"""Several gateway processes on one port: sockets, worker processes, and the parent of them."""
