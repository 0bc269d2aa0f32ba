"""Builds a Spark session with defaults for this interpreter, Java, loopback, UTC and quiet logs.

The settings in `conf` take precedence. It knows no groups and no topics.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kohort.extras import install_command
from kohort.spark.java import java_home
from kohort.spark.spark_home import compiled_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkMissing(ImportError):
    """PySpark or pyarrow is not installed; the text has the command that installs them."""


def build(
    app: str,
    *,
    master: str = "local[2]",
    conf: Mapping[str, str | int | bool] | None = None,
    java_options: str = "",
    log_level: str = "ERROR",
) -> SparkSession:
    """Return the running Spark session, or start one.

    `app` is the application's name; `master` is also `sc://host:port`, a server of Spark Connect, and the environment
    variable SPARK_REMOTE takes precedence, as everywhere in Spark. `conf` are Spark settings, which override ours;
    `java_options` are added to those of the driver's Java. Raises SparkMissing when PySpark or pyarrow is not
    installed, JavaMissing when there is no Java 17 or newer.
    """
    require_spark()
    if (remote := os.environ.get("SPARK_REMOTE", master)).startswith("sc://"):
        return _connect(app, remote, conf or {})
    # By default Spark starts its Python workers as `python3` from the PATH.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local") or "PYSPARK_PYTHON" not in os.environ:  # of a cluster it is where its workers have it
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(master)
    with compiled_pyspark(master):
        session = _configured(builder, settings(master, log_level, java_options) | dict(conf or {})).getOrCreate()
    if not is_remote(session):
        session.sparkContext.setLogLevel(log_level)
    return session


def _connect(app: str, remote: str, conf: Mapping[str, str | int | bool]) -> SparkSession:
    """Return a session of a Connect server, whose settings were made when it was started."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).remote(remote)
    return _configured(builder, {"spark.sql.session.timeZone": "UTC"} | dict(conf)).getOrCreate()


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str | int | bool]) -> SparkSession.Builder:
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    return builder


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


def settings(master: str, log_level: str = "ERROR", java_options: str = "") -> dict[str, str | int | bool]:
    """Return the settings that `build` uses for a master unless the caller overrides them."""
    chosen: dict[str, str | int | bool] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": True,
    }
    if master.startswith("local"):
        logging = files("kohort.spark").joinpath("log4j2.properties")
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": cores(master),
            "spark.driver.extraJavaOptions": (
                f"-Dlog4j2.configurationFile={logging} -Dkohort.log.level={log_level} {java_options}".rstrip()
            ),
        }
    elif java_options:
        chosen["spark.driver.extraJavaOptions"] = java_options
    return chosen


def cores(master: str) -> int:
    """Return how many threads `local`, `local[n]` or `local[n,failures]` runs on; `*` is every core of the machine."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


def require_spark() -> None:
    """Raise SparkMissing, naming the command to run, unless PySpark and pyarrow are installed."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise SparkMissing(f"{' and '.join(missing)} not installed: {install_command('spark')}")
