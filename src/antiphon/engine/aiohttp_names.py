"""What Antiphon uses of aiohttp that aiohttp does not document: the one list of these names.

A release of aiohttp may rename them without notice. `pyproject.toml` therefore bounds aiohttp to
the release line that was tested; its test looks up every name here in the installed release, and
finds every private name in the source that is missing here. Read both before raising the bound.
"""

from __future__ import annotations

from typing import NamedTuple


class PrivateName(NamedTuple):
    """An attribute of a class of aiohttp, and why it is used."""

    module: str
    owner: str
    name: str
    purpose: str


PRIVATE_NAMES = (
    PrivateName(
        "aiohttp.web_protocol",
        "RequestHandler",
        "_messages",
        "heads that have arrived: the timer of the head stops",
    ),
    PrivateName(
        "aiohttp.web_protocol",
        "RequestHandler",
        "_request_in_progress",
        "a request is being answered: the timer of the head stops",
    ),
    PrivateName(
        "aiohttp.web_protocol",
        "RequestHandler",
        "_force_close",
        "read no more of a connection that is refused, while its client reads the reason",
    ),
    PrivateName(
        "aiohttp.connector",
        "TCPConnector",
        "_factory",
        "make `UpstreamConnection` the protocol of pooled connections",
    ),
    PrivateName(
        "aiohttp.client_proto",
        "ResponseHandler",
        "_payload",
        "the body that is being received: whether it has ended, and the reader to fail",
    ),
    PrivateName(
        "aiohttp.client_proto",
        "ResponseHandler",
        "_parser",
        "whether bytes are left after the end of a body, by feeding it a probe",
    ),
    PrivateName(
        "aiohttp.client_proto",
        "ResponseHandler",
        "_should_close",
        "whether the connection is closed after this body: then nothing may follow it",
    ),
    PrivateName(
        "aiohttp.client_proto",
        "ResponseHandler",
        "_reading_paused",
        "resume reading only if it was paused",
    ),
    PrivateName(
        "aiohttp.streams",
        "StreamReader",
        "_buffer",
        "join the chunks of one read of the network, and take a body that has arrived",
    ),
    PrivateName(
        "aiohttp.streams",
        "StreamReader",
        "_read_nowait",
        "what had arrived when a connection broke",
    ),
)
"""Attributes whose names begin with an underscore."""

UNDOCUMENTED_NAMES = (
    ("aiohttp.compression_utils", ("BrotliDecompressor", "ZLibDecompressor", "ZSTDDecompressor")),
    ("aiohttp.compression_utils", ("HAS_BROTLI", "HAS_ZSTD")),
    ("aiohttp.http", ("StreamWriter", "WebSocketReader")),
    ("aiohttp.client_proto", ("ResponseHandler",)),
)
"""Modules that the documentation of aiohttp does not name, and the names imported from them.
`RequestHandler.set_parser`, which is overridden to check the masks of frames, is not documented
either; the tests of `server/aiohttp_adapter.py` fail without it."""
