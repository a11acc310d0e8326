"""Usage of clients: sums by hour, client, model and provider."""
