"""Unit tests of the blocking gateway."""

from __future__ import annotations

import socket
import threading

import pytest

import antiphon
from antiphon.config import Config, ProviderConfig


def test_create_and_stream_wait_for_their_results() -> None:
    with antiphon.open_blocking(environment={}) as gateway:
        response = gateway.create(model="echo/echo", input="Hello")
        with gateway.stream(model="echo/echo", input="one two") as stream:
            events = list(stream)
    assert antiphon.output_text(response) == "Hello"
    assert [event["delta"] for event in events if "delta" in event] == ["one", " two"]


def test_the_response_of_a_stream_is_complete_whatever_was_consumed() -> None:
    with (
        antiphon.open_blocking(environment={}) as gateway,
        gateway.stream(model="echo/echo", input="one two") as stream,
    ):
        assert next(iter(stream))["type"] == "response.created"
        assert antiphon.output_text(stream.response()) == "one two"


def test_errors_are_raised_in_the_calling_thread() -> None:
    with (
        antiphon.open_blocking(environment={}) as gateway,
        pytest.raises(antiphon.InvalidRequest) as caught,
    ):
        gateway.create(model="echo/echo", input="x", temperature=9)
    assert caught.value.param == "temperature"


def test_no_thread_is_left() -> None:
    before = {*threading.enumerate()}
    assert antiphon.run(model="echo/echo", input="Hello")["status"] == "completed"
    assert {*threading.enumerate()} <= before  # a thread of another test may end at the same time


def test_models_and_diagnostics_are_those_of_the_gateway() -> None:
    with antiphon.open_blocking(environment={}) as gateway:
        response = gateway.create(model="echo/echo", input="x", presence_penalty=1)
        [diagnostic] = gateway.diagnostics(response)
        models = [model["id"] for model in gateway.models()]
    assert diagnostic["param"] == "presence_penalty"
    assert "echo/echo" in models


def test_a_gateway_without_with_opens_itself_and_close_ends_its_thread() -> None:
    before = {*threading.enumerate()}
    gateway = antiphon.BlockingGateway(environment={})
    assert gateway.models()
    assert antiphon.output_text(gateway.create(model="echo/echo", input="One")) == "One"
    gateway.close()
    gateway.close()
    assert {*threading.enumerate()} <= before
    with pytest.raises(RuntimeError, match="This gateway is closed"):
        gateway.create(model="echo/echo", input="Two")


def test_closing_the_gateway_ends_what_other_threads_wait_for() -> None:
    errors: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        config = Config(providers={"silent": ProviderConfig(kind="chat", base_url=address)})
        gateway = antiphon.BlockingGateway(config, environment={})

        def wait() -> None:
            with pytest.raises(RuntimeError) as caught:
                gateway.create(model="silent/some-model", input="Hello")
            errors.append(str(caught.value))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        connection, _ = silent.accept()
        gateway.close()
        thread.join(timeout=20)
        connection.close()
    [error] = errors
    assert error.startswith("The gateway was closed")


def test_a_stream_of_a_closed_gateway_has_no_further_events() -> None:
    with antiphon.BlockingGateway(environment={}) as gateway:
        stream = gateway.stream(model="echo/echo", input="one two")
        with stream:
            events = iter(stream)
            assert next(events)["type"] == "response.created"
    with pytest.raises(RuntimeError, match="The gateway was closed"):
        stream.response()
