"""`antiphon init`: create a configuration file interactively."""

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

from antiphon.cli.config_template import ConfigDraft, ProviderDraft, render_config
from antiphon.cli.prompts import Prompts
from antiphon.cli.terminal import is_terminal, make_console, make_table, print_error
from antiphon.config import ServerConfig, config_directory, find_config, parse_config
from antiphon.errors import ConfigError, InvalidAnswer
from antiphon.providers import echo
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.registry import Provider, is_enabled_by_environment, known_specs
from antiphon.providers.spec import Spec

_EPILOG = """\
examples:
  antiphon init                          ask questions, show the file, write it
  antiphon init --yes                    use the API keys in the environment; no questions
  antiphon init --output team.toml       write another file
"""

_SHOWN = 12
_LOCAL_URL = "http://127.0.0.1:8000/v1"  # most local servers differ only by the port


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Create a configuration file. API keys stay in the environment unless you enter one. The\n"
        "file is shown before it is written; only you can read it (mode 0600)."
    )
    parser.epilog = _EPILOG
    parser.add_argument("--output", metavar="FILE", help="the file to write; default: ask")
    parser.add_argument("--yes", action="store_true", help="accept all defaults; ask nothing")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    console = make_console()
    prompts = Prompts(console, use_defaults=args.yes)
    path = Path(args.output) if args.output else _ask_path(prompts)
    draft = _ask_draft(prompts, os.environ)
    _print_file(console, path, render_config(draft, hide_keys=True))
    if path.exists() and not args.force:
        if args.yes:
            print_error(f"{path} already exists and was not changed; use --force to replace it.")
            return 1
        agreed = prompts.confirm(f"{path} already exists. Replace it?", default=False)
    else:
        agreed = prompts.confirm(f"Write {path}?", default=True)
    if not agreed:
        console.print("Nothing was written.")
        return 1
    _write_file(path, render_config(draft))
    _print_next_steps(console, path, draft)
    return 0


# Questions


def _ask_path(prompts: Prompts) -> Path:
    personal, local = _list_paths()
    prompts.show(Text("Where should the configuration file be?", style="bold"))
    for number, path, scope in (
        (1, personal, "for your user: every command reads it, in any directory"),
        (2, local, "for this directory; `antiphon codex` does not read it"),
    ):
        exists = " (exists)" if path.exists() else ""
        prompts.show(Text.assemble(f"  {number}  {path}", (f"  {scope}{exists}", "dim")))
    number = prompts.ask("1 or 2?", "1", lambda answer: _parse_number(answer, 1, 2))
    return (personal, local)[number - 1]


def _list_paths() -> tuple[Path, Path]:
    return config_directory(os.environ) / "antiphon.toml", Path("antiphon.toml")


def _ask_draft(prompts: Prompts, environment: Mapping[str, str]) -> ConfigDraft:
    chosen = _ask_providers(prompts, environment)
    if not chosen:  # names of the test model would stay in effect when a key is set later
        return ConfigDraft(port=_ask_port(prompts))
    providers = tuple(_ask_provider(prompts, spec, environment) for spec in chosen)
    names = [*(provider.name for provider in providers), echo.SPEC.name]
    default = names[0]
    if len(names) > 2:
        default = prompts.ask(
            "Default provider?", default, lambda answer: _parse_choice(answer, names)
        )
    return ConfigDraft(
        providers=providers,
        default_provider=default,
        fallback_model=_ask_fallback(prompts, default, providers),
        port=_ask_port(prompts),
    )


def _ask_port(prompts: Prompts) -> int:
    return prompts.ask("Port?", str(ServerConfig().port), _parse_port)


