"""A Spark session whose queries report to `format("kohort")`: their finished batches, and whether they keep state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kohort.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(
    app: str,
    *,
    master: str = "local[2]",
    conf: Mapping[str, str | int | bool] | None = None,
    java_options: str = "",
    log_level: str = "ERROR",
) -> SparkSession:
    """Return the running Spark session, or start one, with a listener of ours unless it is one of Spark Connect.

    Arguments and errors are those of `spark_session.build`.
    """
    session = spark_session.build(app, master=master, conf=conf, java_options=java_options, log_level=log_level)
    if not spark_session.is_remote(session):
        from kohort.spark.membership.query_listener import listen  # it needs PySpark

        listen(session)
    return session
