"""Usage, cost and limits of clients."""
