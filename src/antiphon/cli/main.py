"""`antiphon`: the command line, one module a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from antiphon import __version__
from antiphon.cli import replay, serve
from antiphon.errors import AntiphonError

_COMMANDS = (serve, replay)


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
    except AntiphonError as error:
        print(f"antiphon: {error.message}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="antiphon",
        description="Speak OpenAI's Responses API in front of any model.",
    )
    parser.add_argument("--version", action="version", version=f"antiphon {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
