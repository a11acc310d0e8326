"""User instructions of one response in the whole gateway: all threads, by thread and by library.

CPU time depends on the neighbours of a shared machine; the number of instructions hardly does. A
gateway in its default configuration (trace, SQLite, usage and log on) runs in valgrind's callgrind.
This program is its provider and its only client. Both ends are in one process, so what arrives in
which read of the network is the same in every run: a burst is one write, and in a paced stream the
provider sends a chunk when the client has received the one before. The smallest of several batches
counts, because timers of the gateway can only add instructions.

    python bench/instructions.py [SCENARIO …] [--against CHECKOUT] [--check] [--write]

`--against` also measures another checkout, `--write` keeps the figures in
`bench/results/instructions.json`, and `--check` fails if a figure is more than 3 % above the kept
one. A commit that is worth more instructions runs `--write` and gives the reason in its message.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "instructions.json"
LIMIT = 1.03
READY_S = 120.0
REPLY_S = 60.0

CONFIG = """\
default_provider = "fake"
[server]
port = {port}
[providers.fake]
kind = "chat"
base_url = "http://127.0.0.1:{provider_port}/v1"
api_keys = ["bench-key"]
"""

LAUNCH = """\
import sys
from antiphon.cli.main import main
from antiphon.store.trace import trace_store
trace_store.BATCH = 20
trace_store.LINGER_S = 3600.0
sys.exit(main())
"""
"""The command, but the trace writes every 20 rows instead of every half second: how many responses
share a transaction must not depend on the speed of the machine."""

WORDS = "the gateway reads every chunk and sends one event for it".split()
TOOL = {
    "name": "write_file",
    "description": "Write a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        "required": ["path", "text"],
    },
}


class Scenario(NamedTuple):
    """One kind of response, and how many of them are one batch."""

    path: str
    kind: str
    """What the provider sends: `text`, `reasoning` or `arguments`."""
    chunks: int
    """Of the provider's stream; of a whole response, the words of its text."""
    streamed: bool = True
    paced: bool = False
    responses: int = 10


RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"
SCENARIOS = {
    "whole": Scenario(RESPONSES, "text", 200, streamed=False, responses=20),
    "whole-long": Scenario(RESPONSES, "text", 4000, streamed=False),
    "stream-2": Scenario(RESPONSES, "text", 2, responses=20),
    "stream-200": Scenario(RESPONSES, "text", 200),
    "paced-200": Scenario(RESPONSES, "text", 200, paced=True, responses=5),
    "reasoning-200": Scenario(RESPONSES, "reasoning", 200),
    "arguments-200": Scenario(RESPONSES, "arguments", 200),
    "messages-200": Scenario(MESSAGES, "text", 200),
    "chat-200": Scenario(CHAT, "text", 200),
}


def word(number: int) -> str:
    return " " + WORDS[number % len(WORDS)]


# The provider


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """Make a chunk as vendors send it, fields that are not read included."""
    document = {
        "id": "chatcmpl-B7mTq0JwXl",
        "object": "chat.completion.chunk",
        "created": 1794775394,
        "model": "bench",
        "service_tier": "default",
        "system_fingerprint": "fp_0a1b2c3d4e",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
    }
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


USAGE = {"prompt_tokens": 24, "completion_tokens": 200, "total_tokens": 224}


def stream_of(kind: str, count: int) -> Iterator[bytes]:
    """Make the chunks of a stream: `count` with a piece each, and the usual first and last ones."""
    yield chunk({"role": "assistant", "content": ""})
    if kind == "arguments":
        function = {"name": TOOL["name"], "arguments": '{"path":"a.txt","text":"'}
        yield chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": function}]})
    for number in range(count):
        piece = word(number)
        if kind == "arguments":
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        else:
            yield chunk({"content" if kind == "text" else "reasoning_content": piece})
    if kind == "arguments":
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
    elif kind == "reasoning":
        yield chunk({"content": "Done."})
    yield chunk({}, "tool_calls" if kind == "arguments" else "stop")
    last = {"id": "chatcmpl-B7mTq0JwXl", "model": "bench", "choices": [], "usage": USAGE}
    yield b"data: " + json.dumps(last).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def whole_of(count: int) -> bytes:
    message = {"role": "assistant", "content": "".join(map(word, range(count)))}
    return json.dumps(
        {
            "id": "chatcmpl-B7mTq0JwXl",
            "object": "chat.completion",
            "created": 1794775394,
            "model": "bench",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": USAGE,
        }
    ).encode()


