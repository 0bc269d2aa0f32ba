"""Log lines: text, or JSON objects with `at_ms`, `level`, `logger` and `message`; remarks of commands that end."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping

from kohort.model.printable import printable

Context = Callable[[], Mapping[str, object]]
"""What the code that logs works on, as fields of its lines."""


class _JsonLines(logging.Formatter):
    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at_ms": round(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._context(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class _Printable(logging.Formatter):
    def __init__(self, form: str, context: Context = dict) -> None:
        super().__init__(form)
        self._context = context

    def format(self, record: logging.LogRecord) -> str:
        line = " ".join([super().format(record), *(f"{name}={value!r}" for name, value in self._context().items())])
        return printable(line) if not record.exc_info else line


def log_as_remarks() -> None:
    """Have warnings of clients begin as remarks do, unless a handler takes them."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable("kohort: %(message)s"))


def log_to_stderr(*, is_json: bool, is_quiet: bool, context: Context = dict) -> None:
    """Have the process log to stderr, each line with what `context` returns where it is logged."""
    handler = logging.StreamHandler(sys.stderr)
    form = "%(asctime)s %(levelname)s %(message)s"
    handler.setFormatter(_JsonLines(context) if is_json else _Printable(form, context))
    logging.basicConfig(level=logging.WARNING if is_quiet else logging.INFO, handlers=[handler])
