"""Provider requests, parsed from each dialect into common properties."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.upstream import ReceivedRequest

Document = dict[str, Any]


@dataclass(frozen=True)
class ProviderRequest(ABC):
    """One request to the provider. `body` is native; the other properties are parsed from it."""

    received: ReceivedRequest

    @property
    def body(self) -> Document:
        return self.received.body

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def text(self) -> str:
        """The whole body as text, for searching."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    @abstractmethod
    def tools(self) -> dict[str, Document]:
        """The declared tools: the provider's name for each, and the schema of its arguments."""

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Role (`system`, `user` or `assistant`) and text of each message, in order."""
        return [
            (role, part["text"])
            for role, part in self._parts()
            if isinstance(part.get("text"), str) and not part.get("thought")
        ]

    @property
    @abstractmethod
    def calls(self) -> list[tuple[str, Any]]:
        """The calls in the history: name and arguments."""

    @property
    @abstractmethod
    def results(self) -> list[str]:
        """The tool results in the history."""

    @property
    @abstractmethod
    def states(self) -> list[str]:
        """Replayed reasoning: its text or its signatures."""

    @property
    @abstractmethod
    def images(self) -> list[str]:
        """The images of the history, in base64."""

    @property
    @abstractmethod
    def schema(self) -> Document | None:
        """The JSON Schema of the answer."""

    def text_of_role(self, role: str) -> str:
        """All text of one role."""
        return "\n".join(text for each, text in self.messages if each == role)

    def tool(self, name: str) -> str:
        """The provider's name of a tool: the same name, or the only one that ends with it."""
        if name in self.tools:
            return name
        found = [each for each in self.tools if each.endswith(name)]
        assert len(found) == 1, f"{name}: {found or 'not'} among {[*self.tools]}"
        return found[0]

    def _parts(self) -> Iterator[tuple[str, Document]]:
        """All parts of all messages; a plain string is one part."""
        for message in self.body["messages"]:
            yield from ((message["role"], part) for part in _listed(message.get("content")))


class ChatProviderRequest(ProviderRequest):
    @property
    def tools(self) -> dict[str, Document]:
        functions = [tool["function"] for tool in self.body.get("tools", [])]
        return {each["name"]: each.get("parameters", {}) for each in functions}

    @property
    def calls(self) -> list[tuple[str, Any]]:
        made = [call for each in self.body["messages"] for call in each.get("tool_calls") or []]
        functions = [call["function"] for call in made]
        return [(each["name"], json.loads(each["arguments"])) for each in functions]

    @property
    def results(self) -> list[str]:
        tools = [each for each in self.body["messages"] if each["role"] == "tool"]
        return [_joined(each["content"]) for each in tools]

    @property
    def states(self) -> list[str]:
        found = [each.get("reasoning_content") for each in self.body["messages"]]
        return [thought for thought in found if thought]

    @property
    def images(self) -> list[str]:
        urls = [part["image_url"]["url"] for _, part in self._parts() if "image_url" in part]
        return [url.partition("base64,")[2] for url in urls]

    @property
    def schema(self) -> Document | None:
        wanted: Document = self.body.get("response_format", {}).get("json_schema", {})
        return wanted.get("schema")


class AnthropicProviderRequest(ProviderRequest):
    @property
    def tools(self) -> dict[str, Document]:
        return {each["name"]: each.get("input_schema", {}) for each in self.body.get("tools", [])}

    @property
    def calls(self) -> list[tuple[str, Any]]:
        return [(each["name"], each["input"]) for each in self._blocks("tool_use")]

    @property
    def results(self) -> list[str]:
        return [_joined(each["content"]) for each in self._blocks("tool_result")]

    @property
    def states(self) -> list[str]:
        return [each["signature"] for each in self._blocks("thinking")]

    @property
    def images(self) -> list[str]:
        inside = [part for each in self._blocks("tool_result") for part in _listed(each["content"])]
        found = [*self._blocks("image"), *(part for part in inside if part["type"] == "image")]
        return [each["source"]["data"] for each in found]

    @property
    def schema(self) -> Document | None:
        wanted: Document = self.body.get("output_config", {}).get("format", {})
        return wanted.get("schema")

    def _blocks(self, kind: str) -> list[Document]:
        return [part for _, part in self._parts() if part.get("type") == kind]

    def _parts(self) -> Iterator[tuple[str, Document]]:
        yield from (("system", part) for part in _listed(self.body.get("system")))
        yield from super()._parts()


