"""`antiphon completion`: the script that lets a shell complete our commands and options."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence

_EPILOG = """\
examples:
  antiphon completion bash >> ~/.bashrc
  antiphon completion zsh >> ~/.zshrc
  antiphon completion fish > ~/.config/fish/completions/antiphon.fish
  eval "$(antiphon completion bash)"             in this shell only
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the script that completes commands and options of antiphon."
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to print it for")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["antiphon"], shell=args.shell))
    return 0


def is_requested(environment: Mapping[str, str]) -> bool:
    """Whether a shell runs this command for a completion, and not a user for its result."""
    return "_ARGCOMPLETE" in environment


def read_typed_words(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the words on the shell's command line, after the name of the command."""
    line = environment.get("COMP_LINE", "")
    try:
        return shlex.split(line)[1:]
    except ValueError:  # an open quote
        return line.split()[1:]


def complete(parser: argparse.ArgumentParser) -> None:
    """Write the completions to the shell, and exit."""
    import argcomplete

    argcomplete.autocomplete(parser)
