"""Where a member of a group begins to read the partitions that it was assigned.

The law: the offsets of a store beside the rows are the truth, and the group's follow, so that tools show the lag; then
comes the checkpoint of a restarted query where it is ahead of the group, then the group's committed offset, then the
policy. What a stream's policy chose, and what any policy chose beside a store, is committed at once: otherwise a
restart before the first record would choose again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from kohort.client.admin.group_descriptions import describe_group
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, fetch_committed
from kohort.client.cluster.list_offsets import list_ends
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.client.membership.membership import Membership
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.spark.membership.checkpoint import Checkpoint, NewCheckpoint
from kohort.spark.membership.shared_state import NO_STATE, StateGuard, may_read
from kohort.spark.membership.start_policy import Log, ResetPolicy, StartPolicy
from kohort.spark.membership.stream_offset import JOB, CommitMark
from kohort.spark.options.member_options import OnNewCheckpoint
from kohort.spark.options.offset_choice import OffsetChoice
from kohort.spark.tables.table import OtherTopic, Position, Positions, TableBroken, is_same_topic

log = logging.getLogger(__name__)


@runtime_checkable
class OffsetStore(Protocol):
    """Stores the offsets of a stream's partitions in one step with its rows."""

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return where to read on in partitions that a member was assigned; those without an offset are left out."""


async def settle(
    member: Membership,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    chosen: Mapping[TopicPartition, int],
) -> None:
    """Make the group agree with the store, and with what a policy chose where the store has nothing.

    A member that was killed between the store's step and the group's commit left the group behind. Raises CommitFailed
    where another member owns a partition.
    """
    await member.commit(
        {
            partition: OffsetAndMetadata(offset, JOB.text)
            for partition, offset in chosen.items()
            if partition not in committed or committed[partition].offset != offset
        }
    )


def require_in_log(
    store: OffsetStore,
    group: str,
    found: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
) -> None:
    """Raise TableBroken where the store has an offset beyond the end of its topic, or one of another topic."""
    for partition, position in sorted(found.items()):
        now = topic_ids.get(partition.topic)
        if not is_same_topic(position.topic_id, now):
            raise OtherTopic.of(repr(store), group, partition, position, now)
        if position.offset > ends.get(partition, position.offset):
            raise TableBroken(
                f"{store!r} has offset {position.offset} of {partition} for group {group}, and the topic ends at"
                f" {ends[partition]}: the topic was created again, or this is another cluster. Read it as another"
                " group, or set the table's offsets (set_offsets)"
            )


class StartingOffsets:
    """The starting offsets of one member. Where its policy is marking, they are committed with `mark` as metadata."""

    def __init__(self, cluster: Cluster, group_id: str, policy: StartPolicy) -> None:
        self.store: OffsetStore | None = None
        self.policy = policy
        self._cluster = cluster
        self._group_id = group_id
        self.mark = JOB
        self.guard: StateGuard = NO_STATE
        self._existing: frozenset[TopicPartition] = frozenset()
        self._is_pattern = False
        self._checkpoint: Checkpoint | None = None
        self._new: NewCheckpoint | None = None
        self._is_latest = False
        self._is_first = True

    async def restart_from(self, checkpoint: Checkpoint, on_new: OnNewCheckpoint, choice: OffsetChoice) -> None:
        """Compare a query's last batch with the commits, once for each of its partitions; other partitions came later.

        Where there was no batch yet, `on_new` decides between the commits and `choice`. Raises KafkaError.
        """
        self._checkpoint = checkpoint
        if checkpoint.last.batch < 0:
            found = await fetch_committed(self._cluster, self._group_id, sorted(self._existing))
            self._new = NewCheckpoint(self._group_id, on_new, str(choice), found)
            self._is_latest = choice.end == LATEST
            if self._is_latest and on_new != "startingOffsets":  # the query continues what the group has begun
                self.policy.see(self._not_later(found))
        elif checkpoint.last.places and checkpoint.is_followed:
            self.policy.see(())

    def follow(self, checkpoint: Checkpoint) -> None:
        """Continue after this batch in partitions that return: the state of a query has the rows up to its end."""
        if self.guard.is_strict:
            self._checkpoint = checkpoint

    async def see(self, partitions: Iterable[TopicPartition], *, is_pattern: bool) -> None:
        """Remember which partitions exist when the job starts. Raises KafkaError.

        A ResetPolicy has no checkpoint, and that of a query may be new: then the group's commits show what came later
        (KIP-1327), since it has committed other partitions of the topic, or, with a pattern, of any topic.
        """
        self._existing = frozenset(partitions)
        self._is_pattern = is_pattern
        if isinstance(self.policy, ResetPolicy) and self.policy.is_marking:
            found = await fetch_committed(self._cluster, self._group_id, sorted(self._existing))
            self.policy.see(self._not_later(found))
        else:
            self.policy.see(self._existing)

    def _not_later(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> Partitions:
        """Return the existing partitions that were there when the group began, as its commits show."""
        topics = {each.topic for each in committed}
        return frozenset(
            each
            for each in self._existing
            if each in committed or (not committed if self._is_pattern else each.topic not in topics)
        )

    async def find(
        self,
        member: Membership,
        partitions: Partitions,
        read_to: Mapping[TopicPartition, int],
        recreated: Partitions = frozenset(),
    ) -> dict[TopicPartition, int]:
        """Return where to read on in partitions that the member owns; `read_to` are the positions it had in some.

        `recreated` are those whose topics were deleted and created again: commits may be those of the old topics.
        Raises NoOffset, OffsetMismatch, TableBroken, and CommitFailed where the member does not own them any more.
        """
        stored: Positions = {}
        if self.store is not None:
            stored = await asyncio.to_thread(self.store.offsets, self._group_id, sorted(partitions))
        committed = {each: at for each, at in (await member.committed(partitions)).items() if each not in recreated}
        if not self.guard.is_anew:
            self.guard.check_commits(self._group_id, committed)
        # With bound partitions only where this query began, or another that finished nothing.
        used = committed
        if self.guard.bound is not None:
            used = {each: entry for each, entry in committed.items() if _is_marked(entry, entry.offset)}
        # A recreated topic has no commits: where it was being read, it does not begin at the latest offset.
        found = dict(read_to) | {partition: entry.offset for partition, entry in used.items()}
        found |= await self._by_checkpoint(member, partitions, committed)
        logs = await self._logs(partitions)
        found |= await self._by_new_checkpoint(member, used, logs)
        unused = {each: entry.offset for each, entry in committed.items() if each not in used and each not in found}
        if self.store is not None:
            ends = {each: log.last for each, log in logs.items() if each not in recreated}
            require_in_log(self.store, self._group_id, stored, ends, self._cluster.view.topic_id_texts)
        found |= {each: position.offset for each, position in stored.items()}
        found = await self._readable(logs, found, recreated)
        for each, offset in sorted(unused.items()):
            log.warning(
                "group %s: %s is at offset %d, which another client has set: a query with bound partitions begins at"
                " %s, as its starting offsets have it, and moves the group there",
                *(self._group_id, each, offset, found.get(each)),
            )
        if self.store is not None:
            await settle(member, committed, found)
        if self.policy.is_marking:
            begun = {each: at for each, at in found.items() if not self._is_committed(committed.get(each), at)}
            await member.commit({each: OffsetAndMetadata(at, self.mark.text) for each, at in begun.items()})
        self._forget_checkpoint(partitions)
        return found

    async def _by_checkpoint(
        self, member: Membership, partitions: Partitions, committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, int]:
        if self._checkpoint is None:
            return {}
        others = frozenset(each for each in partitions if self._is_recreated(each, self._checkpoint))
        if others:
            self.policy.recreated(others)
            self._checkpoint = self._checkpoint.without(others)
        checkpoint = self._checkpoint
        is_shared = not self._is_first
        if checkpoint.is_in_doubt(partitions, committed):
            is_shared = is_shared or await self._has_other_members(member)
        return checkpoint.positions(partitions, committed, is_shared=is_shared)

    def _is_recreated(self, partition: TopicPartition, checkpoint: Checkpoint) -> bool:
        """Return whether a topic was recreated since the last batch of the checkpoint."""
        known = checkpoint.last.topic_ids.get(partition.topic)
        topic = self._cluster.view.topics.get(partition.topic)
        return known is not None and topic is not None and topic_id_text(topic.topic_id) != known

    async def _by_new_checkpoint(
        self,
        member: Membership,
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        logs: Mapping[TopicPartition, Log],
    ) -> dict[TopicPartition, int]:
        new = self._new
        if new is None or not (asked := new.in_question(committed)):
            return {}
        starts: dict[TopicPartition, int] = {}
        try:
            starts = await self.policy.begin(self._cluster, {each: logs[each] for each in asked if each in logs})
        except (KafkaError, ValueError):
            if new.on_new == "startingOffsets":
                raise  # otherwise the starting offsets are only compared, and need not be in the logs
        is_shared = await self._has_other_members(member)
        return new.positions(committed, starts, is_shared=is_shared, is_latest=self._is_latest)

    async def _has_other_members(self, member: Membership) -> bool:
        """Return whether other members read some of the topics that this one reads."""
        try:
            group = await describe_group(self._cluster, self._group_id)
        except KafkaError as error:
            log.warning("group %s: cannot find out whether it has other members: %s", self._group_id, error.text)
            return False
        others = [each for each in group.members if each.member_id != member.member_id]
        return any(may_read(each, frozenset(member.topics)) for each in others)

    async def _logs(self, partitions: Partitions) -> dict[TopicPartition, Log]:
        """Return the first and last offsets of the partitions that exist."""
        gone: set[TopicPartition] = set()
        first = await list_ends(self._cluster, partitions, EARLIEST, gone=gone)
        last = await list_ends(self._cluster, partitions, LATEST, gone=gone)
        return {each: Log(first[each], last[each]) for each in partitions if each not in gone}

    async def _readable(
        self, logs: Mapping[TopicPartition, Log], found: Mapping[TopicPartition, int], recreated: Partitions
    ) -> dict[TopicPartition, int]:
        """Return the position of every partition that exists, within its log."""
        readable = {each: entry.first for each, entry in logs.items() if each in recreated}
        for partition, entry in logs.items():
            if (offset := found.get(partition)) is None or partition in recreated:
                continue
            is_there = entry.first <= offset <= entry.last
            readable[partition] = offset if is_there else self.policy.instead(partition, offset, entry)
        new = {partition: entry for partition, entry in logs.items() if partition not in found.keys() | recreated}
        return readable | (await self.policy.begin(self._cluster, new) if new else {})

    def _is_committed(self, committed: OffsetAndMetadata | None, offset: int) -> bool:
        """Return whether a job has committed this offset; with state, whether this query did."""
        mark = CommitMark.parse(committed.metadata) if committed is not None else None
        return _is_marked(committed, offset) and (mark == self.mark or not self.guard.is_strict)

    def _forget_checkpoint(self, partitions: Partitions) -> None:
        """Use the checkpoint once: a partition that returns later had another owner, so the group's offset counts."""
        self._is_first = False
        if self._checkpoint is not None:
            self._checkpoint = self._checkpoint.without(partitions)


def _is_marked(committed: OffsetAndMetadata | None, offset: int) -> bool:
    """Return whether a Spark job has committed just this offset."""
    return committed is not None and committed.offset == offset and CommitMark.parse(committed.metadata) is not None
