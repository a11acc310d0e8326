"""The pages that describe the code are compared with it: configuration, stages, links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import NODEFAULT, Struct

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    ClientConfig,
    Config,
    LogConfig,
    ModelConfig,
    ProviderConfig,
    SearchConfig,
    ServerConfig,
    StoreConfig,
    TimeoutConfig,
    TraceConfig,
    VisionConfig,
    parse_config,
)
from antiphon.engine.routing import make_router
from antiphon.providers.registry import SPECS, build_providers

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
TABLES: dict[str, type[Struct]] = {
    "Top level": Config,
    "[server]": ServerConfig,
    "[providers.NAME]": ProviderConfig,
    "[providers.NAME.timeouts]": TimeoutConfig,
    '[providers.NAME.models."MODEL"]': ModelConfig,
    "[attempts]": AttemptConfig,
    "[store]": StoreConfig,
    "[trace]": TraceConfig,
    "[capsule]": CapsuleConfig,
    "[search]": SearchConfig,
    "[vision]": VisionConfig,
    "[clients.NAME]": ClientConfig,
    "[log]": LogConfig,
}
STAGES = sorted(set((DOCS / "stages").glob("*.md")) - {DOCS / "stages" / "README.md"})
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


# --- configuration --------------------------------------------------------------------------------


def documented(section: str) -> dict[str, str]:
    """The keys of a section, and the default that is given for each."""
    text = CONFIGURATION.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|[^|]+\|$", text, re.MULTILINE)
    return {key: default.strip() for key, default in rows}


def shown(field: msgspec.structs.FieldInfo) -> str:
    """A default as the page writes it: a dash for nothing, nothing for a table."""
    if field.default_factory is not NODEFAULT:
        return f"`{field.default_factory()}`"
    value: Any = field.default
    if isinstance(value, Struct):
        return ""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    is_long = isinstance(value, int | float) and value >= 10_000
    return f"`{value:_}`" if is_long else f"`{value}`"


@pytest.mark.parametrize(("section", "kind"), TABLES.items(), ids=list(TABLES))
def test_every_key_is_documented_with_its_default(section: str, kind: type[Struct]) -> None:
    fields = [field for field in msgspec.structs.fields(kind) if field.name != "source"]
    assert documented(section) == {field.name: shown(field) for field in fields}


def test_the_example_is_a_valid_configuration() -> None:
    [example] = re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    environment = {"ALICE_KEY": "a", "DEEPSEEK_API_KEY": "d"}
    config = parse_config(example, environment, name="example")
    router = make_router(config, build_providers(config, environment))
    assert router.resolve("gpt-5.5-mini").provider.name == "local"


def test_the_variables_that_name_providers_are_all_listed() -> None:
    names = [name for spec in SPECS.values() for name in spec.api_key_env]
    assert [name for name in names if f"`{name}`" not in CONFIGURATION] == []


# --- stages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", STAGES, ids=lambda page: page.stem)
def test_a_stage_has_a_page_in_the_common_form(page: Path) -> None:
    headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == "Mission, Input, Output, Side effects, Invariants, Extension points".split(
        ", "
    )


@pytest.mark.parametrize("page", STAGES, ids=lambda page: page.stem)
def test_a_stage_page_names_code_that_is_there(page: Path) -> None:
    [line] = re.findall(r"^Code: (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    files = [name for name in re.findall(r"`([^`]+)`", line) if "/" in name]
    classes = re.findall(r"\(`(\w+)", line)
    source = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in files)
    assert files
    assert [name for name in classes if f"class {name}" not in source] == []


def test_the_index_of_stages_has_every_page() -> None:
    index = (DOCS / "stages" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in STAGES if f"({page.name})" not in index] == []


# --- links ----------------------------------------------------------------------------------------


def anchor(heading: str) -> str:
    """As forges make it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, section = target.partition("#")
        if ":" in name:  # another site
            continue
        found = page.parent / name if name else page
        headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.M) if section else []
        if not found.exists() or (section and section not in map(anchor, headings)):
            dead.append(target)
    assert dead == []
