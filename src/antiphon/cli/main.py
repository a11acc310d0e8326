"""`antiphon`: finds the command, runs it, and puts whatever goes wrong into one line.

Only the module of the command that was asked for is imported, so `antiphon --help` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from antiphon import __version__
from antiphon.errors import AntiphonError

_COMMANDS = {
    "serve": "run the gateway",
    "init": "write a configuration file, question by question",
    "check": "validate the configuration, and ask each provider with --live",
    "models": "list the models that clients can ask for",
    "codex": "run Codex with these models, or set it up for them",
    "replay": "turn recorded provider bytes into Responses events",
    "trace": "see what became of the latest requests",
}

_EPILOG = """\
examples:
  antiphon serve                 the gateway, with whatever keys are in the environment
  antiphon init                  a first antiphon.toml
  antiphon check --live          is every provider there, and is its key good?
  antiphon COMMAND --help        all about one command
"""


def main(argv: Sequence[str] | None = None) -> int:
    ours, foreign = _split(sys.argv[1:] if argv is None else argv)
    args = _parser(ours).parse_args(ours)
    args.foreign = foreign
    try:
        code: int = args.run(args)
        sys.stdout.flush()  # here, where a closed pipe is still caught
    except AntiphonError as error:
        return _complain(error.message)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the shell's prompt goes on a line of its own
        return 130
    except BrokenPipeError:  # the reader of the pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What we read ourselves, and what another program is given as it stands."""
    if [*words[:1]] != ["codex"]:
        return words, ()
    from antiphon.cli.codex.command import split

    ours, foreign = split(words[1:])
    return ["codex", *ours], foreign


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="antiphon",
        description="Speak OpenAI's Responses API in front of any model.",
        epilog=_EPILOG,
        formatter_class=raw,
    )
    parser.add_argument("--version", action="version", version=f"antiphon {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=raw)
        if name in argv:
            module = "codex.command" if name == "codex" else name
            import_module(f"antiphon.cli.{module}").add(command)
    return parser


def _complain(problem: str) -> int:
    from antiphon.cli.terminal import complain

    complain(problem)
    return 2


if __name__ == "__main__":
    sys.exit(main())
