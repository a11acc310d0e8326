"""The pages that describe the code are compared with it: settings, stages, architecture, links."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    ClientConfig,
    ClientLimitConfig,
    CompactionConfig,
    CompatibilityConfig,
    Config,
    LogConfig,
    McpConfig,
    McpServerConfig,
    ModelConfig,
    PipelineConfig,
    PriceConfig,
    ProviderConfig,
    SearchConfig,
    ServerConfig,
    StoreConfig,
    TimeoutConfig,
    TraceConfig,
    VisionConfig,
    parse_config,
)
from antiphon.core.faults.kinds import FAULT_KINDS
from antiphon.core.filters import markup
from antiphon.core.freeform import grammar
from antiphon.core.structured_output import json_schema
from antiphon.core.translation import filters, translation
from antiphon.core.web_search import filter as web_search
from antiphon.engine.media import image_description
from antiphon.engine.routing import make_router
from antiphon.providers.registry import SPECS, build_providers
from antiphon.server.routes import EXACT, TEMPLATES
from antiphon.stages.builtin import build_pipeline
from tests.support.request_path import MODELS, count_request_path
from tests.support.tables import table
from tests.test_layers import CORE_PACKAGES, LAYERS, PURE

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "antiphon"
DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
TABLES: dict[str, type[Struct]] = {
    "Top level": Config,
    "[server]": ServerConfig,
    "[providers.NAME]": ProviderConfig,
    "[providers.NAME.timeouts]": TimeoutConfig,
    '[providers.NAME.models."MODEL"]': ModelConfig,
    "[attempts]": AttemptConfig,
    "[limits.NAME]": ClientLimitConfig,
    '[prices."PROVIDER/MODEL"]': PriceConfig,
    "[store]": StoreConfig,
    "[trace]": TraceConfig,
    "[capsule]": CapsuleConfig,
    "[search]": SearchConfig,
    "[mcp]": McpConfig,
    "[mcp.servers.NAME]": McpServerConfig,
    "[vision]": VisionConfig,
    "[compaction]": CompactionConfig,
    "[clients.NAME]": ClientConfig,
    "[pipeline]": PipelineConfig,
    "[compatibility]": CompatibilityConfig,
    "[log]": LogConfig,
}
STAGE_INDEX = (DOCS / "stages" / "README.md").read_text(encoding="utf-8")
STAGES = sorted(set((DOCS / "stages").glob("*.md")) - {DOCS / "stages" / "README.md"})
TOP_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*sorted(DOCS.rglob("*.md")), *TOP_PAGES]
NAMES_OTHER_FILES = {ROOT / "CHANGELOG.md", DOCS / "add-a-provider.md"}
"""Pages that may name files that do not exist: any more, or until a reader has written them."""
METAPHORS = re.compile(
    r"\b(on the air|desks?|shelf|shelves|errands?|journeys?|lessons?|the rim|the heart)\b", re.I
)


# --- configuration --------------------------------------------------------------------------------


def read_documented_keys(section: str) -> dict[str, str]:
    """Read the keys of a section, with the default that is given for each."""
    text = CONFIGURATION.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|[^|]+\|$", text, re.MULTILINE)
    return {key: default.strip() for key, default in rows}


def format_default(field: msgspec.structs.FieldInfo) -> str:
    """Format a default as the page does: a dash for none, empty for a table."""
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


@table(("section", "kind"), TABLES.items(), ids=list(TABLES))
def test_every_key_is_documented_with_its_default(section: str, kind: type[Struct]) -> None:
    no_keys = ("source", "local", "chosen_model")
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in no_keys]
    assert read_documented_keys(section) == {field.name: format_default(field) for field in fields}


def test_the_examples_are_valid_configurations() -> None:
    examples = re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert len(examples) == 3
    names = re.findall(r"\$\{(\w+)\}", CONFIGURATION)
    environment = {**dict.fromkeys(names, "k" * 32), "DEEPSEEK_API_KEY": "d"}
    for example in examples:
        config = parse_config(example, environment, name="example")
        router = make_router(config, build_providers(config, environment))
        assert router.default_name().startswith("deepseek/")


@table("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_every_variable_in_a_configuration_is_one_that_is_replaced(page: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert [found for block in blocks for found in re.findall(r"\$\w+", block)] == []


def test_every_api_key_variable_is_listed() -> None:
    names = [name for spec in SPECS.values() for name in spec.api_key_env]
    assert [name for name in names if f"`{name}`" not in CONFIGURATION] == []


# --- stages ---------------------------------------------------------------------------------------


@table("page", STAGES, ids=lambda page: page.stem)
def test_a_stage_page_has_the_common_headings(page: Path) -> None:
    headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == "Mission, Input, Output, Side effects, Invariants, Extension points".split(
        ", "
    )


@table("page", STAGES, ids=lambda page: page.stem)
def test_a_stage_page_names_code_that_exists(page: Path) -> None:
    [line] = re.findall(r"^Code: (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    files = [name for name in re.findall(r"`([^`]+)`", line) if "/" in name]
    names = [name for group in re.findall(r"\(`([\w.]+)", line) for name in group.split(".")]
    source = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in files)
    assert files
    assert [name for name in names if not re.search(rf"(class|def) {name}\b", source)] == []


def test_the_index_of_stages_has_every_page() -> None:
    assert [page.name for page in STAGES if f"({page.name})" not in STAGE_INDEX] == []


def test_every_stage_has_its_page() -> None:
    """A stage is a class of stages that derives from `Stage`."""
    stages = {
        node.name
        for path in (SOURCE / "stages").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any("Stage" in ast.unparse(b) for b in node.bases)
    }
    codes = [re.findall(r"^Code: .*$", page.read_text("utf-8"), re.M)[0] for page in STAGES]
    assert stages
    assert [name for name in stages if not any(f"`{name}`" in code for code in codes)] == []


def test_the_index_of_stages_has_the_order_of_the_pipeline() -> None:
    built = re.findall(r"(\w+Stage)\(", inspect.getsource(build_pipeline))
    listed = re.findall(r"^\| \d+ \|.*`(\w+Stage)`", STAGE_INDEX, re.MULTILINE)
    assert [name for name in listed if name in built] == built


# --- architecture ---------------------------------------------------------------------------------


def find_section(title: str) -> str:
    """Return the text of a section of docs/architecture.md."""
    return ARCHITECTURE.split(f"# {title}\n")[1].split("\n## ")[0]


def test_the_source_tree_has_every_package() -> None:
    [tree] = re.findall(r"```\nsrc/antiphon/\n(.*?)```", ARCHITECTURE, re.DOTALL)
    names = {name for line in tree.splitlines() for name in line.split("  ") if name.endswith("/")}
    listed = {name.strip("/") for line in names for name in line.split()}
    packages = {path.parent.name for path in SOURCE.rglob("__init__.py")} - {"antiphon"}
    assert listed == packages


def test_the_table_of_layers_is_the_one_that_is_enforced() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (●?) ?\|", find_section("The layers"), re.MULTILINE)
    assert [name for name, _ in rows] == LAYERS
    assert {name for name, mark in rows if mark} == PURE


def test_the_order_of_core_packages_is_the_one_that_is_enforced() -> None:
    assert " · ".join(f"`{name}`" for name in CORE_PACKAGES) in find_section("The layers")


def test_the_table_of_filters_has_every_filter() -> None:
    rows = re.findall(r"^\| `(\w+Filter)` \| `([\w/]+\.py)`", ARCHITECTURE, re.MULTILINE)
    source = inspect.getsource(markup) + inspect.getsource(filters)
    made = set(re.findall(r"(\w+Filter)(?:\(|\.of\()", source))
    assert {name for name, _ in rows} == made
    for name, module in rows:
        assert f"class {name}(" in (SOURCE / module).read_text(encoding="utf-8")


def test_a_request_touches_no_more_than_the_page_states(tmp_path: Path) -> None:
    """How often the network is read depends on timing: a few switches more are the same figure."""
    row = r"^\| (?:a provider on a socket|the built-in `echo`)" + r" \| (\d+)" * 4 + r" \|$"
    rows = re.findall(row, ARCHITECTURE, re.MULTILINE)
    for model, (files, switches, classes, to_know) in zip(MODELS, rows, strict=True):
        path = asyncio.run(count_request_path(tmp_path, model))
        assert len(path.files) <= int(files)
        assert path.switches <= int(switches) * 1.05
        assert len(path.classes) <= int(classes)
        assert len(path.to_know) <= int(to_know)


# --- limits ---------------------------------------------------------------------------------------

LIMITS = [
    (
        "web-search.md",
        f"at most {web_search._MAX_SEARCHES} searches in {web_search._MAX_ROUNDS} rounds",
    ),
    ("web-search.md", f"at most {web_search._MAX_QUERIES} queries"),
    ("freeform-tools.md", f"characters in a grammar | {grammar.MAX_CHARACTERS:,} |"),
    ("freeform-tools.md", f"repetitions in it | {grammar.MAX_MARKS} |"),
    ("structured-output.md", f"size of a schema is {json_schema.MAX_BYTES // 1024} KB"),
    ("configuration.md", f"at most {image_description._MAX_PER_REQUEST} descriptions"),
    ("stages/translation.md", f"never more than {translation._MAX_ROUNDS} further rounds"),
]


@table(("page", "text"), LIMITS, ids=[text for _, text in LIMITS])
def test_a_limit_on_a_page_is_the_one_in_the_code(page: str, text: str) -> None:
    assert text in (DOCS / page).read_text(encoding="utf-8")


def test_every_log_entry_is_documented() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    entries = set(re.findall(r'Entry\(\s*"([\w.]+)"', source))
    documented = set(re.findall(r"`([a-z]+\.[a-z_]+)`", (DOCS / "log.md").read_text("utf-8")))
    assert entries
    assert entries - documented == set()


def test_every_path_is_documented_with_its_methods() -> None:
    rows = re.findall(r"^\| `([A-Z, ]+) (/[^` ]+)`", (DOCS / "paths.md").read_text("utf-8"), re.M)
    listed = {(method, path) for methods, path in rows for method in methods.split(", ")}
    served = {
        (method, re.sub(r"\{\w*?(\w+?)(_id)?(:path)?\}", r"{\1}", path))
        for path, route in {**EXACT, **TEMPLATES}.items()
        for method in route.methods
        if method != "HEAD"
    }
    assert listed == served


# --- the index for language models ----------------------------------------------------------------


def test_the_index_for_language_models_has_every_page_of_the_site() -> None:
    """In the form of llmstxt.org: a title, a summary, and lists of links with a description."""
    index = (DOCS / "llms.txt").read_text(encoding="utf-8")
    title, summary, *_ = [line for line in index.splitlines() if line]
    assert title == "# Antiphon"
    assert summary.startswith("> ")
    linked = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", index, re.MULTILINE)
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    pages = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(linked) == sorted(pages)
    assert len(index.splitlines()) < 100


# --- decisions ------------------------------------------------------------------------------------


def test_the_index_of_decisions_has_every_record_with_its_title() -> None:
    records = sorted((DOCS / "adr").glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in records]
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.*?) \|", index, re.MULTILINE)
    assert [file for _, file, _ in listed] == [page.name for page in records]
    assert [f"# {number}. {title}" for number, _, title in listed] == titles


# --- words, files and links -----------------------------------------------------------------------


@table("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_metaphors(page: Path) -> None:
    assert METAPHORS.findall(page.read_text(encoding="utf-8")) == []


@table("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """By its path from the root, or below `src/antiphon`, or by its bare name."""
    if page in NAMES_OTHER_FILES:
        return
    named = re.findall(r"`([\w./*-]+\.py)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    anywhere = ("", "src/antiphon/") if "/" in name else ("", "src/antiphon/**/", "tests/**/")
    return any(any(ROOT.glob(start + name)) for start in anywhere)


def make_anchor(heading: str) -> str:
    """Make the anchor of a heading, as GitHub does."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_error_code_of_a_rejected_request_is_explained() -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r"\bcode=\"([a-z_]+)\"", text)}
    assert len(codes) > 30
    public = {row.public_code for row in FAULT_KINDS.values()}
    assert [code for code in sorted(codes | public) if f"`{code}`" not in page] == []


@table("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_installs_antiphon_from_an_index(page: Path) -> None:
    """There is no such package, and somebody else could register the name."""
    text = page.read_text(encoding="utf-8")
    from_index = (
        r"(?:pip3?|pipx|uv tool|uv pip) install ['\"]?antiphon\b|uvx antiphon|pull antiphon"
    )
    assert re.findall(from_index, text) == []


@table("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_resolves(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, section = target.partition("#")
        if ":" in name:  # another site
            continue
        found = page.parent / name if name else page
        headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.M) if section else []
        if not found.exists() or (section and section not in map(make_anchor, headings)):
            dead.append(target)
    assert dead == []