class Provider:
    """A provider of Chat Completions; the scenario is the name of the model."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = threading.Semaphore(0)
        """Released by the client for each read of a paced stream."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = connection.makefile("rb")
        while line := reader.readline():
            headers = http.client.parse_headers(reader)
            if not line.startswith(b"POST"):  # a list of models is not needed here
                connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            request = json.loads(reader.read(int(headers["content-length"])))
            self._reply(connection, SCENARIOS[request["model"]])

    def _reply(self, connection: socket.socket, scenario: Scenario) -> None:
        if not scenario.streamed:
            body = whole_of(scenario.chunks)
            head = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + body)
            return
        head = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        frames = [
            b"%x\r\n%b\r\n" % (len(each), each)
            for each in stream_of(scenario.kind, scenario.chunks)
        ]
        frames[-1] += b"0\r\n\r\n"
        if not scenario.paced:
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"".join(frames))
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + frames[0])
        for frame in frames[1:-2]:
            connection.sendall(frame)
            if not self.received.acquire(timeout=REPLY_S):
                return
        connection.sendall(frames[-2] + frames[-1])


# The client


def request_body(name: str, scenario: Scenario) -> bytes:
    body: dict[str, Any] = {"model": name, "stream": scenario.streamed}
    text = "Say what the gateway does with every chunk of this stream."
    if scenario.path == RESPONSES:
        body |= {"input": text}
    else:
        body |= {"messages": [{"role": "user", "content": text}], "max_tokens": 500}
    if scenario.kind == "arguments":
        body["tools"] = [{"type": "function", **TOOL}]
    return json.dumps(body).encode()


class Client:
    """The only client of the gateway, on one connection."""

    def __init__(self, port: int, provider: Provider) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_S)
        self._provider = provider

    def send(self, name: str) -> bool:
        """Send one request and read the response; false if the gateway lacks the endpoint."""
        scenario = SCENARIOS[name]
        headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        body = request_body(name, scenario)
        self._connection.request("POST", scenario.path, body, headers)
        response = self._connection.getresponse()
        received = b""
        while piece := response.read1(1 << 20):
            received += piece
            if scenario.paced:
                self._provider.received.release()
        response.read()  # lets the connection be used again
        if response.status == 404:
            return False
        last = word(scenario.chunks - 1).encode() if scenario.kind == "text" else b"write_file"
        if response.status != 200 or (scenario.kind != "reasoning" and last not in received):
            raise SystemExit(f"{name}: {response.status} {received[-2000:]!r}")
        return True


# The gateway, counted


class Count(NamedTuple):
    """Instructions of one response."""

    threads: tuple[int, ...]
    """The event loop, then the other threads in the order of their beginning."""
    libraries: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.threads)


LIBRARIES = {
    "Python": r"libpython|/python3",
    "JSON (msgspec)": r"msgspec",
    "HTTP (aiohttp)": r"aiohttp|multidict|yarl|frozenlist|propcache|httptools",
    "event loop (uvloop)": r"uvloop|_asyncio",
    "SQLite": r"sqlite",
    "zlib": r"libz\.|zlib",
    "cryptography": r"crypt|_ssl|libssl|_hashlib|_sha",
    "C library": r"libc[.-]|ld-linux|libm[.-]|libpthread|vdso",
}


def library_of(path: str) -> str:
    """Name the group of a shared object; the folder of an extension module does not count."""
    for folder in ("site-packages/", "lib-dynload/"):
        path = path.rpartition(folder)[2]
    return next((name for name, rule in LIBRARIES.items() if re.search(rule, path)), "other")


