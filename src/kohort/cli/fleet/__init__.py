"""The command `kohort fleet`: its options, what its verbs do, and the Spark session they need.

Verbs that only read tables start no Spark.
"""

from kohort.cli.fleet.fleet_commands import register

__all__ = ["register"]
