"""Assignors: pure functions from the members and topics of a group to assignments.

Those of clients are here, those that a coordinator runs for consumer groups in `server`.
"""

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.assign.capacity import CapacityAssignor
    from kohort.assign.cooperative import AssignmentRefused
    from kohort.assign.custom import assignor
    from kohort.assign.range import RangeAssignor
    from kohort.assign.round_robin import RoundRobinAssignor
    from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, RebalanceProtocol, TopicSpec
    from kohort.assign.sticky import CooperativeStickyAssignor, StickyAssignor
    from kohort.assign.tasks import TasksAssignor

# Imported when first asked for: a broker runs the assignors of `server` only.
_NAMES_IN = {
    "kohort.assign.capacity": "CapacityAssignor",
    "kohort.assign.cooperative": "AssignmentRefused",
    "kohort.assign.custom": "assignor",
    "kohort.assign.range": "RangeAssignor",
    "kohort.assign.round_robin": "RoundRobinAssignor",
    "kohort.assign.spec": "Assignor GroupSpec MemberSpec RebalanceProtocol TopicSpec",
    "kohort.assign.sticky": "CooperativeStickyAssignor StickyAssignor",
    "kohort.assign.tasks": "TasksAssignor",
}

__all__ = [
    "AssignmentRefused",
    "Assignor",
    "CapacityAssignor",
    "CooperativeStickyAssignor",
    "GroupSpec",
    "MemberSpec",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "TasksAssignor",
    "TopicSpec",
    "assignor",
]

__getattr__ = lazy_exports(__name__, _NAMES_IN)


def __dir__() -> list[str]:
    return sorted(__all__)
