"""State of a streaming query in a group: who may read partitions whose rows are in the state of a checkpoint.

The law: a stateful query (`is_strict`) reads only while it owns all of its partitions, from where its
checkpoint ends. All of the topic's, or with `boundPartitions` its part of them. Its commits are marked with that part,
so that no other job of ours continues there. `allowSharedState` turns all of this off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kohort.client.admin.group_descriptions import MemberDescription, describe_group
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, fetch_committed
from kohort.client.membership.membership import Membership
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.stream_offset import JOB, CommitMark
from kohort.spark.options.member_options import BoundPartitions

log = logging.getLogger(__name__)

_POLL_S = 0.5
_MARGIN_S = 5.0

_UNKNOWN = (
    "group %s: %s was committed by another query, and whether this one is stateful (windows, joins, dropDuplicates) is"
    " not known: call kohort.spark.register(spark) before it starts. A query with state gives wrong results here"
)


class SharedState(KafkaError):
    """A query with state would share its partitions, or continue where the state is in another checkpoint."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)


@dataclass(frozen=True, slots=True)
class StateGuard:
    """Refuses what would split the state of a query. `mark` is on the query's last commit, as far as it is known.

    `operators` are its stateful ones, None where the plan is not known. `is_anew`: the query has a new checkpoint and
    begins at `startingOffsets`, whatever was committed. `patience_s` bounds the wait for members that were killed.
    """

    mark: CommitMark = JOB
    operators: frozenset[str] | None = frozenset()
    bound: BoundPartitions | None = None
    is_allowed: bool = False
    is_anew: bool = False
    patience_s: float = 0.0

    @property
    def is_strict(self) -> bool:
        """Whether the state is in this checkpoint alone, which then decides where reading continues."""
        return self.bound is not None or (bool(self.operators) and not self.is_allowed)

    @property
    def state(self) -> str:
        """The part of the partitions that is bound to the checkpoint, for the marks of its commits."""
        return str(self.bound or BoundPartitions()) if self.is_strict else ""

    def needed(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Return those of some partitions without which the query reads nothing."""
        return (self.bound or BoundPartitions()).of(partitions) if self.is_strict else frozenset()

    async def before_join(self, cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Refuse to join a group whose offsets or members forbid it. Raises SharedState."""
        if self.is_allowed:
            return
        partitions = self.bound.of(partitions) if self.bound is not None else frozenset(partitions)
        committed = await fetch_committed(cluster, group, sorted(partitions))
        marks = {each: CommitMark.parse(entry.metadata) for each, entry in committed.items()}
        if not self.is_anew:
            self.check_commits(group, committed)
        if self.operators is None:
            others = [each for each, mark in marks.items() if mark is not None and mark.query != self.mark.query]
            for each in others[:1]:
                log.warning(_UNKNOWN, group, each)
        if self.bound is None and (self.is_strict or any(mark is not None and mark.state for mark in marks.values())):
            await self._wait_until_alone(cluster, group, partitions)

    def check_commits(self, group: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Refuse offsets behind rows that are in the state of another checkpoint. Raises SharedState."""
        for partition, entry in sorted(committed.items()):
            mark = CommitMark.parse(entry.metadata)
            if self.is_allowed or mark is None or (mark.query and mark.query == self.mark.query):
                continue
            if mark.state and mark.batch >= 0:
                anew = "set onNewCheckpoint=startingOffsets"
                reset = (
                    f"reset the group's offsets (kohort groups reset-offsets {group} --topic {partition.topic}"
                    " --to-earliest --execute)"
                )
                if not self.mark.query:  # a GroupStream has no options
                    anew = reset
                elif self.bound is None:
                    anew += f", or {reset}; allowSharedState=true continues at the offset"
                raise SharedState(
                    f"group {group!r}: offset {entry.offset} of {partition} belongs to the state in the checkpoint of"
                    f" the query {mark.query}, which ended batch {mark.batch} there: rows that are read from here on"
                    " would be missing in its windows, joins or keys. Start that query with its checkpoint, or read as"
                    f" another group. If its checkpoint is not needed any more, {anew}"
                )
            if self.is_strict and (mark.batch >= 0 or not mark.query):
                who = f"the query {mark.query}" if mark.query else "a GroupStream"
                raise SharedState(
                    f"{self._has_state}, and the group {group!r} is at offset {entry.offset} of {partition}, which"
                    f" {who} committed: rows before it would be missing in windows, joins and keys. Set"
                    " onNewCheckpoint=startingOffsets to build the state from startingOffsets on, or give the query a"
                    " group.id of its own"
                    + ("" if self.bound else "; allowSharedState=true continues at the offset without them")
                )

    async def check_owned(self, cluster: Cluster, member: Membership, missing: Partitions) -> None:
        """Refuse to run while another member is assigned what this query needs. Raises SharedState."""
        if not missing or not member.is_stable:
            return
        others = await _others(cluster, member.group_id, missing, member.member_id)
        if self.bound is not None:
            others = [each for each in others if each.assignment & missing]
        if others:
            raise self._shared(member.group_id, others[0])

    async def _wait_until_alone(self, cluster: Cluster, group: str, partitions: Partitions) -> None:
        loop = asyncio.get_running_loop()
        began, most_s = loop.time(), self.patience_s + (_MARGIN_S if self.patience_s else 0.0)
        while others := await _others(cluster, group, partitions):
            committed = await fetch_committed(cluster, group, sorted(partitions))
            # Only a member of this query's last run is waited for, which may have finished no batch.
            marks = [CommitMark.parse(entry.metadata) for entry in committed.values()]
            may_be_own = all(
                each and each.query and (each.query == self.mark.query or each.batch < 0) for each in marks
            )
            if loop.time() - began >= most_s or not may_be_own:
                raise self._shared(group, others[0])
            if loop.time() - began < _POLL_S:
                log.warning(
                    "group %s: waits at most %.0f s for the session of %s to end, as after a kill: a query with state"
                    " shares no partitions",
                    *(group, most_s, _name(others[0])),
                )
            await asyncio.sleep(_POLL_S)

    @property
    def _has_state(self) -> str:
        if self.operators:
            return f"this query is stateful ({', '.join(sorted(self.operators))})"
        return (
            f"this query is bound to partitions (boundPartitions={self.bound})" if self.bound else "a query has state"
        )

    def explained(self, error: KafkaError, group: str) -> KafkaError:
        """Return what a refusal by the coordinator means where partitions are bound, else the error itself."""
        if self.bound is None or isinstance(error, SharedState):
            return error
        if error.code is ErrorCode.FENCED_INSTANCE_ID:
            return SharedState(
                f"another process was started with boundPartitions={self.bound} of the group {group!r} and has its"
                " partitions now: this query ends, because the state of a part is in one checkpoint. Run one for each"
                " part"
            )
        if error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return SharedState(
                f"the group {group!r} has members without boundPartitions, and this query has boundPartitions="
                f"{self.bound}: stop them (kohort groups describe {group} shows them), or give the query a group.id of"
                " its own"
            )
        return error

    def _shared(self, group: str, other: MemberDescription) -> SharedState:
        if self.bound is not None:
            return SharedState(
                f"this query has boundPartitions={self.bound} of the group {group!r}, and its member {_name(other)} has"
                " partitions of this part: all queries of a group divide the partitions by the same number. Stop that"
                " member, or give this query a group.id of its own"
            )
        return SharedState(
            f"{self._has_state}, and the group {group!r} has the member {_name(other)}: each would get a part of the"
            " rows of a window, a join or a key. Give the query a group.id of its own, stop the other member, or divide"
            " the partitions by boundPartitions; allowSharedState=true accepts partial results"
        )


NO_STATE = StateGuard()


async def _others(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition], own_id: str = ""
) -> list[MemberDescription]:
    """Return the other members that may read the topics of some partitions. Raises KafkaError."""
    try:
        members = (await describe_group(cluster, group)).members
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return []
        raise
    topics = frozenset(each.topic for each in partitions)
    return [each for each in members if each.member_id != own_id and may_read(each, topics)]


def may_read(member: MemberDescription, topics: frozenset[str]) -> bool:
    """Return whether a member may read some of these topics, as far as the coordinator describes it."""
    named = {*member.topics, *(each.topic for each in member.assignment)}
    if member.subscription is not None:
        named |= {*member.subscription.topics}
    return bool(member.regex or not named or named & topics)


def _name(member: MemberDescription) -> str:
    return f"{member.member_id} (client.id {member.client_id}, host {member.client_host})"
