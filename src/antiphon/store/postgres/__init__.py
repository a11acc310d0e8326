"""Store in a PostgreSQL database that several gateways share."""
