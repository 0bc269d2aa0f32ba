"""Rebalances of a group, inferred from the differences between two looks at it.

A cluster without group events shows who is a member and who is assigned what at one moment. What changed in between is
known, when and why is not: times are those of the looks, and a member that is missing either left or was evicted.
DescribeGroups shows no assignments while a round of a classic group runs: an eager assignor has revoked everything
by then, with a cooperative one the members that are still there own what they had. A consumer group whose epoch is a
later one has rebalanced, although nothing else may be different.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.group.explain.observed_group import forget_names
from kohort.group.explain.partition_ownership import Gap, Ownership
from kohort.group.explain.rebalance_report import (
    UNTOLD,
    Departure,
    GroupReport,
    Identity,
    Move,
    Outcome,
    Rebalance,
    Replacement,
    ReportedCause,
    Wait,
)
from kohort.model.ids import TopicPartition

Owners = Mapping[TopicPartition, str]

SETTLED = frozenset({"Stable", "Empty", "Dead", "NotReady"})
"""States in which no rebalance runs. A streams group is not ready while a topic of its topology does not exist."""

_ROUND = frozenset({"PreparingRebalance", "CompletingRebalance"})
_GONE = "member_gone"


class InferredHistory:
    """One group, folded from looks; of its rebalances the `last` ones are stored."""

    def __init__(self, group_id: str, last: int) -> None:
        self.group_id = group_id
        self.rebalances: deque[Rebalance] = deque(maxlen=last)
        self._identities: dict[str, Identity] = {}
        self._members: dict[str, MemberDescription] = {}
        self._ownership = Ownership()
        self._before: dict[TopicPartition, str] = {}
        self._group: GroupDescription | None = None
        self._protocol = ""
        """The assignor of the last stable state: a round shows none."""
        self._running: Rebalance | None = None
        self._total = 0
        self._unowned_partition_s = 0.0
        self._is_seen = False

    def fold(self, at_ms: int, group: GroupDescription | None) -> Rebalance | None:
        """Take what was seen, None where the group does not exist; return the rebalance that is over by it."""
        if self._running is None and self._is_seen and group == self._group:
            return None
        state = "Dead" if group is None else group.state
        members = {} if group is None else {member.member_id: member for member in group.members}
        self._identities |= {each.member_id: Identity(each.client_id, each.instance_id) for each in members.values()}
        was_seen, self._is_seen = self._is_seen, True
        before = self._owners()
        cause = self._note_members(at_ms, members, group) if was_seen else None
        owners = self._owners_seen(group, members)
        is_later = was_seen and (dict(owners) != before or _epoch(group) > _epoch(self._group) >= 0)
        if self._running is None and (cause is not None or state not in SETTLED or is_later):
            self._begin(at_ms, cause or UNTOLD, before, group, is_partial=not was_seen)
        self._follow(at_ms, owners)
        self._members, self._group = members, group
        if group is not None and state == "Stable":
            self._protocol = group.protocol
        return self._end(at_ms, state) if self._running is not None and state in SETTLED else None

    def report(self, now_ms: int) -> GroupReport:
        """Return what is known, the running rebalance as it is at `now_ms`."""
        group, running = self._group, self._running
        if running is not None:
            running.gaps = self._ownership.gaps + self._ownership.open_gaps(now_ms)
            running.waits_for = self._awaited()
            running.partitions = len(self._ownership.owners) + len(self._ownership.unowned)
        return GroupReport(
            self.group_id,
            "Dead" if group is None else group.state,
            0 if group is None else max(group.epoch, 0),
            len(self._members),
            len(self._ownership.owners),
            list(self.rebalances),
            running,
            self._total,
            self._unowned_partition_s,
            0,
            dict(self._identities),
            self._owners(),
            self._is_seen,
            "classic" if group is None else group.group_type,
        )

    # -- the inside

    def _owners(self) -> dict[TopicPartition, str]:
        return {partition: owner for partition, (owner, _) in self._ownership.owners.items()}

    def _owners_seen(self, group: GroupDescription | None, members: Mapping[str, MemberDescription]) -> Owners:
        """Return who owns what, as far as the state of the group shows it."""
        if group is not None and group.state in _ROUND and group.group_type != "consumer":
            if "cooperative" not in self._protocol:
                return {}
            return {partition: owner for partition, owner in self._owners().items() if owner in members}
        return {partition: member.member_id for member in members.values() for partition in member.assignment}

    def _note_members(
        self, at_ms: int, members: Mapping[str, MemberDescription], group: GroupDescription | None
    ) -> ReportedCause | None:
        """Note who came and went since the last look; return the first cause, or None."""
        joined = [each for each in members if each not in self._members]
        gone = [each for each in self._members if each not in members]
        heirs = {each.instance_id: each.member_id for each in map(members.__getitem__, joined) if each.instance_id}
        replaced = {
            each: heir for each in gone if (heir := heirs.get(self._members[each].instance_id or "")) is not None
        }
        causes = [ReportedCause("static_member_replaced", heir) for heir in replaced.values()]
        departures = [Departure(each, at_ms, ReportedCause(_GONE, each)) for each in gone if each not in replaced]
        causes += [each.cause for each in departures]
        joined = [each for each in joined if each not in replaced.values()]
        causes += [ReportedCause("member_joined", each) for each in joined]
        causes += [
            ReportedCause("subscription_changed", each, _changes(known.topics, member.topics))
            for each, member in members.items()
            if (known := self._members.get(each)) is not None and known.topics and member.topics
            if known.topics != member.topics
        ]
        if causes and self._running is None:
            self._begin(at_ms, causes[0], self._owners(), group, is_partial=False)
        if (running := self._running) is not None and causes:
            if running.cause == UNTOLD:
                running.cause = causes[0]
            running.joined += joined
            running.joined_ms |= dict.fromkeys(joined, at_ms)
            running.departures += departures
            running.replacements += [
                Replacement(old_id, new_id, str(members[new_id].instance_id), at_ms)
                for old_id, new_id in replaced.items()
            ]
        return causes[0] if causes else None

    def _begin(
        self, at_ms: int, cause: ReportedCause, before: Owners, group: GroupDescription | None, *, is_partial: bool
    ) -> None:
        self._total += 1
        self._before = dict(before)
        kind = self._group or group
        self._running = Rebalance(
            number=self._total,
            started_ms=at_ms,
            from_generation=0 if kind is None else max(kind.epoch, 0),
            cause=cause,
            is_partial=is_partial,
            partitions_before=len(before),
            from_type="classic" if kind is None else kind.group_type,
            to_type="classic" if group is None else group.group_type,
        )

    def _follow(self, at_ms: int, owners: Owners) -> None:
        """Carry ownership forward to what was seen."""
        by_member: dict[str, list[TopicPartition]] = {}
        for partition, owner in sorted(owners.items()):
            by_member.setdefault(owner, []).append(partition)
        for partition, owner in sorted(self._owners().items()):
            heir = owners.get(partition)
            if heir is None:
                self._ownership.release(owner, [partition], at_ms)
        for owner, partitions in by_member.items():
            self._ownership.assign(owner, partitions, at_ms, None)

    def _awaited(self) -> Wait | None:
        """Return which members a consumer group waits for; DescribeGroups does not show which members have joined."""
        behind = tuple(sorted(each.member_id for each in self._members.values() if each.phase == "Reconciling"))
        return Wait("heartbeat", behind) if behind else None

    def _end(self, at_ms: int, state: str) -> Rebalance:
        running = self._running
        assert running is not None, "only a rebalance that runs can end"
        self._running = None
        running.ended_ms = at_ms
        running.outcome = {"Dead": Outcome.DELETED, "Empty": Outcome.EMPTY}.get(state, Outcome.STABLE)
        running.to_generation = running.from_generation if self._group is None else max(self._group.epoch, 0)
        running.to_type = running.from_type if self._group is None else self._group.group_type
        running.members = len(self._members)
        after = self._owners()
        if running.outcome is Outcome.STABLE:
            self._ownership.forget_unassigned(set(after))
            running.gaps = self._ownership.collect()
        else:
            # A group without members has no partitions that lack an owner: only what was before counts.
            running.gaps = [gap for gap in self._ownership.collect() if gap.duration_ms]
            self._ownership = Ownership()
        running.partitions = len(after)
        running.moves = _moves(self._before, after, running.replacements)
        running.shares = {each.member_id: len(each.assignment) for each in self._members.values()}
        self._unowned_partition_s += running.unowned_partition_s
        self.rebalances.append(running)
        forget_names(self._identities, self._members)
        return running


def _epoch(group: GroupDescription | None) -> int:
    """Return the epoch of a consumer group; a classic group's generation is not to be had."""
    return -1 if group is None else group.epoch


def _moves(before: Owners, after: Owners, replacements: list[Replacement]) -> list[Move]:
    heirs = {each.old_id: each.new_id for each in replacements}
    moves = (
        Move(partition, None if giver is None else heirs.get(giver, giver), after.get(partition))
        for partition in sorted(before.keys() | after.keys())
        for giver in [before.get(partition)]
    )
    return [move for move in moves if move.giver != move.taker]


def _changes(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """Return how a subscription differs: `+b -a`."""
    added, removed = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    return " ".join([*(f"+{each}" for each in added), *(f"-{each}" for each in removed)])


def unowned_since(gaps: list[Gap], since_ms: int, now_ms: int) -> float:
    """Return for how many partition-seconds partitions had no owner since a time."""
    return sum(max(0, min(gap.until_ms, now_ms) - max(gap.from_ms, since_ms)) for gap in gaps) / 1000