class GeminiProviderRequest(ProviderRequest):
    @property
    def streamed(self) -> bool:
        return "streamGenerateContent" in self.received.path

    @property
    def tools(self) -> dict[str, Document]:
        declared = [
            each
            for tool in self.body.get("tools", [])
            for each in tool.get("functionDeclarations", [])
        ]
        return {
            each["name"]: each.get("parametersJsonSchema") or each.get("parameters", {})
            for each in declared
        }

    @property
    def messages(self) -> list[tuple[str, str]]:
        """A text with a signature inside is split into parts; they are merged here."""
        joined: list[tuple[str, str]] = []
        for role, text in super().messages:
            if role == "assistant" and joined and joined[-1][0] == role:
                text = joined.pop()[1] + text
            joined.append((role, text))
        return joined

    @property
    def calls(self) -> list[tuple[str, Any]]:
        return [(each["name"], each.get("args", {})) for each in self._under("functionCall")]

    @property
    def results(self) -> list[str]:
        answers = [each["response"] for each in self._under("functionResponse")]
        return [
            each["output"] if isinstance(each.get("output"), str) else json.dumps(each)
            for each in answers
        ]

    @property
    def states(self) -> list[str]:
        found = [part.get("thoughtSignature") for _, part in self._parts()]
        return [signature for signature in found if signature]

    @property
    def images(self) -> list[str]:
        inside = [
            part["inlineData"]["data"]
            for each in self._under("functionResponse")
            for part in each.get("parts", [])
        ]
        return [*(each["data"] for each in self._under("inlineData")), *inside]

    @property
    def schema(self) -> Document | None:
        wanted: Document = self.body.get("generationConfig", {})
        return wanted.get("responseJsonSchema") or wanted.get("responseSchema")

    def _under(self, key: str) -> list[Document]:
        return [part[key] for _, part in self._parts() if key in part]

    def _parts(self) -> Iterator[tuple[str, Document]]:
        system = self.body.get("systemInstruction", {})
        yield from (("system", part) for part in system.get("parts", []))
        for content in self.body["contents"]:
            role = "assistant" if content["role"] == "model" else content["role"]
            yield from ((role, part) for part in content["parts"])


class ResponsesProviderRequest(ProviderRequest):
    @property
    def tools(self) -> dict[str, Document]:
        declared = [each for each in self.body.get("tools", []) if each["type"] == "function"]
        return {each["name"]: each.get("parameters", {}) for each in declared}

    @property
    def calls(self) -> list[tuple[str, Any]]:
        calls = self._items("function_call")
        return [(each["name"], json.loads(each["arguments"])) for each in calls]

    @property
    def results(self) -> list[str]:
        return [_joined(each["output"]) for each in self._items("function_call_output")]

    @property
    def states(self) -> list[str]:
        return [each["encrypted_content"] for each in self._items("reasoning")]

    @property
    def images(self) -> list[str]:
        outputs = [_listed(each["output"]) for each in self._items("function_call_output")]
        inside = [part for output in outputs for part in output]
        parts = [*(part for _, part in self._parts()), *inside]
        urls = [part["image_url"] for part in parts if "image_url" in part]
        return [url.partition("base64,")[2] for url in urls]

    @property
    def schema(self) -> Document | None:
        wanted: Document = self.body.get("text", {}).get("format", {})
        return wanted.get("schema")

    def _items(self, kind: str) -> list[Document]:
        return [item for item in self.body["input"] if item.get("type") == kind]

    def _parts(self) -> Iterator[tuple[str, Document]]:
        yield from (("system", part) for part in _listed(self.body.get("instructions")))
        for item in self.body["input"]:
            if "role" in item:
                role = "system" if item["role"] == "developer" else item["role"]
                yield from ((role, part) for part in _listed(item["content"]))


def _listed(content: Any) -> list[Document]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def _joined(content: Any) -> str:
    return "".join(part.get("text", "") for part in _listed(content))
