"""What Spark tells the application about its queries, passed on to the readers that are members.

A reader by itself hears that a batch is done when it is asked for the next one, which may be a trigger interval later:
until then a rebalance would wait, and a stopped query would leave the batch uncommitted. It is also the second net
below a reader that nobody has told to leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from kohort.spark.membership.control_socket import tell_done, tell_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_listened_to: WeakSet[SparkSession] = WeakSet()


class MemberListener(StreamingQueryListener):  # type: ignore[misc]
    """Passes on that batches are done and that queries have ended, for sources of ours alone."""

    def __init__(
        self, done: Callable[[str, dict[str, Any]], bool] = tell_done, ended: Callable[[str], bool] = tell_ended
    ) -> None:
        self._done = done
        self._ended = ended
        self._readers: dict[str, set[str]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no reader is a member yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Tell readers that the batches of this trigger are done: Spark says so after it has logged that."""
        progress = event.progress
        for end in _ends(source.endOffset for source in progress.sources):
            self._readers.setdefault(str(progress.runId), set()).add(end["reader"])
            self._done(end["reader"], end)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: nothing is done."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Let the readers of the query leave, if any is still there."""
        for reader in self._readers.pop(str(event.runId), ()):
            self._ended(reader)


def listen(spark: SparkSession) -> None:
    """Listen to a session's queries; a second time does nothing."""
    if spark not in _listened_to:
        spark.streams.addListener(MemberListener())
        _listened_to.add(spark)


def _ends(offsets: Iterable[str | None]) -> Iterable[dict[str, Any]]:
    """Return the offsets that name a reader of ours."""
    for text in offsets:
        try:
            found = json.loads(text or "null")
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("reader"):
            yield found
