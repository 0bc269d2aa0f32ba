"""`await_termination(query)`: waits for a streaming query, and raises what ended it as one sentence.

Spark raises an error of its own, with the Python traceback of the process where it happened inside, the plan behind it,
and the stack of Java around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_OURS = re.compile(r"^kohort\.[\w.]*?(\w+): (.+)$", re.MULTILINE)
"""The last line of the traceback of an error of ours: its class, and its text."""

_CHAINED = re.compile(
    r"^(?:The above exception was the direct cause of|During handling of the above exception)", re.MULTILINE
)
"""What follows is the error that came of the ones above: of the user, it is not hidden by ours, its cause."""


class QueryFailed(RuntimeError):
    """A streaming query ended by an error of kohort, whose class is `kind` (str), such as `UnknownTopic`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def await_termination(query: StreamingQuery, timeout_s: float | None = None) -> bool:
    """Wait until a query has ended, and return whether it has; False when `timeout_s` (seconds) passed before.

    Raises QueryFailed where an error of kohort ended it, else what `query.awaitTermination` raises.
    """
    from pyspark.errors import StreamingQueryException

    try:
        ended = query.awaitTermination() if timeout_s is None else query.awaitTermination(timeout_s)
    except StreamingQueryException as error:
        if not (found := _OURS.findall(_CHAINED.split(str(error))[-1])):
            raise
        failure = QueryFailed(*found[-1])
    else:
        return ended is not False
    raise failure
