"""Every error Antiphon raises, on one page.

- AntiphonError
  - BridgeError            a stream or a request that cannot be bridged
    - OutputBeforeStart      bridge.stream.output_before_start
    - DeltaAfterTerminal     bridge.stream.delta_after_terminal
    - InvalidTransition      bridge.stream.invalid_transition
    - IncompleteToolCall     bridge.stream.incomplete_tool_call
    - InvalidOutputFormat    bridge.response.invalid_output_format
    - ToolCollision          bridge.request.tool_collision
  - InvalidRequest         a client's mistake, with the parameter it is about
    - ChainNotFound          previous_response_not_found
    - ChainCycle             previous_response_cycle
    - ChainTooDeep           previous_response_chain_too_deep
  - ConfigError            a mistake in antiphon.toml, with its file, line and key
  - StoreError             store.failed: a store that cannot be opened, read or written
    - StoreRefused           store.refused: one turn that is too much for it
  - SearchError            search.failed: a web search backend that failed
  - NoInstance             echo.no_instance: a JSON Schema without a sample; never leaves it
  - UnknownDialect         dialect.unknown

A `BridgeError` of a stream leaves the state of whoever raised it unchanged.
"""

from __future__ import annotations

from typing import ClassVar


class AntiphonError(Exception):
    """The root: every error has a stable `code` and a message fit for people."""

    code: ClassVar[str] = "antiphon"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BridgeError(AntiphonError):
    """A stream or a request that cannot be bridged."""


class OutputBeforeStart(BridgeError):
    code = "bridge.stream.output_before_start"


class DeltaAfterTerminal(BridgeError):
    code = "bridge.stream.delta_after_terminal"


class InvalidTransition(BridgeError):
    code = "bridge.stream.invalid_transition"


class IncompleteToolCall(BridgeError):
    code = "bridge.stream.incomplete_tool_call"


class InvalidOutputFormat(BridgeError):
    """The answer is not what the output contract promised."""

    code = "bridge.response.invalid_output_format"

    def __init__(self, message: str, *, provider: str, model: str, response_id: str) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.response_id = response_id


class ToolCollision(BridgeError):
    """Two different tools ask for the same name at the provider."""

    code = "bridge.request.tool_collision"


class UnknownDialect(AntiphonError):
    """A dialect was asked for by a name that none has."""

    code = "dialect.unknown"


class InvalidRequest(AntiphonError):
    """The client asked for something that cannot be; names the parameter."""

    code = "invalid_value"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.param = param
        self.wire_code = code
        self.status = status
        self.kind = kind


class ConfigError(AntiphonError):
    """A mistake in the configuration."""

    code = "config.invalid"


class ChainNotFound(InvalidRequest):
    """A turn that a chain needs is not stored: never was, deleted, evicted or expired."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Previous response with id '{response_id}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
        self.response_id = response_id


class ChainCycle(InvalidRequest):
    """Following the parents leads back to a turn that was already passed."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"The chain of previous responses returns to '{response_id}' and has no beginning.",
            param="previous_response_id",
            code="previous_response_cycle",
        )
        self.response_id = response_id


class ChainTooDeep(InvalidRequest):
    """More turns than the operator allows in one chain."""

    def __init__(self, response_id: str, limit: int) -> None:
        super().__init__(
            f"The chain that ends at '{response_id}' has more than {limit} responses,"
            " the most this server follows.",
            param="previous_response_id",
            code="previous_response_chain_too_deep",
        )
        self.response_id = response_id
        self.limit = limit


class StoreError(AntiphonError):
    """A store cannot be opened, read or written; the message names the file."""

    code = "store.failed"


class StoreRefused(StoreError):
    """The store works, but does not take this turn."""

    code = "store.refused"


class SearchError(AntiphonError):
    """A web search backend could not be reached, or did not return results."""

    code = "search.failed"


class NoInstance(AntiphonError):
    """No instance of a JSON Schema was found within the limits (the echo provider's samples)."""

    code = "echo.no_instance"
