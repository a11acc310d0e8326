"""Antiphon: a gateway and library that turns the stream of any provider into Responses events.

The public API of the package:

- `replay(data, dialect=..., request=...)` converts recorded bytes of a provider, a stream or a
  complete JSON body, to the Responses events that a client would receive. With the client's request
  they are exactly those that it received.
- `parse_delta(mapping)` checks a delta in the form of a plain mapping, such as
  `{"text": "Hello"}` or `{"finishReason": "stop"}`, and returns it as typed deltas.
- `Delta` is the union of the delta types (`antiphon.core.stream.deltas`): what a provider's stream
  consists of after decoding, and what the state machine builds a response from.

Importing the package loads neither the HTTP server and client, nor the store, nor cryptography.
"""

from __future__ import annotations

from antiphon.core.stream.deltas import Delta, parse_delta
from antiphon.replay import replay

__version__ = "0.1.0"

__all__ = ["Delta", "__version__", "parse_delta", "replay"]
