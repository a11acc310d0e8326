"""`antiphon init`: a first configuration file, question by question."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from antiphon.cli.config_template import Draft, ProviderDraft, render
from antiphon.cli.prompts import Prompts
from antiphon.cli.terminal import complain, is_terminal, make_console, make_table
from antiphon.config import ServerConfig, config_directory, find_config, parse_config
from antiphon.errors import ConfigError, InvalidAnswer
from antiphon.providers import echo
from antiphon.providers.registry import is_enabled_by_environment, known_specs
from antiphon.providers.spec import Spec

_EPILOG = """\
examples:
  antiphon init                          ask, show, write
  antiphon init --yes                    write what the environment suggests
  antiphon init --output team.toml       into another file
"""

_LOCAL_URL = "http://127.0.0.1:8000/v1"  # most local servers differ only by the port


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a first configuration file. Keys stay in the environment unless you type one; the\n"
        "file is shown before it is written, and readable by you alone."
    )
    parser.epilog = _EPILOG
    parser.add_argument("--output", metavar="FILE", help="where to write; asked for by default")
    parser.add_argument("--yes", action="store_true", help="take the defaults, ask nothing")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    console = make_console()
    interview = Prompts(console, silent=args.yes)
    path = Path(args.output) if args.output else _ask_place(interview)
    draft = _ask_draft(interview, os.environ)
    _show_file(console, path, render(draft, hide_keys=True))
    if path.exists() and not args.force:
        if args.yes:
            complain(f"{path} exists and was left as it is; --force replaces it.")
            return 1
        agreed = interview.confirm(f"{path} exists. Replace it?", default=False)
    else:
        agreed = interview.confirm(f"Write {path}?", default=True)
    if not agreed:
        console.print("Nothing was written.")
        return 1
    _write(path, render(draft))
    _show_next_steps(console, path, draft)
    return 0


# The questions


def _ask_place(interview: Prompts) -> Path:
    here, home = _places()
    interview.tell(Text("Where should the configuration go?", style="bold"))
    for number, place, about in ((1, here, "for this directory"), (2, home, "for you, anywhere")):
        exists = " (exists)" if place.exists() else ""
        interview.tell(Text.assemble(f"  {number}  {place}", (f"  {about}{exists}", "dim")))
    return interview.ask("1 or 2?", "1", lambda words: (here, home)[_number(words, 1, 2) - 1])


def _places() -> tuple[Path, Path]:
    return Path("antiphon.toml"), config_directory(os.environ) / "antiphon.toml"


def _ask_draft(interview: Prompts, environment: Mapping[str, str]) -> Draft:
    chosen = _ask_providers(interview, environment)
    providers = tuple(_ask_provider(interview, spec, environment) for spec in chosen)
    names = [*(provider.name for provider in providers), echo.SPEC.name]
    default = names[0]
    if len(names) > 2:
        default = interview.ask("Default provider?", default, lambda words: _one_of(words, names))
    return Draft(
        providers=providers,
        default_provider=default,
        fallback_model=_ask_fallback(interview, default, providers),
        port=interview.ask("Port?", str(ServerConfig().port), lambda w: _number(w, 0, 65_535)),
    )


def _ask_providers(interview: Prompts, environment: Mapping[str, str]) -> list[Spec]:
    found = [spec.name for spec in _offered() if is_enabled_by_environment(spec, environment)]
    table = make_table("", "name", "provider", "key in the environment", right=[""])
    for number, spec in enumerate(_offered(), 1):
        table.add_row(str(number), Text(spec.name, style="bold"), spec.title, _key(spec, found))
    interview.tell(table)
    interview.tell(Text("The built-in echo models are always there, too.", style="dim"))
    question = "Which ones? Numbers or names, or none:"
    return interview.ask(question, ", ".join(found) or "none", _chosen)


def _offered() -> list[Spec]:
    return [spec for spec in known_specs().values() if spec is not echo.SPEC]  # it is always there


def _key(spec: Spec, found: Sequence[str]) -> Text:
    if not spec.api_key_env:
        return Text("-", style="dim")
    names = " or ".join(spec.api_key_env)
    if spec.name in found:
        return Text.assemble(("✓ ", "bold green"), names)
    return Text.assemble(("not set: ", "dim"), names)


def _ask_provider(interview: Prompts, spec: Spec, environment: Mapping[str, str]) -> ProviderDraft:
    interview.tell(Text(f"\n{spec.title}", style="bold cyan"))
    if not spec.api_key_env:
        return _ask_server(interview, spec)
    base_url = interview.ask("Base URL?", spec.base_url, _url)
    variable = _variable(spec, environment) or spec.api_key_env[0]
    key = f"${{{variable}}}"
    if not interview.confirm(f"Take the key from the environment, as {key}?", default=True):
        key = _ask_key(interview)
    return ProviderDraft(name=spec.name, kind=spec.name, base_url=base_url, api_key=key)


def _ask_server(interview: Prompts, spec: Spec) -> ProviderDraft:
    """A server of one's own, with no models but those it is given here."""
    own = spec.name if spec.base_url else "local"
    name = interview.ask("What shall it be called?", own, lambda words: _server_name(words, own))
    base_url = interview.ask("Base URL?", spec.base_url or _LOCAL_URL, _url)
    key = _ask_key(interview) if interview.confirm("Does it need a key?", default=False) else ""
    model = interview.ask("A model it serves, or none:", "none", _optional)
    models = (model,) if model else ()
    return ProviderDraft(name=name, kind=spec.name, base_url=base_url, api_key=key, models=models)