def read_profile(lines: Iterable[str]) -> Counter[str]:
    """Sum up one file of callgrind: the instructions of each library, without what it calls."""
    names: dict[str, str] = {}
    found: Counter[str] = Counter()
    library = "other"
    is_call = False
    for line in lines:
        if line.startswith("ob="):
            number, _, path = line[3:].strip().partition(" ")
            if path:
                names[number] = library_of(path)
            library = names.get(number, "other")
        elif line.startswith("cob="):
            number, _, path = line[4:].strip().partition(" ")
            if path:
                names[number] = library_of(path)
        elif line.startswith("calls="):
            is_call = True  # the next line is what the called function cost
        elif line[:1] in "+-*0123456789" and line[:1]:
            if not is_call:
                found[library] += int(line.split()[-1])
            is_call = False
    return found


class Cost(NamedTuple):
    """Instructions of one function of C and its calls, with what it calls."""

    instructions: int
    calls: int


def read_calls(lines: Iterable[str]) -> tuple[dict[str, Cost], int]:
    """Sum up one file of callgrind: the calls of each function, and all instructions."""
    names: dict[str, str] = {}
    instructions: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    total = 0
    called = ""
    is_call = False
    for line in lines:
        if line.startswith(("fn=", "cfn=")):
            number, _, name = line.strip().partition("=")[2].partition(" ")
            names.setdefault(number, name)
            called = names[number] if line.startswith("cfn=") else called
        elif line.startswith("calls="):
            calls[called] += int(line[6:].split()[0])
            is_call = True  # the next line is what they cost
        elif re.match(r"[-+*\d]", line):
            cost = int(line.split()[-1])
            if is_call:
                instructions[called] += cost
            else:
                total += cost
            is_call = False
    return {name: Cost(instructions[name], calls[name]) for name in calls}, total


