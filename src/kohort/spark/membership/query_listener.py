"""Listener of a session that reports finished batches and ended queries to the readers that are members.

It also logs each query's progress in its group, at level INFO.

Without it a reader learns that a batch is finished when Spark requests the next one, which may be a trigger interval
later: until then a rebalance waits, and a stopped query leaves the batch uncommitted. It also makes readers leave that
Spark did not stop.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from kohort.spark.membership.control_socket import report_ended, report_finished
from kohort.spark.membership.group_progress import group_progress
from kohort.spark.membership.query_plan import publish, stateful_operators, withdraw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

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
        """Publish which operators of the query keep state: Spark calls this before it makes the sources."""
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
