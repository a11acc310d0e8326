"""The stages between the state machine and the client."""
