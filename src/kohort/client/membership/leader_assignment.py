"""How a leader's assignor is run over its group: the two-step rule, and members of old versions (KIP-429). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kohort.assign.cooperative import members_of_old_versions, refuse_broken_rules, with_errors
from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, RebalanceProtocol
from kohort.assign.user_data import is_marked, unmarked
from kohort.model.assignment import Assignment

_TRUSTED = "cooperative-sticky"
"""Kafka's own cooperative assignor: it withholds what changes hands, and settles claims that clash."""


def assign_group(
    assignors: Mapping[str, Assignor], name: str, spec: GroupSpec, warn: Callable[[tuple[str, ...]], None]
) -> dict[str, Assignment]:
    """Return the group's assignments by the assignor that it chose.

    `warn` is told of members that get nothing, because they cannot say what they own. Raises LookupError,
    `AssignmentRefused`, or whatever the assignor raises.
    """
    assignor = assignors.get(name)
    if assignor is None:
        raise LookupError(f"the group chose the assignor {name!r}, which its leader does not have")
    # Members of both protocols may sit in the group, so what the leader itself speaks does not matter.
    if RebalanceProtocol.COOPERATIVE not in assignor.protocols:
        return assignor.assign(spec)
    old = members_of_old_versions(spec)
    if not old or len(old) == len(spec.members):
        return _assign_cooperatively(assignor, spec)
    warn(old)
    others = {member: each for member, each in spec.members.items() if member not in old}
    assignments = _assign_cooperatively(assignor, GroupSpec(others, spec.topics))
    return with_errors(spec, assignments | {member: Assignment() for member in old})


def _assign_cooperatively(assignor: Assignor, spec: GroupSpec) -> dict[str, Assignment]:
    if assignor.name == _TRUSTED:
        return assignor.assign(spec)
    members = {name: _unmarked(each) for name, each in spec.members.items()}
    assignments = assignor.assign(GroupSpec(members, spec.topics))
    refuse_broken_rules(spec, assignments, assignor.name)
    return assignments


def _unmarked(member: MemberSpec) -> MemberSpec:
    """Return a member with the user data that its own assignor made."""
    said = member.subscription
    if not is_marked(said.user_data):
        return member
    return replace(member, subscription=replace(said, user_data=unmarked(said.user_data)))
