"""Entry point of the `antiphon` command: parse the arguments, run the subcommand, report errors.

Only the module of the requested subcommand is imported, which keeps `antiphon --help` fast.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from antiphon import __version__
from antiphon.cli import completion
from antiphon.errors import AntiphonError

_GROUPS = {
    "run": {
        "serve": "run the gateway",
        "codex": "run Codex CLI with these models, or configure it for them",
        "claude": "run Claude Code with these models, or configure it for them",
    },
    "look": {
        "models": "list the available models",
        "trace": "list recent requests, follow them, show their details, send one again",
        "usage": "show requests, tokens and cost by client, model and provider",
        "replay": "convert recorded provider bytes into Responses events",
    },
    "configure": {
        "init": "create a configuration file interactively",
        "check": "validate the configuration; --live also sends a request to each provider",
        "reload": "apply a changed configuration without a restart",
        "store": "show, migrate, copy or prune the store of responses",
    },
    "other": {
        "completion": "print the completion script for a shell",
        "version": "show the version, and the Python and directory it runs from",
        "help": "show the help of a command",
    },
}
_COMMANDS = [name for group in _GROUPS.values() for name in group]
_PACKAGES = ("codex", "claude", "trace")  # commands with a package of their own
_WITHOUT_DATA = ("codex", "claude", "init", "completion", "help")  # commands without data to print

_DESCRIPTION = """\
Run Codex, Claude Code and every other client of the Responses, Messages or Chat Completions API
on any model."""

_EPILOG = """\
examples:
  antiphon serve                 run the gateway with the API keys in the environment
  antiphon init                  create a first configuration file
  antiphon check --live          test every provider and its API key
  antiphon help COMMAND          help for one command
"""


def main(argv: Sequence[str] | None = None) -> int:
    if completion.is_requested(os.environ):
        completion.complete(_make_parser(completion.read_typed_words(os.environ)))
    args = _parse_process_arguments() if argv is None else _parse_arguments(argv)
    try:
        _use_output_format(args)
        code: int = args.run(args)
        sys.stdout.flush()  # here, so that a closed pipe is caught below
    except AntiphonError as error:
        return _report_error(error.message)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the shell's prompt starts on a new line
        return 130
    except BrokenPipeError:  # the reader of the pipe closed it, as in `antiphon replay … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parse_process_arguments() -> argparse.Namespace:
    """Parse the arguments of this process, and import the subcommand, without garbage collection:
    modules are no garbage, and walking over them takes a tenth of the start."""
    gc.disable()
    try:
        return _parse_arguments(sys.argv[1:])
    finally:
        gc.freeze()
        gc.enable()


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    if not arguments:
        return argparse.Namespace(run=_run_alone)
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    own, passed = _split_arguments(arguments)
    args, unknown = _make_parser(own).parse_known_args(own)
    if unknown:
        args.parser.report_unknown(unknown)
    args.passed_arguments = passed
    return args


def _use_output_format(args: argparse.Namespace) -> None:
    from antiphon.cli.terminal import request_json

    request_json(getattr(args, "json", False))


def _run_alone(args: argparse.Namespace) -> int:
    """Show the commands, and whether a gateway runs at the configured address."""
    from antiphon.cli.launcher.gateway import describe_gateway

    print(f"{_DESCRIPTION}\n\n{_list_commands()}\n\n{describe_gateway()}")
    return 0


def _split_arguments(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Separate our own arguments from those that are passed on to an agent."""
    if not {"codex", "claude"}.intersection(arguments[:1]):
        return arguments, ()
    from antiphon.cli.launcher.program import split_arguments

    own, passed = split_arguments(arguments[1:])
    return [arguments[0], *own], passed


class CommandParser(argparse.ArgumentParser):
    """Parser of a command or of one of its parts: an error shows its own usage, and suggests what
    was meant. `prints_data`: the output is tables, or JSON lines with `--json`."""

    def __init__(self, *, prints_data: bool = False, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)
        self.set_defaults(parser=self)
        self._prints_data = prints_data
        if prints_data:
            text = "write JSON lines, also to a terminal"
            self.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=text)

    def add_subparsers(self, **options: Any) -> Any:
        options["parser_class"] = partial(CommandParser, prints_data=self._prints_data)
        return super().add_subparsers(**options)

    def error(self, message: str) -> NoReturn:
        found = re.fullmatch(
            r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message
        )
        if found:
            from antiphon.config.source import suggest  # slow: only for an error

            known = [each.strip("'") for each in found[3].split(", ")]
            meant = suggest(found[2], known)
            unknown = f"argument {found[1]}: {found[2]!r} is unknown"
            if found[1] == "COMMAND":
                unknown = f"there is no command {found[2]!r}"
            message = f"{unknown}; {meant}"
        elif found := re.fullmatch(r"argument (\S+): invalid int value: ('.*')", message):
            message = f"argument {found[1]}: must be a whole number, not {found[2]}"
        elif message.endswith("arguments are required: COMMAND"):
            message = f"a command is missing; `antiphon help {self._command}` lists them"
        super().error(message)

    def report_unknown(self, arguments: Sequence[str]) -> NoReturn:
        """Exit with the first argument that this command does not have."""
        given = arguments[0].partition("=")[0]
        options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.format_help())
        near = get_close_matches(given, options, n=1)
        meant = f"; did you mean {near[0]}?" if near else f" (antiphon help {self._command})"
        self.error(f"unknown argument {given}{meant}")

    @property
    def _command(self) -> str:
        return self.prog.partition(" ")[2]


def _make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="antiphon",
        description=f"{_DESCRIPTION}\n\n{_list_commands()}",
        epilog=_EPILOG,
        usage="antiphon COMMAND [options]",
    )
    parser.add_argument("--version", action="version", version=f"antiphon {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name in _COMMANDS:
        prints_data = name not in _WITHOUT_DATA
        command = commands.add_parser(name, prog=f"antiphon {name}", prints_data=prints_data)
        if name in argv and name != "help":
            module = f"{name}.command" if name in _PACKAGES else name
            import_module(f"antiphon.cli.{module}").add(command)
    return parser


def _list_commands() -> str:
    """List the commands in groups."""
    lines: list[str] = []
    for title, commands in _GROUPS.items():
        lines += ["", f"{title}:", *(f"    {name:<12}{text}" for name, text in commands.items())]
    return "\n".join(lines[1:])


def _report_error(message: str) -> int:
    from antiphon.cli.terminal import print_error

    for line in message.splitlines():  # a configuration may have several mistakes
        print_error(line)
    return 2


if __name__ == "__main__":
    sys.exit(main())
