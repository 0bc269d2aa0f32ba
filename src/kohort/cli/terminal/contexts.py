"""`kohort contexts list|current|use`: named clusters of the user's file, and the one that commands take by default."""

from __future__ import annotations

import argparse
import os
from argparse import ArgumentParser
from collections.abc import Callable

from kohort.cli.terminal import output
from kohort.cli.terminal.context_file import VARIABLE, context_path, read_contexts, shown_context, use_context
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, reason_of
from kohort.cli.terminal.options import add_json, verb, verb_of_verbs
from kohort.model.setting import SettingsError


def register(verbs: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add `contexts` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "contexts", "list named clusters, and choose the one that commands take by default")
    example = "kohort contexts list\nkohort contexts list --json"
    listing = verb(
        inner, "list", f"list the contexts of {_home(context_path())}", run=_run(show_contexts), examples=example
    )
    summary = "print the context that commands take by default"
    current = verb(inner, "current", summary, run=_run(show_current), examples="kohort contexts current")
    summary = "choose the context that commands take by default"
    using = verb(inner, "use", summary, run=_run(use), examples="kohort contexts use staging")
    using.add_argument("name", metavar="NAME")
    for each in (listing, current, using):
        add_json(each)


def _home(path: object) -> str:
    return str(path).replace(os.path.expanduser("~"), "~", 1)


def _run(work: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """Return the `run` function of a verb whose errors of the file are sentences."""

    def run(args: argparse.Namespace) -> int:
        try:
            work(args)
        except SettingsError as error:
            raise CommandFailed(str(error), USAGE) from None
        except OSError as error:
            raise CommandFailed(reason_of(error), FAILED) from None
        return 0

    return run


def show_contexts(args: argparse.Namespace) -> None:
    """Print the contexts by name."""
    found = read_contexts()
    current = os.environ.get(VARIABLE) or found.current
    names = sorted(found.contexts)
    rows = [{"context": each, "current": each == current, **shown_context(found.contexts[each])} for each in names]
    cells = [{**row, "current": "*" if row["current"] else ""} for row in rows]
    table = output.table_of([{name.replace("_", " "): cell for name, cell in each.items()} for each in cells])
    output.put_result(args, rows, table)
    if not rows and not args.json:
        output.remark(f"there are no contexts: write one into {found.path}, as a table [contexts.NAME]")


def show_current(args: argparse.Namespace) -> None:
    """Print the current context. Raises CommandFailed where there is none."""
    found = read_contexts()
    name = os.environ.get(VARIABLE) or found.current
    if name is None:
        raise CommandFailed("no context is current: `kohort contexts use NAME` chooses one")
    found.named(name)
    output.put_result(args, {"context": name}, name)


def use(args: argparse.Namespace) -> None:
    """Make a context the current one."""
    use_context(read_contexts(), args.name)
    output.put_result(args, {"context": args.name}, f"commands take the context {args.name}")
    if (name := os.environ.get(VARIABLE, args.name)) != args.name:
        output.remark(f"but not in this shell: {VARIABLE} is {name}")
