"""The member's side of a group, sans-IO: state machines that a driver feeds with answers and time."""

from kohort.member.classic import ClassicMember
from kohort.member.identity import Identity
from kohort.member.state import MemberConfig, PollState, State

__all__ = ["ClassicMember", "Identity", "MemberConfig", "PollState", "State"]
