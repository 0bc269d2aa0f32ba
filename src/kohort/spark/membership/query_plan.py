"""Which operators of a streaming query keep state, read from its plan when it starts.

Spark calls a source written in Python without the plan of its query. The listener of a session is called before the
source is made; it writes what the plan has into a file beside the control sockets, where the process of the source
finds it by the options of `format("kohort")`. Without a listener nothing is known (None).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
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


def publish(application: int, run: str, operators: Mapping[str, frozenset[str]]) -> None:
    """Write what a query's plan has for the sources of an application, given by the process id of its Java."""
    folder = directory()
    make_private(folder)
    for path in folder.glob("*.plan"):
        with suppress(ValueError, OSError):
            if not _is_running(int(path.name.partition("-")[0])):
                path.unlink(missing_ok=True)
    written = folder / f"{application}-{run}.new"
    written.write_text(json.dumps({key: sorted(names) for key, names in operators.items()}))
    written.rename(folder / f"{application}-{run}.plan")


def withdraw(application: int, run: str) -> None:
    """Remove what `publish` wrote: the query has ended."""
    (directory() / f"{application}-{run}.plan").unlink(missing_ok=True)


def published(application: int, key: str) -> frozenset[str] | None:
    """Return the stateful operators of the queries that load with these options, None where no listener has seen one.

    Two queries of one application with equal options look the same: the operators of both are returned.
    """
    folder, found = directory(), None
    if not is_private(folder):
        return None
    for path in folder.glob(f"{application}-*.plan"):
        with suppress(OSError, ValueError):
            if (names := json.loads(path.read_text()).get(key)) is not None:
                found = (found or frozenset()) | frozenset(names)
    return found


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
