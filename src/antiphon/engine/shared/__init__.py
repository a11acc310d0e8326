"""What gateways tell each other of providers: cool-downs, circuit breakers, rejected parameters."""