def _ask_providers(prompts: Prompts, environment: Mapping[str, str]) -> list[Spec]:
    enabled = [spec.name for spec in _list_specs() if is_enabled_by_environment(spec, environment)]
    table = make_table("", "name", "provider", "API key in the environment", right=[""])
    for number, spec in enumerate(_list_specs(), 1):
        table.add_row(
            str(number), Text(spec.name, style="bold"), spec.title, _format_key(spec, enabled)
        )
    prompts.show(table)
    prompts.show(Text("The built-in echo models are always available.", style="dim"))
    question = "Which providers? Numbers, names or none:"
    return prompts.ask(question, ", ".join(enabled) or "none", _parse_providers)


def _list_specs() -> list[Spec]:
    """List the providers to choose from; echo is always enabled."""
    return [spec for spec in known_specs().values() if spec is not echo.SPEC]


def _format_key(spec: Spec, enabled: Sequence[str]) -> Text:
    if not spec.api_key_env:
        return Text("-", style="dim")
    names = " or ".join(spec.api_key_env)
    if spec.name in enabled:
        return Text.assemble(("✓ ", "bold green"), names)
    return Text.assemble(("not set: ", "dim"), names)


def _ask_provider(prompts: Prompts, spec: Spec, environment: Mapping[str, str]) -> ProviderDraft:
    prompts.show(Text(f"\n{spec.title}", style="bold cyan"))
    if not spec.api_key_env:
        return _ask_own_server(prompts, spec)
    base_url = prompts.ask("Base URL?", spec.base_url, _parse_url)
    variable = _find_key_variable(spec, environment) or spec.api_key_env[0]
    key = f"${{{variable}}}"
    if not prompts.confirm(f"Read the API key from the environment, as {key}?", default=True):
        key = _ask_key(prompts)
    return ProviderDraft(name=spec.name, kind=spec.name, base_url=base_url, api_key=key)


def _ask_own_server(prompts: Prompts, spec: Spec) -> ProviderDraft:
    """Ask for a self-hosted server: no provider data describes its models."""
    default_name = spec.name if spec.base_url else "local"
    name = prompts.ask(
        "Name of the provider?",
        default_name,
        lambda answer: _parse_server_name(answer, default_name),
    )
    base_url = prompts.ask("Base URL?", spec.base_url or _LOCAL_URL, _parse_url)
    key = _ask_key(prompts) if prompts.confirm("Does it require an API key?", default=False) else ""
    served = _list_served(prompts, spec, base_url, key)
    default_model = served[0] if served else "none"
    model = prompts.ask("Name of a model that it serves, or none:", default_model, _parse_optional)
    models = (model,) if model else ()
    return ProviderDraft(name=name, kind=spec.name, base_url=base_url, api_key=key, models=models)


def _list_served(prompts: Prompts, spec: Spec, base_url: str, key: str) -> list[str]:
    """Ask the server which models it has, and show them."""
    from antiphon.cli.discover import discover_models  # slow: only if the network is used

    found, failures = discover_models([_make_provider(spec, base_url, key)])
    served = found.get(spec.name, [])
    if served:
        more = f" and {len(served) - _SHOWN}" if len(served) > _SHOWN else ""
        prompts.show(Text(f"  it serves {', '.join(served[:_SHOWN])}{more}", style="dim"))
    for reason in failures.values():
        prompts.show(Text(f"  its models could not be listed: {reason}", style="yellow"))
    return served


def _make_provider(spec: Spec, base_url: str, key: str) -> Provider:
    key = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), key)
    return Provider(
        name=spec.name,
        spec=spec,
        dialect=make_dialect(spec),
        base_url=base_url,
        api_keys=(key,) if key else (),
    )


def _ask_key(prompts: Prompts) -> str:
    return prompts.ask_secret("API key, or ${NAME} of a variable (not shown as you type):")


