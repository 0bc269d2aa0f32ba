"""Assignors: pure functions from the members and topics of a group to assignments."""

from kohort.assign.range import RangeAssignor
from kohort.assign.round_robin import RoundRobinAssignor
from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, RebalanceProtocol, TopicSpec

__all__ = [
    "Assignor",
    "GroupSpec",
    "MemberSpec",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "TopicSpec",
]
