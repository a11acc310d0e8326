"""Turns and traces at rest. Nothing here runs on the event loop for longer than a moment."""
