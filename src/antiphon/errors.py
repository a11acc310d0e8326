"""Every error class of Antiphon, with its code.

Errors that reach a client, an operator or a caller of the library:

- AntiphonError            the root; every error has a `code` and a `message`
  - BridgeError            a stream or a request that cannot be translated
    - OutputBeforeStart      bridge.stream.output_before_start: a delta comes before the start
    - DeltaAfterTerminal     bridge.stream.delta_after_terminal: a delta comes after the end
    - InvalidTransition      bridge.stream.invalid_transition: a delta is malformed, or out of order
    - IncompleteToolCall     bridge.stream.incomplete_tool_call: the provider ended a call early
    - InvalidToolArguments   bridge.stream.invalid_tool_arguments: a strict call is not JSON
    - ResponseTooLarge       bridge.stream.response_too_large: a response exceeds one of [limits]
    - InvalidOutputFormat    bridge.response.invalid_output_format: the output breaks its contract
    - ToolCollision          bridge.request.tool_collision: two tools get the same provider name
  - UnknownDialect         dialect.unknown: no dialect has this name
  - InvalidRequest         a client's request is invalid, with the parameter it is about
    - ChainNotFound          previous_response_not_found: a response of the chain is not stored
    - ChainCycle             previous_response_cycle: a response of the chain is its own ancestor
    - ChainTooDeep           previous_response_chain_too_deep: the chain exceeds the limit
    - ChainUnfinished        previous_response_not_finished: a response of the chain has not ended
    - HistoryTooLarge        history_too_large: what the request continues exceeds [store]
    - LimitExceeded          rate_limit_exceeded, insufficient_quota: a limit of the client key
    - ToolsNotUsable         the tools that MCP servers list make the request invalid
    - Refused                the reason is not the content: an unknown path, a shutdown
  - ConfigError            config.invalid: antiphon.toml is invalid, with file, line and key
  - StoreError             store.failed: a store cannot be opened, read or written
    - StoreDamaged           store.damaged: the content of a database file is damaged
    - StoreRefused           store.refused: one response is too large, or cannot be encoded
    - StoreUnavailable       store.unavailable: the database cannot be reached now
    - LeaseLost              store.lease_lost: the run of a response belongs to another process now
  - UpstreamError          upstream: a provider failed before the client received any output
    - RateLimited            the provider's rate limit is exceeded; see `retry_after_s`
    - QuotaExceeded          the account at the provider has no credit left
    - AuthenticationFailed   the provider refused the key, or what it may do
    - RequestRejected        the provider refused the request
    - ModelNotFound          the provider does not know the model
    - ContextTooLong         the request does not fit the model's context window
    - ContentBlocked         the provider refused the content
    - ProviderTimeout        the provider took too long
    - ProviderUnavailable    the provider cannot be reached, is overloaded, or failed
  - DiscoveryError         discovery.failed: the models of a provider could not be listed
  - SearchError            search.failed: a search engine failed or sent an unreadable response
  - UnreadableFile         cli.unreadable_file: a file named on the command line cannot be read
  - ProgramNotFound        cli.no_program: the agent that a command starts is not installed
  - GatewayError           cli.gateway: the gateway that a command needs does not work
  - TraceNotFound          cli.no_trace: there is no trace, or no such request in it
  - UsageNotFound          cli.no_usage: there is no store whose usage could be read
  - InvalidAnswer          cli.bad_answer: an answer to a prompt is not valid
  - UnansweredPrompt       cli.unanswered: the input ended before a prompt was answered

Internal errors, which one module raises and its caller always catches:

- FormatMismatch           text does not match a format of tool calls
- SchemaTooComplex         checking a value against a JSON Schema would take too long
- NoSampleExists           no value for a JSON Schema was found within the limits
- BrokenEventStream        bytes are not an Amazon event stream message
- ConnectionFailure        a provider cannot be reached, or its connection broke
- ConnectTimedOut          a connection to a provider was not made in time
- BrokenResponse           bytes of a provider are not HTTP/1.1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # errors.py is the lowest layer: at run time it imports nothing of Antiphon
    from antiphon.core.faults.fault import ProviderFault


class AntiphonError(Exception):
    """The root: every error has a stable `code` and a readable `message`."""

    code: str = "antiphon"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BridgeError(AntiphonError):
    """A stream or a request that cannot be translated; what raised it keeps its state."""


class OutputBeforeStart(BridgeError):
    """A delta comes before the response was started."""

    code = "bridge.stream.output_before_start"


class DeltaAfterTerminal(BridgeError):
    """A delta comes after the response has ended."""

    code = "bridge.stream.delta_after_terminal"


class InvalidTransition(BridgeError):
    """A delta is malformed, or does not fit the state of its block."""

    code = "bridge.stream.invalid_transition"


class IncompleteToolCall(BridgeError):
    """The provider ended the stream before a tool call was complete."""

    code = "bridge.stream.incomplete_tool_call"


class InvalidToolArguments(BridgeError):
    """The finished arguments of a call of a strict tool cannot be parsed as JSON."""

    code = "bridge.stream.invalid_tool_arguments"


class ResponseTooLarge(BridgeError):
    """A response of a provider exceeds a limit of the configuration."""

    code = "bridge.stream.response_too_large"

    def __init__(self, key: str, limit: int) -> None:
        super().__init__(
            f"The provider's response is larger than [limits] {key} = {limit} allows; raise it if"
            " such responses are expected."
        )


class InvalidOutputFormat(BridgeError):
    """The output does not satisfy the requested format."""

    code = "bridge.response.invalid_output_format"

    def __init__(self, message: str, *, provider: str, model: str, response_id: str) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.response_id = response_id


class ToolCollision(BridgeError):
    """Two different tools would get the same name at the provider."""

    code = "bridge.request.tool_collision"


class UnknownDialect(AntiphonError):
    """No dialect has the requested name."""

    code = "dialect.unknown"


class InvalidRequest(AntiphonError):
    """A client's request is invalid; `param` names the parameter."""

    code = "invalid_value"
    headers: Mapping[str, str] = {}
    """Headers of the HTTP response."""

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
        self.code = code or type(self).code
        self.param = param
        self.wire_code = code
        self.status = status
        self.kind = kind


