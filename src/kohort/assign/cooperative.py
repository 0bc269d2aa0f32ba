"""The two-step rule of cooperative rebalancing (KIP-429): nothing is given to a member while another still owns it.

A leader compares what its assignor intends with what the members report to own. What changes hands is withheld from
its taker in this round: the owner sees it gone, revokes it and joins again, and the next round gives it away. What
no member owns migrates at once. What is owned but in no intended assignment (a deleted topic, or metadata of the leader
that is behind) goes back to its owner. Of several members that claim one partition, the claim of the highest
generation counts (KIP-792); where that generation claims it twice, no claim does and no member is given it.
`assign_group` runs a leader's assignor by this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, RebalanceProtocol
from kohort.assign.user_data import encode_assignment_error, is_marked, unmarked
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class AssignmentRefused(ValueError):
    """An assignment that breaks the two-step rule; the text names each partition, its owner and its taker."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A partition given to one member while another owns it."""

    partition: TopicPartition
    owner: str
    given_to: str

    def __str__(self) -> str:
        return f"{self.partition} is owned by {self.owner} and given to {self.given_to}"


def two_step(spec: GroupSpec, intended: Mapping[str, Assignment]) -> dict[str, Assignment]:
    """Return the assignments of this round: as intended, without what another member must revoke first."""
    claimants = claimants_of(spec)
    withheld = {
        partition
        for member, assignment in intended.items()
        for partition in assignment.partitions
        if partition in claimants and claimants[partition] != [member]
    }
    returned: dict[str, list[TopicPartition]] = {}
    assigned = frozenset[TopicPartition]().union(*(each.partitions for each in intended.values()))
    for partition in claimants.keys() - assigned:
        owners = claimants[partition]
        # A member that no longer wants the topic would refuse the whole assignment.
        if len(owners) == 1 and partition.topic in spec.members[owners[0]].subscription.topics:
            returned.setdefault(owners[0], []).append(partition)
    found = {}
    for member in spec.members:
        assignment = intended.get(member, Assignment())
        retained = assignment.partitions.difference(withheld).union(returned.get(member, ()))
        found[member] = assignment if retained == assignment.partitions else Assignment(retained, assignment.user_data)
    return found


def broken_rules(spec: GroupSpec, assignments: Mapping[str, Assignment]) -> tuple[BrokenRule, ...]:
    """Return where `assignments` give a member what another one owns, in order of the partitions."""
    claimants = claimants_of(spec)
    found = [
        BrokenRule(partition, owners[0], member)
        for member, assignment in assignments.items()
        for partition in assignment.partitions
        if (owners := claimants.get(partition)) and member not in owners
    ]
    return tuple(sorted(found, key=lambda rule: (rule.partition, rule.given_to)))


def refuse_broken_rules(spec: GroupSpec, assignments: Mapping[str, Assignment], name: str) -> None:
    """Raise `AssignmentRefused` where the assignor `name` broke the two-step rule."""
    if broken := broken_rules(spec, assignments):
        raise AssignmentRefused(
            f"the cooperative assignor {name} must withhold a partition until its owner has revoked it: "
            + "; ".join(map(str, broken))
        )


def members_of_old_versions(spec: GroupSpec) -> tuple[str, ...]:
    """Return the members whose subscription cannot report what they own (version 0), by id."""
    return tuple(sorted([name for name, member in spec.members.items() if member.subscription.version < 1]))


def with_errors(spec: GroupSpec, assignments: dict[str, Assignment]) -> dict[str, Assignment]:
    """Return `assignments`, with an error for each member of ours where a member of an old version sits in the group.

    What that member is given is the leader's decision; its user, and those of the others, should know. Only members
    with our mark are sent the error: to others it is unreadable.
    """
    if not members_of_old_versions(spec):
        return assignments
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return {
        member: Assignment(assignment.partitions, encode_assignment_error(code, assignment.user_data))
        if is_marked(spec.members[member].subscription.user_data)
        else assignment
        for member, assignment in assignments.items()
    }


def claimants_of(spec: GroupSpec) -> dict[TopicPartition, list[str]]:
    """Return for every owned partition its owner, or all members that claim it in the same highest generation."""
    found: dict[TopicPartition, tuple[int, list[str]]] = {}
    for name in sorted(spec.members):
        subscription = spec.members[name].subscription
        generation = subscription.generation
        for partition in dict.fromkeys(subscription.owned):
            best, names = found.get(partition, (generation, []))
            if generation > best:
                best, names = generation, []
            if generation == best:
                names.append(name)
            found[partition] = (best, names)
    return {partition: names for partition, (_, names) in found.items()}


_TRUSTED = "cooperative-sticky"
"""Kafka's own cooperative assignor: it withholds what changes hands, and resolves claims that clash."""


def assign_group(
    assignors: Mapping[str, Assignor], name: str, spec: GroupSpec, warn: Callable[[tuple[str, ...]], None]
) -> dict[str, Assignment]:
    """Return the group's assignments by the assignor that it chose.

    `warn` is called with the members that get nothing, because they cannot report what they own. Raises LookupError,
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
    subscription = member.subscription
    if not is_marked(subscription.user_data):
        return member
    return replace(member, subscription=replace(subscription, user_data=unmarked(subscription.user_data)))
