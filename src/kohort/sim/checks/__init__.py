"""What watches a world: checkers that hold it against the invariants of `kohort.group.invariants`."""

from kohort.sim.checks.checker import Checker, InvariantBroken, Violation
from kohort.sim.checks.everything import all_checkers

__all__ = ["Checker", "InvariantBroken", "Violation", "all_checkers"]
