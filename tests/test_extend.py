"""docs/extend.md is run: its packages are installed, and answer requests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.plugin_packages import install_project
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)
from tests.test_examples import run

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


PROVIDER, DIALECT, STAGE, MASK = blocks("python")
PROVIDER_PROJECT, DIALECT_PROJECT, STAGE_PROJECT, PIPELINE = blocks("toml")
ASK = """
import json, sys
import antiphon

model, config, text = sys.argv[1:]
with antiphon.open_blocking(config) as gateway:
    with gateway.stream(model=model, input=text, temperature=0.5, top_p=0.5) as stream:
        kinds = [event["type"] for event in stream]
        streamed = stream.response()
    try:
        whole = gateway.create(model=model, input=text)
    except antiphon.UpstreamError as error:
        whole = error.code
    codes = [diagnostic["code"] for diagnostic in gateway.diagnostics(streamed)]
print(json.dumps([streamed, whole, kinds, codes]))
"""


async def ask(tmp_path: Path, model: str, config: str, text: str, **env: str) -> list[Any]:
    """Ask a model with the packages in `tmp_path`, in a process of its own."""
    (tmp_path / "antiphon.toml").write_text(config, encoding="utf-8")
    arguments = ("-c", ASK, model, tmp_path / "antiphon.toml", text)
    found: list[Any] = json.loads(await run(*arguments, path=tmp_path, env=env))
    return found


def text_of(response: dict[str, Any]) -> str:
    [message] = response["output"]
    return str(message["content"][0]["text"])


async def test_a_provider_is_found_by_its_entry_point(tmp_path: Path) -> None:
    install_project(tmp_path, PROVIDER_PROJECT, PROVIDER)
    async with upstream(answer_either(whole_answer("Hello from Acme"))) as server:
        config = f'[providers.acme]\nbase_url = "{server.url}"\n'
        streamed, whole, _, codes = await ask(
            tmp_path, "acme/acme-large", config, "Hi", ACME_API_KEY="k"
        )
    assert (text_of(streamed), text_of(whole)) == ("Hello from Acme", "Hello from Acme")
    assert server.requests[0].headers["authorization"] == "Bearer k"
    assert server.requests[0].body["temperature"] == 0.5
    assert "param.ignored" in codes


async def test_a_dialect_is_found_by_its_entry_point(tmp_path: Path) -> None:
    install_project(tmp_path, DIALECT_PROJECT, DIALECT)
    async with upstream(
        send_lines({"text": "Hello "}, {"text": "there", "finishReason": "stop"})
    ) as server:
        config = f'[providers.liner]\nbase_url = "{server.url}"\n'
        streamed, whole, kinds, _ = await ask(
            tmp_path, "liner/any", config, "Hi", LINER_API_KEY="k"
        )
    assert (text_of(streamed), text_of(whole)) == ("Hello there", "Hello there")
    assert kinds.count("response.output_text.delta") == 2
    assert server.requests[0].path == "/v1/generate"
    assert server.requests[0].body == {
        **server.requests[0].body,
        "model": "any",
        "stream": True,
        "prompt": "user: Hi",
    }


REPLAY = """
import json, sys
import antiphon

recording = b'{"text": "Hello "}\\n{"text": "there"}\\n{"finishReason": "stop"}\\n'
events = antiphon.replay(recording, dialect="lines")
with open(sys.argv[1], "wb") as file:
    file.write(recording)
from antiphon.cli.main import main
assert main(["replay", "--dialect", "lines", sys.argv[1]]) == 0
print(json.dumps([event["type"] for event in events]))
"""


async def test_a_recording_in_the_dialect_of_a_package_is_replayed(tmp_path: Path) -> None:
    install_project(tmp_path, DIALECT_PROJECT, DIALECT)
    *by_command, by_library = (
        await run("-c", REPLAY, tmp_path / "recording", path=tmp_path)
    ).splitlines()
    kinds = [json.loads(line)["type"] for line in by_command]
    assert json.loads(by_library) == kinds
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


async def test_a_provider_sets_how_streams_of_a_dialect_end(tmp_path: Path) -> None:
    """`implied_finish` is for servers that never send a finish reason."""
    source = DIALECT.replace('dialect="lines",', 'dialect="lines", implied_finish="stop",')
    assert source != DIALECT
    install_project(tmp_path, DIALECT_PROJECT, source)
    async with upstream(send_lines({"text": "Hello there"})) as server:
        config = f'[providers.liner]\nbase_url = "{server.url}"\n'
        streamed, *_ = await ask(tmp_path, "liner/any", config, "Hi", LINER_API_KEY="k")
    assert (text_of(streamed), streamed["status"]) == ("Hello there", "completed")


async def test_the_page_imports_nothing_but_the_facades() -> None:
    imported = {
        line.split()[1]
        for block in (PROVIDER, DIALECT)
        for line in block.splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported == {"antiphon.dialect", "msgspec"}


async def test_a_line_that_the_dialect_cannot_read_fails_the_response(tmp_path: Path) -> None:
    install_project(tmp_path, DIALECT_PROJECT, DIALECT)
    script = send_lines({"text": "Hello "}, {"surprise": 1}, {"finishReason": "stop"})
    async with upstream(script) as server:
        config = f'[providers.liner]\nbase_url = "{server.url}"\n'
        streamed, whole, *_ = await ask(tmp_path, "liner/any", config, "Hi", LINER_API_KEY="k")
    for response in (streamed, whole):
        assert (response["status"], text_of(response)) == ("failed", "Hello ")


async def test_a_stage_is_found_by_its_entry_point(tmp_path: Path) -> None:
    install_project(tmp_path, STAGE_PROJECT, STAGE)
    streamed, whole, kinds, _ = await ask(tmp_path, "echo/echo", PIPELINE, "my key is sk-1")
    for response in (streamed, whole):
        assert response["status"] == "failed"
        assert response["error"]["message"].startswith("The response was withheld")
        assert "sk-1" not in json.dumps(response)
    assert kinds[-1] == "response.failed"
    streamed, whole, *_ = await ask(tmp_path, "echo/echo", PIPELINE, "no key here")
    assert (streamed["status"], whole["status"]) == ("completed", "completed")


async def test_a_stage_that_must_not_let_text_through_sees_every_batch(tmp_path: Path) -> None:
    project = STAGE_PROJECT.replace("withhold", "mask").replace("WithholdKeys", "MaskDigits")
    install_project(tmp_path, project, MASK)
    config = PIPELINE.replace("withhold", "mask")
    for response in (await ask(tmp_path, "echo/echo", config, "my PIN is 1234"))[:2]:
        assert text_of(response) == "my PIN is ••••"
        assert response["output_text"] == "my PIN is ••••"


def answer_either(document: dict[str, Any]) -> Script:
    """Answer with one JSON body, or with the same message as a stream if one is requested."""
    whole = send_json(200, document)
    [choice] = document["choices"]
    frames = [chunk({"content": choice["message"]["content"]}), chunk({}, "stop"), DONE]

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await (send_frames(frames) if request.body.get("stream") else whole)(request, connection)

    return script


def send_lines(*lines: dict[str, Any]) -> Script:
    return send_frames([json.dumps(line).encode() + b"\n" for line in lines])
