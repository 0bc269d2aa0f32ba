"""Checkers: observers that compare a world with the invariants of `kohort.sim.checks.invariants`.

Each counts what it compared, and stops the world at the first violation.
"""

from kohort.sim.checks.all_checks import all_checkers
from kohort.sim.checks.checker import Checker, InvariantBroken

__all__ = ["Checker", "InvariantBroken", "all_checkers"]