class Gateway:
    """A gateway in callgrind. Its instructions are counted from `measure` on."""

    def __init__(self, work: Path, pid: int) -> None:
        self._work = work
        self.pid = pid
        self._part = 0

    def control(self, *command: str) -> None:
        vgdb = ["vgdb", f"--pid={self.pid}", "--wait=30", *command]
        subprocess.run(vgdb, check=True, capture_output=True, timeout=60)

    def measure(self, load: Callable[[], None], count: int) -> Count:
        """Count the instructions of `load`, which sends `count` requests."""
        self.control("zero")
        load()
        self.wait_until_idle()
        self.control("dump")
        self._part += 1
        threads: list[int] = []
        libraries: Counter[str] = Counter()
        for path in sorted(self._work.glob(f"profile.{self._part}-*")):
            with path.open() as lines:
                found = read_profile(lines)
            threads.append(found.total() // count)
            libraries += found
            path.unlink()
        each = {name: total // count for name, total in libraries.most_common()}
        return Count(tuple(threads), each)

    def wait_until_idle(self) -> None:
        """Wait for the threads that store the response: two readings without any CPU time."""
        last = -1
        while (now := self._cpu_ticks()) != last:
            last = now
            time.sleep(0.15)

    def _cpu_ticks(self) -> int:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running_gateway(
    work: Path, checkout: Path, port: int, launch: str = LAUNCH
) -> Iterator[Gateway]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_DATA_HOME": str(work / "data"),
        "HOME": str(work),
    }
    command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no"]
    command += [f"--callgrind-out-file={work}/profile", f"--log-file={work}/valgrind.log"]
    command += [sys.executable, "-c", launch, "serve"]
    command += ["--config", str(work / "antiphon.toml")]
    with (work / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            wait_until_ready(process, port, work / "log")
            yield Gateway(work, process.pid)
        finally:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:  # it does not listen yet
            time.sleep(0.2)
        finally:
            connection.close()
    raise SystemExit(f"The gateway did not start:\n{log.read_text()[-3000:]}")


def measure(checkout: Path, names: list[str], rounds: int) -> dict[str, Count]:
    """Measure scenarios on the source of a checkout; those without an endpoint are left out."""
    provider = Provider()
    port = free_port()
    found: dict[str, list[Count]] = {}
    with tempfile.TemporaryDirectory(prefix="antiphon-instructions-") as directory:
        work = Path(directory)
        config = CONFIG.format(port=port, provider_port=provider.port)
        (work / "antiphon.toml").write_text(config)
        with running_gateway(work, checkout, port) as gateway:
            client = Client(port, provider)
            for name in names:  # imports, caches, a connection to the provider
                if all(client.send(name) for _ in range(4)):
                    found[name] = []
            gateway.control("instrumentation", "on")
            for _ in range(rounds):
                for name, counts in found.items():
                    count = SCENARIOS[name].responses

                    def load(name: str = name, count: int = count) -> None:
                        for _ in range(count):
                            client.send(name)

                    counts.append(gateway.measure(load, count))
    return {name: min(counts, key=lambda each: each.total) for name, counts in found.items()}


# Figures


def environment() -> dict[str, str]:
    """What the figures depend on besides the source."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": version, "machine": platform.machine()}


def tabulate(found: dict[str, Count], other: dict[str, int]) -> str:
    """Make a table in thousand instructions per response."""
    names = [*LIBRARIES, "other"]
    lines = [
        "| thousand instructions | all | before | ratio | event loop | other threads | "
        + " | ".join(names)
        + " |",
        "|---|" + "---:|" * (len(names) + 5),
    ]
    for name, count in found.items():
        before = other.get(name)
        cells = [f"{count.total / 1e3:,.0f}"]
        cells += ["", ""] if before is None else [f"{before / 1e3:,.0f}"]
        cells += [] if before is None else [f"{count.total / before:.3f}"]
        cells += [f"{count.threads[0] / 1e3:,.0f}"]
        cells += [" + ".join(f"{each / 1e3:,.0f}" for each in count.threads[1:] if each > 500)]
        cells += [f"{count.libraries.get(each, 0) / 1e3:,.0f}" for each in names]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if {"stream-2", "stream-200"} <= found.keys():
        chunk_cost = (found["stream-200"].total - found["stream-2"].total) / 198
        lines += ["", f"One chunk of a burst: {chunk_cost / 1e3:.1f}."]
    if {"stream-2", "paced-200"} <= found.keys():
        chunk_cost = (found["paced-200"].total - found["stream-2"].total) / 198
        lines += [f"One chunk of a paced stream: {chunk_cost / 1e3:.1f}."]
    return "\n".join(lines)


def find_growth(found: dict[str, Count], kept: dict[str, int]) -> dict[str, str]:
    """Return a sentence for each figure that is more than the limit above the kept one."""
    return {
        name: f"{name}: {count.total:,} instructions, {count.total / kept[name] - 1:+.1%} against"
        f" {kept[name]:,}"
        for name, count in found.items()
        if name in kept and count.total > kept[name] * LIMIT
    }


def read_results() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return document


def write_results(found: dict[str, Count]) -> None:
    """Keep figures; those of scenarios that were not measured stay."""
    kept: dict[str, Any] = read_results().get("responses", {})
    kept |= {
        name: {
            "instructions": count.total,
            "threads": list(count.threads),
            "libraries": count.libraries,
        }
        for name, count in found.items()
    }
    document = {"environment": environment(), "responses": kept}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


def check(found: dict[str, Count], rounds: int) -> None:
    """End the program with an error if a figure has grown. One that seems to is measured again, in
    more rounds: what the gateway does every second may have fallen into all batches."""
    kept = read_results()
    if kept.get("environment") != environment():
        print(f"The kept figures are not comparable: measured with {kept.get('environment')}.")
        return
    figures = {name: each["instructions"] for name, each in kept["responses"].items()}
    grown = find_growth(found, figures)
    if grown:
        print("\n".join(grown.values()), "measured again:", sep="\n", file=sys.stderr)
        grown = find_growth(measure(HERE.parent, [*grown], 3 * rounds), figures)
    if grown:
        print("\n".join(grown.values()), file=sys.stderr)
        raise SystemExit(
            "Responses need more instructions. If that is worth it, run "
            "`make instructions ARGS=--write` and give the reason in the commit message."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", choices=[[], *SCENARIOS], metavar="SCENARIO")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--check", action="store_true", help="fail if a figure has grown")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {RESULTS.name}")
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed (`make instructions` installs it).")
    names = args.scenarios or list(SCENARIOS)
    if args.against is None:
        kept = read_results().get("responses", {})
        other = {name: each["instructions"] for name, each in kept.items()}
    else:
        before = measure(args.against.resolve(), names, args.rounds)
        other = {name: count.total for name, count in before.items()}
    found = measure(HERE.parent, names, args.rounds)
    print(tabulate(found, other))
    if args.write:
        write_results(found)
    if args.check:
        check(found, args.rounds)


if __name__ == "__main__":
    main()
