"""Failures of a command: one sentence for the user and an exit status. A traceback never reaches the user.

Status 2 is for errors in the command line (a wrong value, a name that does not exist), 1 for errors of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

USAGE = 2
FAILED = 1
INTERRUPTED = 130

TRACEBACK_VARIABLE = "KOHORT_TRACEBACK"
"""The environment variable that shows tracebacks."""


class CommandFailed(Exception):
    """The command failed: one sentence for the user, and the exit status."""

    def __init__(self, sentence: str, status: int = FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


class OutputClosed(Exception):
    """The reader of stdout has closed the pipe, as `head` does once it has its lines."""


def reason_of(error: OSError) -> str:
    """Return why something of the system failed, with the path where there is one, and without its number."""
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)


def unknown_group(group_id: str, known: Iterable[str]) -> CommandFailed:
    """Return the failure for a group that does not exist."""
    return unknown("group", group_id, known, "a group begins when its first member joins")


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str = "") -> CommandFailed:
    """Return the failure for a name that does not exist, with the nearest one that does."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?" if near else otherwise
    return CommandFailed(f"there is no {kind} {name!r}" + (f": {advice}" if advice else ""), USAGE)