def _ask_key(interview: Prompts) -> str:
    return interview.ask_secret("The key, or ${NAME} of a variable (not shown as you type):")


def _ask_fallback(interview: Prompts, default: str, providers: Sequence[ProviderDraft]) -> str:
    """Clients ask for names of their own, such as gpt-5.5: somebody should answer."""
    known = {each.name: [*each.models, *_model_names(each.kind)] for each in providers}
    known[echo.SPEC.name] = _model_names(echo.SPEC.name)
    suggestion = f"{default}/{known[default][0]}" if known[default] else "none"

    def read(words: str) -> str:
        prefix, _, model = words.partition("/")
        if words.lower() == "none" or (model and prefix in known):
            return _optional(words)
        raise InvalidAnswer(
            f"provider/model, please, with a provider of {', '.join(known)}; or none"
        )

    return interview.ask("Which model answers to names that nobody knows?", suggestion, read)


def _model_names(kind: str) -> list[str]:
    return [model.id for model in known_specs()[kind].models if not model.family]


# The answers


def _chosen(words: str) -> list[Spec]:
    if words.lower() == "none":
        return []
    names = [spec.name for spec in _offered()]
    chosen = dict.fromkeys(_one_of(word, names) for word in re.split(r"[,\s]+", words) if word)
    return [known_specs()[name] for name in chosen]


def _one_of(words: str, names: Sequence[str]) -> str:
    """A name, or its number in the list."""
    if words.isdecimal() and 1 <= int(words) <= len(names):
        return names[int(words) - 1]
    if words.lower() in names:
        return words.lower()
    raise InvalidAnswer(f"{words!r} is none of {', '.join(names)}")


def _number(words: str, least: int, most: int) -> int:
    if words.isdecimal() and least <= int(words) <= most:
        return int(words)
    raise InvalidAnswer(f"a number from {least} to {most}, please")


def _url(words: str) -> str:
    if re.fullmatch(r"https?://[^\s/]\S*", words):
        return words.rstrip("/")
    raise InvalidAnswer("a URL such as https://host/path, please")


def _server_name(words: str, own: str) -> str:
    free = words == own or words not in known_specs()
    if re.fullmatch(r"[A-Za-z0-9_-]+", words) and free:
        return words
    raise InvalidAnswer("letters, digits, - and _, and not the name of another provider")


def _optional(words: str) -> str:
    return "" if words.lower() == "none" else words


def _variable(spec: Spec, environment: Mapping[str, str]) -> str | None:
    return next((name for name in spec.api_key_env if environment.get(name)), None)


# The file


def _show_file(console: Console, path: Path, text: str) -> None:
    if is_terminal():
        syntax = Syntax(text.rstrip(), "toml", background_color="default", word_wrap=True)
        console.print(Panel(syntax, title=str(path), title_align="left", border_style="dim"))
    else:
        console.print(f"{path}:\n\n{text}", soft_wrap=True)


def _write(path: Path, text: str) -> None:
    """Readable by its owner alone, also where it was not before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _show_next_steps(console: Console, path: Path, draft: Draft) -> None:
    console.print(Text.assemble(("✓ ", "bold green"), f"wrote {path}"))
    option = (
        "" if find_config(None, os.environ, Path.cwd()) == path.absolute() else f" --config {path}"
    )
    try:
        parse_config(render(draft), os.environ, name=str(path))
    except ConfigError as error:
        console.print(Text(f"  before you serve: {error.message}", style="yellow"), soft_wrap=True)
    console.print(f"  antiphon check --live{option}    asks each provider", soft_wrap=True)
    console.print(f"  antiphon serve{option}           runs the gateway", soft_wrap=True)
