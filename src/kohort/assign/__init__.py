"""Assignors: pure functions from the members and topics of a group to assignments.

Those of clients are here, those that a coordinator runs for consumer groups in `server`.
"""

from kohort.assign.capacity import CapacityAssignor
from kohort.assign.cooperative import AssignmentRefused
from kohort.assign.custom import assignor
from kohort.assign.range import RangeAssignor
from kohort.assign.round_robin import RoundRobinAssignor
from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, RebalanceProtocol, TopicSpec
from kohort.assign.sticky import CooperativeStickyAssignor, StickyAssignor
from kohort.assign.tasks import TasksAssignor

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
