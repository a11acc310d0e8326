"""Model servers of one's own machine, as far as a gateway that starts asks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.support.model_lists import SERVERS

SHOWN: Mapping[str, Any] = {
    "qwen3:8b": {
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    },
    "gemma3:4b": {
        "capabilities": ["completion", "vision"],
        "model_info": {"general.architecture": "gemma3", "gemma3.context_length": 131072},
    },
    "nomic-embed-text:latest": {
        "capabilities": ["embedding"],
        "model_info": {"general.architecture": "nomic-bert", "nomic-bert.context_length": 2048},
    },
}
LMSTUDIO = {
    "object": "list",
    "data": [
        {
            "id": "qwen/qwen3-4b",
            "type": "llm",
            "max_context_length": 40960,
            "loaded_context_length": 8192,
            "capabilities": ["tool_use"],
        },
        {"id": "qwen2-vl-7b", "type": "vlm", "max_context_length": 32768},
        {"id": "text-embedding-nomic", "type": "embeddings", "max_context_length": 2048},
    ],
}
DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    "ollama": {"/api/tags": {"models": [{"name": name} for name in SHOWN]}},
    "lmstudio": {"/api/v0/models": LMSTUDIO},
    "vllm": {"/v1/models": SERVERS["vllm"].document},
    "llamacpp": {"/v1/models": SERVERS["llamacpp"].document},
    "other": {"/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "someone"}]}},
}


class _Handler(BaseHTTPRequestHandler):
    documents: Mapping[str, Any]

    def do_GET(self) -> None:
        self._reply(self.documents.get(self.path))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._reply(SHOWN.get(body["model"]) if self.path == "/api/show" else None)

    def _reply(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def local_server(kind: str) -> Iterator[str]:
    """Run a server of a kind; yield its address."""
    handler = type("Handler", (_Handler,), {"documents": DOCUMENTS[kind]})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
