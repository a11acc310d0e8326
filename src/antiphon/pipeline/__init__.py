"""The bridge from bytes to events, and the stages between the state machine and the wire."""
