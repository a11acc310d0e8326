"""The wire format of the Responses API, and the framing of streams; independent of providers."""
