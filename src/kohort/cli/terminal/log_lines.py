"""Log lines: text, or JSON objects with `at_ms`, `level`, `logger` and `message`; remarks of commands that end."""

from __future__ import annotations

import json
import logging
import sys

from kohort.model.printable import printable


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at_ms": round(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(fields)


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)) if not record.exc_info else super().format(record)


def log_as_remarks() -> None:
    """Have warnings of clients begin as remarks do, unless a handler takes them."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable("kohort: %(message)s"))


def log_to_stderr(*, is_json: bool, is_quiet: bool) -> None:
    """Have the process log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if is_json else _Printable("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING if is_quiet else logging.INFO, handlers=[handler])
