"""Output of commands: tables and JSON on stdout, remarks and progress on stderr.

Stdout has only the requested data, so that it can be piped. Progress is shown on a terminal, once a command has run for
two seconds. Control characters in names that clients chose are escaped. The one module that uses `rich`, if installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from kohort.cli.terminal.failure import FAILED, CommandFailed, OutputClosed
from kohort.drawing.display_text import counted as counted
from kohort.model.printable import printable

SHOW_AFTER_S = 2.0
REDRAW_S = 0.1

Cell = str | int | float | None

BOLD, RED, YELLOW, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
CONTROL = re.compile(
    r"(?!\x1b\[(?:1|31|33|0)m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Characters that move a terminal's cursor or reorder its text, but for the colours above."""


def has_colours(stream: TextIO) -> bool:
    """Whether a stream shows colours: on a terminal that is not dumb, unless NO_COLOR is set; always by FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Return text in a colour where `stream` (stdout) shows any."""
    return f"{colour}{text}{PLAIN}" if has_colours(sys.stdout if stream is None else stream) else text


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str = "") -> str:
    """Return rows under their headings: text to the left, numbers to the right, "-" for None.

    No cell is ever cut, so that a line can be searched and copied. Without rows the answer is `empty`.
    """
    shown = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if not shown:
        return empty
    widths = [max(len(line[at]) for line in [list(columns), *shown]) for at in range(len(columns))]
    right = [all(is_number(line[at]) for line in shown) for at in range(len(columns))]

    def laid_out(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        )
        return "  ".join(cells).rstrip()

    heading = coloured(laid_out([column.upper() for column in columns]), BOLD)
    return "\n".join([heading, *map(laid_out, shown)])


def table_of(rows: Sequence[Mapping[str, Cell]], *, empty: str = "") -> str:
    """Return rows of the same columns as `table` does; their keys are the headings."""
    return table(list(rows[0]), [list(row.values()) for row in rows]) if rows else empty


def is_number(cell: str) -> bool:
    """Whether a cell is a whole number, "≥ 5" too, or a missing one."""
    return cell == "-" or cell.removeprefix("≥ ").lstrip("-").isdigit()


def write_file(path: Path, text: str) -> None:
    """Write a file that an option names. Raises CommandFailed."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror or error}", FAILED) from None


def put(text: str) -> None:
    """Print lines to stdout, control characters escaped; nothing for an empty text. Raises as put_bytes does."""
    if text:
        shown = CONTROL.sub(lambda found: printable(found[0]), text)
        put_bytes(shown.encode("utf-8", "backslashreplace") + b"\n")


def put_json(value: Any) -> None:
    """Print one JSON document on one line to stdout, its keys in the order given. Raises as put_bytes does."""
    text = json.dumps(value, ensure_ascii=False)
    put_bytes(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8", "backslashreplace") + b"\n")


def put_result(args: argparse.Namespace, document: Any, text: str) -> None:
    """Print a result: as JSON with --json, else as text."""
    if args.json:
        put_json(document)
    else:
        put(text)


def put_bytes(line: bytes) -> None:
    """Write bytes to stdout as they are. Raises OutputClosed, and CommandFailed where stdout takes no more."""
    try:
        sys.stdout.buffer.write(line)
    except OSError as error:
        raise _unwritable(error) from error


def flush() -> None:
    """Hand stdout's buffer to the operating system. Raises as put_bytes does."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> Exception:
    """Return what a failed write to stdout is to a command; what is still buffered is thrown away."""
    # Without this the interpreter would try to write the buffer again at exit, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return OutputClosed()
    return CommandFailed(f"cannot write to stdout: {error.strerror or error}")


def remark(sentence: str) -> None:
    """Print a sentence to stderr: what was done, or what to do next."""
    _print_sentence(sentence, BOLD)


def complain(sentence: str) -> None:
    """Print a sentence to stderr: why the command failed, and what to do."""
    _print_sentence(sentence, RED)


def _print_sentence(sentence: str, colour: str) -> None:
    print(f"{coloured('kohort:', colour, sys.stderr)} {printable(sentence)}", file=sys.stderr)


class Meter:
    """Progress on a terminal's stderr from the second second on; nothing elsewhere.

    `total` is the number of steps when it is known; the display counts `unit`s.
    """

    def __init__(self, title: str, *, total: int | None = None, unit: str = "records", stream: TextIO | None = None):
        self.title = title
        self.total = total
        self.unit = unit
        self.stream = sys.stderr if stream is None else stream
        self.count = 0
        self.started = time.monotonic()
        self.drawn = 0.0

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.drawn:
            return
        if self.bar is not None:
            self.bar.stop()
        else:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def advance(self, steps: int = 1) -> None:
        """Count steps, and show the count when it is time to."""
        self.count += steps
        now = time.monotonic()
        if now - self.drawn < REDRAW_S or now - self.started < SHOW_AFTER_S or not self.stream.isatty():
            return
        self.drawn = now
        self._draw(now)

    def _draw(self, now: float) -> None:
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.count)
            return
        of = "" if self.total is None else f" of {self.total:,}"
        self.stream.write(f"\r\x1b[K{self.title}: {self.count:,}{of} {self.unit}, {now - self.started:.0f} s")
        self.stream.flush()

    @cached_property
    def bar(self) -> Any:
        """A bar that is shown from the first use on, or None without the [cli] extra."""
        try:  # here, because importing it takes longer than most commands
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ImportError:
            return None
        what = TextColumn("{task.description}")
        count = TextColumn("{task.completed:,} " + self.unit)
        columns = (
            (SpinnerColumn(), what, count)
            if self.total is None
            else (what, BarColumn(), TextColumn("{task.completed:,} of {task.total:,} " + self.unit))
        )
        bar = Progress(*columns, TimeElapsedColumn(), console=Console(file=self.stream), transient=True)
        bar.add_task(self.title, total=self.total)
        bar.start()
        return bar
