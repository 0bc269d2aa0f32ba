"""A Spark session that runs already: of Spark Connect or not, stopped or not, how wide, with which Python.

`await_termination(query)` waits for a streaming query of it, and raises what ended it as one sentence. Spark raises an
error of its own, with the Python traceback of the process where it happened inside, the plan behind it, and the stack
of Java around it.
"""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, which has no SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_stopped(session: SparkSession) -> bool:
    """Return whether `stop` was called on a session."""
    return bool(session.is_stopped) if is_remote(session) else session.sparkContext._jsc is None


def parallelism(session: SparkSession) -> int:
    """Return how many tasks a session runs at once; of Spark Connect, as many as it cuts a range into."""
    if not is_remote(session):
        return int(session.sparkContext.defaultParallelism)
    shown = io.StringIO()
    with redirect_stdout(shown):
        session.range(1).explain()
    found = re.search(r"splits=(?:Some\()?(\d+)", shown.getvalue())
    return int(found[1]) if found else 1


def use_this_python(session: SparkSession) -> None:
    """Make a local session start its Python processes with this interpreter, unless PYSPARK_PYTHON names one.

    Spark takes `python3` from the PATH, which is another one where a virtual environment is not activated.
    """
    if not is_remote(session) and "PYSPARK_PYTHON" not in os.environ:
        context = session.sparkContext
        if context.master.startswith("local"):
            context.pythonExec = sys.executable


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
