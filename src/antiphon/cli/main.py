"""Entry point of the `antiphon` command: parse the arguments, run the subcommand, report errors.

Only the module of the requested subcommand is imported, which keeps `antiphon --help` fast.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from antiphon import __version__
from antiphon.cli import completion
from antiphon.errors import AntiphonError

_COMMANDS = {
    "serve": "run the gateway",
    "init": "create a configuration file interactively",
    "check": "validate the configuration; --live also sends a request to each provider",
    "reload": "have the running gateway read its configuration again",
    "models": "list the available models",
    "codex": "run Codex CLI with these models, or configure it for them",
    "claude": "run Claude Code with these models, or configure it for them",
    "replay": "convert recorded provider bytes into Responses events",
    "trace": "list recent requests, follow them, show their details, send one again",
    "usage": "show requests, tokens and cost by client, model and provider",
    "store": "show, migrate, copy or prune the store of responses",
    "completion": "print the completion script for a shell",
    "version": "show the version, and the Python and directory it runs from",
}

_PACKAGES = ("codex", "claude", "trace")  # commands with a package of their own

_EPILOG = """\
examples:
  antiphon serve                 run the gateway with the API keys in the environment
  antiphon init                  create a first antiphon.toml
  antiphon check --live          test every provider and its API key
  antiphon COMMAND --help        help for one command
"""


def main(argv: Sequence[str] | None = None) -> int:
    if completion.is_requested(os.environ):
        completion.complete(_make_parser(completion.read_typed_words(os.environ)))
    args = _parse_process_arguments() if argv is None else _parse_arguments(argv)
    try:
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
    own, passed = _split_arguments(arguments)
    args = _make_parser(own).parse_args(own)
    args.passed_arguments = passed
    return args


def _split_arguments(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Separate our own arguments from those that are passed on to an agent."""
    if not {"codex", "claude"}.intersection(arguments[:1]):
        return arguments, ()
    from antiphon.cli.launcher.program import split_arguments

    own, passed = split_arguments(arguments[1:])
    return [arguments[0], *own], passed


def _make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="antiphon",
        description="A gateway that serves the OpenAI Responses API with models of any provider.",
        epilog=_EPILOG,
        formatter_class=raw,
    )
    parser.add_argument("--version", action="version", version=f"antiphon {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=raw)
        if name in argv:
            module = f"{name}.command" if name in _PACKAGES else name
            import_module(f"antiphon.cli.{module}").add(command)
    return parser


def _report_error(message: str) -> int:
    from antiphon.cli.terminal import print_error

    for line in message.splitlines():  # a configuration may have several mistakes
        print_error(line)
    return 2


if __name__ == "__main__":
    sys.exit(main())