class ConfigError(AntiphonError):
    """The configuration is invalid; each problem names the file, the line and the key."""

    code = "config.invalid"

    def __init__(self, message: str, *, path: Sequence[str] = ()) -> None:
        """`path` is the key that the problem is about. Several problems are lines of a message."""
        super().__init__(message)
        self.path = tuple(path)


class ChainNotFound(InvalidRequest):
    """A response of the chain is not stored: never was, deleted, evicted or expired."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Previous response with id '{response_id}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
        self.response_id = response_id


class ChainCycle(InvalidRequest):
    """A response of the chain is its own ancestor."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"The chain of previous responses is a cycle: '{response_id}' precedes itself."
            " Send the history in 'input' instead.",
            param="previous_response_id",
            code="previous_response_cycle",
        )
        self.response_id = response_id


class ChainTooDeep(InvalidRequest):
    """The chain has more responses than the operator allows (`store.max_chain`)."""

    def __init__(self, response_id: str, limit: int) -> None:
        super().__init__(
            f"The chain of previous responses that ends at '{response_id}' has more than {limit}"
            " responses, the maximum of this server. Send the history in 'input' instead.",
            param="previous_response_id",
            code="previous_response_chain_too_deep",
        )
        self.response_id = response_id


class ChainUnfinished(InvalidRequest):
    """A response of the chain has not ended."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Previous response with id '{response_id}' has not ended yet. Wait until its status is"
            " no longer `queued` or `in_progress`.",
            param="previous_response_id",
            code="previous_response_not_finished",
        )
        self.response_id = response_id


class HistoryTooLarge(InvalidRequest):
    """The stored history that a request continues exceeds a limit of `[store]`."""

    def __init__(
        self,
        maximum: int,
        unit: Literal["bytes", "items"],
        param: str = "previous_response_id",
    ) -> None:
        super().__init__(
            f"The stored history has more than {maximum:,} {unit} (`max_history_{unit}` in"
            ' [store]), the maximum of this server. Send `truncation`: "auto" to leave out its'
            " oldest turns, or continue from a summary of it (`POST /v1/responses/compact`).",
            param=param,
            code="history_too_large",
        )


class LimitExceeded(InvalidRequest):
    """A client key has reached one of its limits (`[limits.NAME]`)."""

    def __init__(
        self, message: str, *, code: str, kind: str, headers: Mapping[str, str], permanent: bool
    ) -> None:
        """`permanent`: a retry cannot succeed soon, and clients must not make one."""
        super().__init__(message, code=code, status=429, kind=kind)
        self.headers = headers
        self.permanent = permanent


class ToolsNotUsable(InvalidRequest):
    """The tools that MCP servers list make a request invalid: known during its run, which records
    it."""

    def __init__(self, problem: InvalidRequest) -> None:
        super().__init__(
            problem.message,
            param=problem.param,
            code=problem.wire_code,
            status=problem.status,
            kind=problem.kind,
        )


class Refused(InvalidRequest):
    """A request is refused for a reason that is not its content, such as an unknown path."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        kind: str = "invalid_request_error",
        headers: Mapping[str, str] | None = None,
        close_connection: bool = False,
    ) -> None:
        """`close_connection`: the client must connect elsewhere."""
        super().__init__(message, code=code, status=status, kind=kind)
        self.headers = headers or {}
        self.close_connection = close_connection


