"""The member's side of a group, sans-IO: state machines that a driver feeds with answers and time."""

from kohort.member.classic_member import ClassicMember
from kohort.member.consumer_member import ConsumerMember
from kohort.member.identity import Identity
from kohort.member.member_state import ConsumerState, MemberConfig, PollState, State

__all__ = ["ClassicMember", "ConsumerMember", "ConsumerState", "Identity", "MemberConfig", "PollState", "State"]
