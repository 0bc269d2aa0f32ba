"""The command `kohort what-if`: its options, the facts that a forecast starts from, and its output.

The simulation itself is `kohort.what_if`.
"""

from kohort.cli.what_if.forecast_command import register

__all__ = ["register"]
