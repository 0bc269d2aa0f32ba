"""What a session's listener passes on to readers that are members: finished batches, ended queries, and their plans.

Without it a reader learns that a batch is finished when Spark requests the next one, which may be a trigger interval
later: until then a rebalance waits, and a stopped query leaves the batch uncommitted. It makes readers leave that Spark
did not stop, and logs each query's progress in its group, at level INFO. Spark calls a source written in Python without
the plan of its query; the listener, which is called before the source is made, writes the stateful operators into a
file beside the control sockets, where the process of the source finds it by its options.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from kohort.spark.membership.control_socket import directory, is_private, make_private, report_ended, report_finished
from kohort.spark.membership.group_progress import group_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


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


_with_listener: WeakSet[SparkSession] = WeakSet()


class MemberListener(StreamingQueryListener):  # type: ignore[misc]
    """Reports finished batches and ended queries to readers of `format("kohort")`."""

    def __init__(
        self,
        finished: Callable[[str, dict[str, Any]], bool] = report_finished,
        ended: Callable[[str], bool] = report_ended,
        session: SparkSession | None = None,
    ) -> None:
        self._session = session
        # Java is not called when a query ends: that call may wait for the one that stops the query.
        self._application = int(session._jvm.java.lang.ProcessHandle.current().pid()) if session is not None else 0
        self._finished = finished
        self._ended = ended
        self._readers: dict[str, set[str]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Publish the query's stateful operators: Spark calls this before it makes the sources."""
        if self._session is None:
            return
        query = self._session._jsparkSession.streams().get(str(event.id))
        if operators := stateful_operators(query.streamingQuery().analyzedPlan()):
            publish(self._application, str(event.runId), operators)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Report the batches of this trigger: Spark calls this after it has logged them as finished."""
        progress = event.progress
        for end in _ends(source.endOffset for source in progress.sources):
            self._readers.setdefault(str(progress.runId), set()).add(end["reader"])
            self._finished(end["reader"], end)
        if log.isEnabledFor(logging.INFO):
            for each in group_progress(source.latestOffset for source in progress.sources):
                log.info("query %s: %s", progress.name or progress.id, each)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Make the readers of the query leave, unless they have left."""
        for reader in self._readers.pop(str(event.runId), ()):
            self._ended(reader)
        if self._session is not None:
            withdraw(self._application, str(event.runId))


def listen(spark: SparkSession) -> None:
    """Listen to a session's queries; a second time does nothing."""
    if spark not in _with_listener:
        spark.streams.addListener(MemberListener(session=spark))
        _with_listener.add(spark)


def _ends(offsets: Iterable[str | None]) -> Iterable[dict[str, Any]]:
    """Return the offsets that readers of `format("kohort")` returned."""
    for text in offsets:
        try:
            found = json.loads(text or "null")
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("reader"):
            yield found
