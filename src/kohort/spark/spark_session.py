"""Builds a Spark session with defaults for this interpreter, Java, loopback, UTC and quiet logs.

The settings in `conf` take precedence. Its queries report to `format("kohort")` what they finish, and whether they are
stateful.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from kohort.extras import install_command
from kohort.spark.java import java_home
from kohort.spark.running_session import is_remote
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
    `java_options` are added to those of the driver's Java. It has a listener of ours, unless it is one of Spark
    Connect. Raises SparkMissing when PySpark or pyarrow is not installed, JavaMissing when there is no Java 17 or
    newer.
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
        from kohort.spark.membership.query_listener import listen  # it needs PySpark

        session.sparkContext.setLogLevel(log_level)
        make_found(session)
        listen(session)
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


_FOUND = "kohort.found"
"""System property of Java: the formats that Spark has found are those that were put there."""


def make_found(spark: SparkSession) -> None:
    """Put our format where Spark caches what it has found, if it would find no other one. New sessions have it, too.

    It stays after `stop()`, but it belongs to one application: that of the next one replaces it.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql.udf import _wrap_function

    modules = [each.name for each in iter_modules() if each.name.startswith("pyspark_")]
    if modules != ["pyspark_kohort"]:
        return
    ours = import_module(*modules).DefaultSource
    with suppress(AttributeError, Py4JError, TypeError):  # a version that looks in another way looks by itself
        sql = spark._jvm.org.apache.spark.sql.execution.datasources
        formats = getattr(getattr(sql, "DataSourceManager$"), "MODULE$")
        properties = spark._jvm.java.lang.System
        if formats.dataSourceBuilders().isEmpty() or properties.getProperty(_FOUND):
            source = sql.v2.python.UserDefinedPythonDataSource(_wrap_function(spark.sparkContext, ours))
            found = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({ours.name(): source})
            getattr(formats, "dataSourceBuilders_$eq")(spark._jvm.scala.Some(found))
            properties.setProperty(_FOUND, "true")