class StoreError(AntiphonError):
    """A store cannot be opened, read or written; the message names the file."""

    code = "store.failed"


class StoreDamaged(StoreError):
    """The content of a database file is damaged; the message names the file."""

    code = "store.damaged"


class StoreRefused(StoreError):
    """The store works, but one response is too large for it, or cannot be encoded."""

    code = "store.refused"


class StoreUnavailable(StoreError):
    """The database cannot be reached now. What was being written may have been written."""

    code = "store.unavailable"


class LeaseLost(StoreError):
    """A response was deleted or has ended, or another process has taken over its run."""

    code = "store.lease_lost"

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"The run of response '{response_id}' cannot be written any more: the response was"
            " deleted or has ended, or another process has taken over its run."
        )
        self.response_id = response_id


class UpstreamError(AntiphonError):
    """A provider failed before the client received any output; see `fault`."""

    code = "upstream"
    param: str | None = None

    def __init__(
        self,
        fault: ProviderFault,
        description: str = "",
        provider: str = "",
        *,
        code: str = "upstream",
        message: str = "",
    ) -> None:
        """`description` is the text for the client, in its language; `message`, that of the error,
        is the provider's own without one."""
        super().__init__(message or fault.message)
        self.code = code
        self.fault = fault
        self.description = description
        self.provider = provider
        self.retry_after_s = fault.retry_after_s


class RateLimited(UpstreamError):
    """The provider's rate limit is exceeded; `retry_after_s` says when to try again, if known."""


class QuotaExceeded(UpstreamError):
    """The account at the provider has no credit left."""


class AuthenticationFailed(UpstreamError):
    """The provider refused the key, or the key may not do this."""


class RequestRejected(UpstreamError):
    """The provider refused the request."""


class ModelNotFound(UpstreamError):
    """The provider does not know the model, or the key may not use it."""

    param = "model"


class ContextTooLong(UpstreamError):
    """The request does not fit the context window of the model."""

    param = "input"


class ContentBlocked(UpstreamError):
    """The provider refused the content."""


class ProviderTimeout(UpstreamError):
    """The provider took too long."""


class ProviderUnavailable(UpstreamError):
    """The provider cannot be reached, is overloaded, or failed."""


class DiscoveryError(AntiphonError):
    """The models of a provider could not be listed."""

    code = "discovery.failed"


class SearchError(AntiphonError):
    """A search engine failed, or its response cannot be read."""

    code = "search.failed"


class UnreadableFile(AntiphonError):
    """A file named on the command line cannot be read."""

    code = "cli.unreadable_file"


class ProgramNotFound(AntiphonError):
    """The agent that a command starts is not installed."""

    code = "cli.no_program"


class GatewayError(AntiphonError):
    """The gateway that a command needs does not start, or does not answer as it should."""

    code = "cli.gateway"


class TraceNotFound(AntiphonError):
    """There is no trace, or it does not contain the request."""

    code = "cli.no_trace"


class UsageNotFound(AntiphonError):
    """There is no store whose usage could be read."""

    code = "cli.no_usage"


class InvalidAnswer(AntiphonError):
    """An answer to a prompt is not valid; the prompt is shown again with the message."""

    code = "cli.bad_answer"


class UnansweredPrompt(AntiphonError):
    """The input ended before a prompt was answered."""

    code = "cli.unanswered"


class FormatMismatch(Exception):
    """Text does not match the format of tool calls that it is read as."""


class SchemaTooComplex(Exception):
    """Checking a value against a JSON Schema would take too long."""


class NoSampleExists(Exception):
    """No value satisfies a JSON Schema, or none was found within the limits."""


class BrokenEventStream(ValueError):
    """Bytes are not an Amazon event stream message."""


class ConnectionFailure(Exception):
    """A provider cannot be reached, or its connection broke; the text says which."""


class ConnectTimedOut(Exception):
    """A connection to a provider was not made in time."""


class BrokenResponse(Exception):
    """Bytes of a provider are not HTTP/1.1, or exceed its limits; the text says where."""
