"""The formats that Spark would find by itself: a session that we build knows ours without looking for it.

Spark asks each module whose name begins with `pyspark_` for a format, in a process that it starts when the first query
names one, also where that one is registered.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_found(spark: SparkSession) -> None:
    """Put our format where Spark keeps what it has found, if it would find no other one. New sessions have it, too."""
    from py4j.protocol import Py4JError
    from pyspark.sql.udf import _wrap_function

    modules = [each.name for each in iter_modules() if each.name.startswith("pyspark_")]
    if modules != ["pyspark_kohort"]:
        return
    ours = import_module(*modules).DefaultSource
    with suppress(AttributeError, Py4JError, TypeError):  # a version that looks in another way looks by itself
        sql = spark._jvm.org.apache.spark.sql.execution.datasources
        formats = getattr(getattr(sql, "DataSourceManager$"), "MODULE$")
        if formats.dataSourceBuilders().isEmpty():
            source = sql.v2.python.UserDefinedPythonDataSource(_wrap_function(spark.sparkContext, ours))
            found = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({ours.name(): source})
            getattr(formats, "dataSourceBuilders_$eq")(spark._jvm.scala.Some(found))
