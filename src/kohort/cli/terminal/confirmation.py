"""The question before a command destroys or drains something: on a terminal; elsewhere `--yes` is the answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandFailed
from kohort.cli.terminal.interruption import first_signal, raise_keyboard_interrupt
from kohort.cli.terminal.options import add_option

Run = Callable[[argparse.Namespace], int]


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    add_option(parser, "--yes", "do not ask; without a terminal, as in a script, the command needs it")


def asking(run: Run) -> Run:
    """Return the `run` function of a verb that calls `confirm`: without a terminal it is refused before it begins."""

    def checked(args: argparse.Namespace) -> int:
        if not (args.yes or getattr(args, "dry_run", False) or sys.stdin.isatty()):
            raise CommandFailed("there is no terminal to ask on: give --yes, if it shall be done", USAGE)
        return run(args)

    return checked


def confirm(args: argparse.Namespace, what: str) -> None:
    """Print what is about to be done, and ask, unless --yes is given. Raises CommandFailed where the answer is no."""
    if args.yes:
        return
    where = getattr(args, "context", None) or getattr(args, "bootstrap_server", "")
    output.remark(f"this {what}" + (f" ({where})" if where else ""))
    try:
        with first_signal(raise_keyboard_interrupt):  # the event loop does not run meanwhile
            sys.stderr.write("Continue? [y/N] ")
            sys.stderr.flush()
            answer = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise CommandFailed("nothing was done", INTERRUPTED) from None
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was done", FAILED)
