"""Metrics of members as input: Prometheus' text format, or lines of JSON with `Consumer.metrics()`.

{"at_ms": 1790000000000, "client_id": "c", "group": "g", "metrics": {"rebalance-total": 3}, "lag": {"t-0": 5}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.inputs.input_splits import Split
from kohort.fleet.inputs.text_files import rows_of_lines
from kohort.fleet.schema import METRICS

if TYPE_CHECKING:
    import pyarrow as pa

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+(?P<at>-?\d{1,18}))?\s*$"
)
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_PARTITION = re.compile(r"(.+)-(\d+)$")
_COLUMNS: Final = {"client_id": "client_id", "group": "group", "group_id": "group", "topic": "topic"}
_LARGEST_PARTITION: Final = (1 << 31) - 1
_LATEST_MS: Final = 10**18


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield rows of bronze `metrics` from a file; other lines are skipped."""
    written_ms = int(Path(split.where).stat().st_mtime * 1000)

    def found(line: str) -> Iterator[dict[str, Any]]:
        for row in measurements(line):
            yield row | {"at_ms": written_ms if row["at_ms"] is None else row["at_ms"]}

    return rows_of_lines(split, found, METRICS)


def measurements(line: str) -> Iterator[dict[str, Any]]:
    line = line.strip()
    if line.startswith("{"):
        yield from _from_json(line)
    elif line and not line.startswith("#") and (found := _SAMPLE.match(line)):
        value = _number(found["value"])
        labels = _labels(found["labels"] or "")
        if value is not None and labels is not None:
            yield _row(found["name"], value, labels, int(found["at"]) if found["at"] else None)


def _from_json(line: str) -> Iterator[dict[str, Any]]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return
    stated_ms = fields.get("at_ms")
    at_ms = stated_ms if isinstance(stated_ms, int) and abs(stated_ms) < _LATEST_MS else None
    labels = {name: str(fields[name]) for name in ("client_id", "group") if fields.get(name) is not None}
    for name, value in _numbers(fields.get("metrics")):
        yield _row(name, value, labels, at_ms)
    for name, value in _numbers(fields.get("lag")):
        if found := _PARTITION.match(name):
            yield _row("lag", value, {**labels, "topic": found[1], "partition": found[2]}, at_ms)


def _numbers(fields: Any) -> Iterator[tuple[str, float]]:
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):
                yield name, float(value)


def _row(name: str, value: float, labels: Mapping[str, str], at_ms: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {"metric": _valid_text(name), "value": value, "at_ms": at_ms}
    others = {}
    for label, text in ((label, _valid_text(text)) for label, text in labels.items()):
        if label in _COLUMNS:
            row[_COLUMNS[label]] = text
        elif label == "partition" and text.isdecimal() and int(text) <= _LARGEST_PARTITION:
            row["topic_partition"] = int(text)
        else:
            others[label] = text
    row["labels"] = json.dumps(others, ensure_ascii=False, sort_keys=True) if others else None
    return row


def _valid_text(text: str) -> str:
    """Return a text without surrogates, which JSON allows and UTF-8 does not."""
    return text.encode("utf-8", "backslashreplace").decode()


def _number(text: str) -> float | None:
    try:
        return float(text)  # Prometheus writes NaN and +Inf as Python reads them
    except ValueError:
        return None


def _labels(text: str) -> dict[str, str] | None:
    """Return the labels of a sample, None when they are malformed."""
    found, at = {}, 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None:
            return None
        found[label[1]] = _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], label[2])
        at = label.end()
    return found
