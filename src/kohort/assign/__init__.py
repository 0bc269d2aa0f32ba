"""Assignors: pure functions from the members and topics of a group to assignments.

Those of clients are here, those that a coordinator runs for consumer groups in `server`.
"""

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.assign.cooperative import AssignmentRefused as AssignmentRefused
    from kohort.assign.custom import CapacityAssignor as CapacityAssignor
    from kohort.assign.custom import assignor as assignor
    from kohort.assign.range import RangeAssignor as RangeAssignor
    from kohort.assign.round_robin import RoundRobinAssignor as RoundRobinAssignor
    from kohort.assign.spec import Assignor as Assignor
    from kohort.assign.spec import GroupSpec as GroupSpec
    from kohort.assign.spec import MemberSpec as MemberSpec
    from kohort.assign.spec import RebalanceProtocol as RebalanceProtocol
    from kohort.assign.spec import TopicSpec as TopicSpec
    from kohort.assign.sticky import CooperativeStickyAssignor as CooperativeStickyAssignor
    from kohort.assign.sticky import StickyAssignor as StickyAssignor
    from kohort.assign.tasks import TasksAssignor as TasksAssignor

# Imported when first asked for: a broker runs the assignors of `server` only.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.assign.cooperative": "AssignmentRefused",
        "kohort.assign.custom": "CapacityAssignor assignor",
        "kohort.assign.range": "RangeAssignor",
        "kohort.assign.round_robin": "RoundRobinAssignor",
        "kohort.assign.spec": "Assignor GroupSpec MemberSpec RebalanceProtocol TopicSpec",
        "kohort.assign.sticky": "CooperativeStickyAssignor StickyAssignor",
        "kohort.assign.tasks": "TasksAssignor",
    },
)
