"""Makes `format("kohort")` known to every Spark session of an environment in which kohort is installed.

Spark asks each top-level module whose name begins with `pyspark_` for a `DefaultSource`, the first time a query names a
format that is not its own. So a query moves by the format's name alone.
"""

from kohort.spark.source.data_source import KohortSource as DefaultSource

__all__ = ["DefaultSource"]