def _ask_fallback(prompts: Prompts, default: str, providers: Sequence[ProviderDraft]) -> str:
    """Ask for the model that serves unknown names: clients have defaults such as gpt-5.5."""
    known = {each.name: [*each.models, *_list_models(each.kind)] for each in providers}
    known[echo.SPEC.name] = _list_models(echo.SPEC.name)
    suggestion = f"{default}/{known[default][0]}" if known[default] else "none"

    def parse(answer: str) -> str:
        prefix, _, model = answer.partition("/")
        if answer.lower() == "none" or (model and prefix in known):
            return _parse_optional(answer)
        raise InvalidAnswer(
            f"{answer!r} is not valid: enter PROVIDER/MODEL or none; providers: {', '.join(known)}"
        )

    return prompts.ask(
        "Which model serves every other model name that clients send?", suggestion, parse
    )


def _list_models(kind: str) -> list[str]:
    return [model.id for model in known_specs()[kind].models if not model.family]


# Answers


def _parse_providers(answer: str) -> list[Spec]:
    if answer.lower() == "none":
        return []
    names = [spec.name for spec in _list_specs()]
    parts = filter(None, re.split(r"[,\s]+", answer))
    chosen = dict.fromkeys(_parse_choice(part, names) for part in parts)
    return [known_specs()[name] for name in chosen]


def _parse_choice(answer: str, names: Sequence[str]) -> str:
    """Accept a name, or its number in the list."""
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    if answer.lower() in names:
        return answer.lower()
    raise InvalidAnswer(f"{answer!r} is not one of {', '.join(names)}")


def _parse_number(answer: str, minimum: int, maximum: int) -> int:
    if answer.isdecimal() and minimum <= int(answer) <= maximum:
        return int(answer)
    raise InvalidAnswer(f"{answer!r} is not valid: enter a number from {minimum} to {maximum}")


def _parse_port(answer: str) -> int:
    return _parse_number(answer, 0, 65_535)


def _parse_url(answer: str) -> str:
    if re.fullmatch(r"https?://[^\s/]\S*", answer):
        return answer.rstrip("/")
    raise InvalidAnswer(f"{answer!r} is not valid: enter a URL such as https://host/path")


def _parse_server_name(answer: str, default: str) -> str:
    """Accept the default name, or one that no other kind of provider has."""
    is_free = answer == default or answer not in known_specs()
    if re.fullmatch(r"[A-Za-z0-9_-]+", answer) and is_free:
        return answer
    raise InvalidAnswer(
        f"{answer!r} is not valid: use letters, digits, - and _, but not the name of another"
        " provider"
    )


def _parse_optional(answer: str) -> str:
    return "" if answer.lower() == "none" else answer


def _find_key_variable(spec: Spec, environment: Mapping[str, str]) -> str | None:
    return next((name for name in spec.api_key_env if environment.get(name)), None)


# File


def _print_file(console: Console, path: Path, text: str) -> None:
    if is_terminal():
        syntax = Syntax(text.rstrip(), "toml", background_color="default", word_wrap=True)
        console.print(Panel(syntax, title=str(path), title_align="left", border_style="dim"))
    else:
        console.print(f"{path}:\n\n{text}", soft_wrap=True)


def _write_file(path: Path, text: str) -> None:
    """Write the file with mode 0600, also where it existed with another mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _print_next_steps(console: Console, path: Path, draft: ConfigDraft) -> None:
    console.print(Text.assemble(("✓ ", "bold green"), f"wrote {path}"))
    option = (
        "" if find_config(None, os.environ, Path.cwd()) == path.absolute() else f" --config {path}"
    )
    try:
        parse_config(render_config(draft), os.environ, name=str(path))
    except ConfigError as error:
        console.print(
            Text(f"  to do before `antiphon serve`: {error.message}", style="yellow"),
            soft_wrap=True,
        )
    console.print(f"  antiphon check --live{option}    tests each provider", soft_wrap=True)
    console.print(f"  antiphon serve{option}           runs the gateway", soft_wrap=True)
    trusted = find_config(None, os.environ, None) == path.absolute()
    option = "" if trusted else f" --config {path}"
    console.print(f"  antiphon codex{option}           runs Codex with it", soft_wrap=True)
    console.print(f"  antiphon claude{option}          runs Claude Code with it", soft_wrap=True)
