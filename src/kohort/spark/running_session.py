"""What a Spark session that runs already is: of Spark Connect or not, stopped or not, how wide, with which Python."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
