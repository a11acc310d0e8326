"""Stored responses (turns) and request traces. No disk access blocks the event loop."""
