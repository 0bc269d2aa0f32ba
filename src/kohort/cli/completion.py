"""`kohort completion bash|zsh|fish`: the script that completes verbs, options and files in a shell."""

from __future__ import annotations

import argparse
from pathlib import Path

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import verb
from kohort.model.extras import install_command

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """
eval "$(kohort completion bash)"
kohort completion zsh > ~/.zfunc/_kohort
kohort completion fish > ~/.config/fish/completions/kohort.fish
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `completion` to the command line."""
    parser = verb(verbs, "completion", "print a shell's completion script", run=run, examples=EXAMPLES)
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError as missing:
        raise CommandFailed(f"completion needs shtab ({missing}): {install_command('cli')}", USAGE) from None
    from kohort.cli.main import parser_for

    parser = parser_for([])
    complete_files(parser, shtab.FILE)
    output.put(shtab.complete(parser, args.shell))
    return 0


def complete_files(parser: argparse.ArgumentParser, files: dict[str, str]) -> None:
    """Mark every argument that is a path, here and in the parsers of the verbs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                complete_files(inner, files)
        elif action.type is Path or action.metavar in ("FILE", "DIR"):
            action.complete = files  # type: ignore[attr-defined]  # what shtab looks for
