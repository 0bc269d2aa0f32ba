"""What watches a world: checkers that hold it against the invariants of `kohort.group.invariants`."""

from kohort.sim.checks.all_checks import all_checkers
from kohort.sim.checks.checker import Checker, InvariantBroken, Violation

__all__ = ["Checker", "InvariantBroken", "Violation", "all_checkers"]
