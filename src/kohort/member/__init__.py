"""The member's side of a group, without I/O: state machines of both protocols.

A driver feeds them with responses, finished callbacks and the time; `client.membership` is one, the simulator another.
"""

from kohort.member.classic_member import ClassicMember
from kohort.member.consumer_member import ConsumerMember
from kohort.member.member_state import ConsumerState, Identity, MemberConfig, PollState, State

__all__ = ["ClassicMember", "ConsumerMember", "ConsumerState", "Identity", "MemberConfig", "PollState", "State"]
