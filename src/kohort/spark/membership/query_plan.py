"""Which operators of a streaming query keep state, read from its plan when it starts.

Spark calls a source written in Python without the plan of its query. The listener of a session is called before the
source is made; it writes what the plan has into a file beside the control sockets, where the process of the source
finds it by the options of `format("kohort")`. Without a listener nothing is known (None).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kohort.spark.membership.control_socket import directory, is_private, make_private

_STATEFUL = frozenset(
    {
        *("Aggregate", "AggregateInPandas", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
        *("TransformWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas"),
    }
)
"""Nodes of a logical plan that Spark plans with a state store where their rows come from a stream.

A join has one where both sides are streams."""

PATIENCE_S = 60.0
"""How long a query waits for another one with equal options and another plan: its reader starts within seconds."""

_POLL_S = 0.05

_published: set[str] = set()


def options_key(options: Mapping[str, str]) -> str:
    """Return a digest by which the options of one `load()` are recognized; it shows none of them."""
    pairs = sorted((name.lower(), str(value)) for name, value in options.items())
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def stateful_operators(plan: Any) -> dict[str, frozenset[str]]:
    """Return the stateful operators above each source `kohort` of a logical plan of Spark's, by `options_key`."""
    found: dict[str, frozenset[str]] = {}

    def visit(node: Any) -> list[str]:
        """Return the keys of the sources below a node."""
        name, children = node.nodeName(), list(_children(node))
        if name == "StreamingRelationV2" and node.sourceName().lower() == "kohort":
            options = node.extraOptions().asCaseSensitiveMap()
            key = options_key({each: options[each] for each in options})
            found.setdefault(key, frozenset())
            return [key]
        keys = [key for child in children for key in visit(child)]
        is_join = name == "Join" and all(child.isStreaming() for child in children)
        if is_join or name in _STATEFUL:
            found.update({key: found[key] | {name} for key in keys})
        return keys

    visit(plan)
    return found


def _children(node: Any) -> Iterator[Any]:
    children = node.children()
    return (children.apply(number) for number in range(children.size()))


def publish(
    application: int, run: str, operators: Mapping[str, frozenset[str]], patience_s: float = PATIENCE_S
) -> None:
    """Write what a query's plan has for the sources of an application, given by the process id of its Java.

    Two queries with equal options differ by nothing that their readers know. So the plan of the second one waits, and
    the query with it, until the reader of the first has claimed its own; they differ for `patience_s` at most.
    """
    _published.add(run)
    folder = directory()
    make_private(folder)
    for path in folder.glob("*-*-*.*"):
        with suppress(ValueError, OSError):
            if not _is_running(int(path.name.partition("-")[0])):
                path.unlink(missing_ok=True)
    deadline_s = time.monotonic() + patience_s
    for key, names in operators.items():
        while set(_read(folder, f"{application}-{key}-*.plan").values()) - {names}:
            if time.monotonic() > deadline_s:
                break
            time.sleep(_POLL_S)
        written = folder / f"{application}-{key}-{run}.new"
        written.write_text(json.dumps(sorted(names)))
        written.rename(written.with_suffix(".plan"))


def is_published(run: str) -> bool:
    """Return whether a listener of this process has seen the plan of a query's run, which has not ended."""
    return run in _published


def withdraw(application: int, run: str) -> None:
    """Remove what `publish` wrote: the query has ended."""
    _published.discard(run)
    for path in directory().glob(f"{application}-*-{run}.*"):
        path.unlink(missing_ok=True)


def claim(application: int, key: str) -> frozenset[str] | None:
    """Return the stateful operators of the query that loads with these options, None where no listener has seen one.

    Of several plans that no reader has claimed, the operators of all are returned.
    """
    folder = directory()
    if not is_private(folder):
        return None
    for state in ("plan", "claimed"):
        if found := _read(folder, f"{application}-{key}-*.{state}"):
            if len(found) == 1:
                with suppress(FileNotFoundError):  # by another source of this query
                    (path,) = found
                    path.rename(path.with_suffix(".claimed"))
            return frozenset().union(*found.values())
    return None


def _read(folder: Path, pattern: str) -> dict[Path, frozenset[str]]:
    found: dict[Path, frozenset[str]] = {}
    for path in folder.glob(pattern):
        with suppress(OSError, ValueError):
            found[path] = frozenset(json.loads(path.read_text()))
    return found


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
