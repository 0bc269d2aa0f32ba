"""Where a member of a group begins to read the partitions that it was given.

The law: who keeps offsets beside the rows comes first, then a restarted query's checkpoint as far as it has a say, then
the group's committed offset, and where there is none the policy. What a policy chose for a stream is committed at once:
otherwise a restart before the first record would choose again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from kohort.client.admin.group_descriptions import MemberDescription, describe_group
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, fetch_committed
from kohort.client.cluster.list_offsets import EARLIEST, LATEST, READ_UNCOMMITTED, list_ends
from kohort.client.membership.membership import Membership
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.spark.membership.checkpoint import Checkpoint
from kohort.spark.membership.commit_mark import JOB, CommitMark
from kohort.spark.membership.member_settings import Reset
from kohort.spark.membership.new_checkpoint import NewCheckpoint
from kohort.spark.membership.offset_store import OffsetKeeper, settle, take_over
from kohort.spark.options.member_options import OnNewCheckpoint
from kohort.spark.options.offset_choice import OffsetChoice, resolve

log = logging.getLogger(__name__)

_DELETED = "the topic was deleted"
_MADE_ANEW = "the topic was deleted and created again"


class NoOffset(KafkaError):
    """A partition has no committed offset that can be read, and nothing says where to read instead."""

    def __init__(self, partition: TopicPartition, committed: int | None, found: Log, advice: str) -> None:
        held = "has no committed offset" if committed is None else f"has the committed offset {committed}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} {held}, the log holds {found.first} to {found.last}, and {advice}",
        )


class NotThere(KafkaError):
    """An option names an offset that a partition does not hold, and `failOnDataLoss` is true."""

    def __init__(self, option: str, partition: TopicPartition, offset: int, found: Log) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{option} says {offset} for {partition}, the log holds {found.first} to {found.last}, and failOnDataLoss"
            " is true: name an offset that is there, or say failOnDataLoss=false to begin at the first one",
        )


class TopicDeleted(KafkaError):
    """A topic was deleted while a query read it, and `failOnDataLoss` is true."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{_names(partitions)}: {_DELETED}, and failOnDataLoss is true: rows may be gone that were never read; say"
            " failOnDataLoss=false to read on without them",
        )


class TopicMadeAnew(KafkaError):
    """A topic was deleted and created again while a query read it or was down, and `failOnDataLoss` is true."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"{_names(partitions)}: {_MADE_ANEW}, and failOnDataLoss is true: rows of the old topic may be gone that"
            " were never read; set failOnDataLoss=false to read the new one from its first record on",
        )


@dataclass(frozen=True, slots=True)
class Log:
    """What a partition's log holds: offsets from `first` up to, and without, `last`."""

    first: int
    last: int


class Policy(Protocol):
    """What is said for partitions without a committed offset, or with one that the log does not hold."""

    def see(self, partitions: Iterable[TopicPartition]) -> None:
        """See which partitions there are when the job starts."""
        ...

    async def begin(self, cluster: Cluster, logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
        """Return where to begin in partitions that have no committed offset. Raises NoOffset."""
        ...

    def instead(self, partition: TopicPartition, offset: int, found: Log) -> int:
        """Return where to go on when the log no longer, or not yet, holds `offset`. Raises NoOffset."""
        ...

    def deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Hear of owned partitions whose topics are there no more. Raises TopicDeleted."""
        ...

    def made_anew(self, partitions: Iterable[TopicPartition]) -> None:
        """Accept that topics are others than those that were read, under their names. Raises TopicMadeAnew."""
        ...


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """The consumer's `auto_offset_reset`; the latest offset is what `isolation` lets be read."""

    reset: Reset
    isolation: int = READ_UNCOMMITTED

    def see(self, partitions: Iterable[TopicPartition]) -> None:
        """Treat what comes later as what is there."""

    async def begin(self, cluster: Cluster, logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
        """Return the first or last offsets."""
        chosen = {partition: self._reset(partition, None, found) for partition, found in logs.items()}
        if self.reset == "latest" and self.isolation != READ_UNCOMMITTED:
            # What an open transaction has written comes when that is committed.
            chosen |= await list_ends(cluster, logs, LATEST, self.isolation, gone=set())
        return chosen

    def instead(self, partition: TopicPartition, offset: int, found: Log) -> int:
        """Return the first or last offset."""
        return self._reset(partition, offset, found)

    def deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the others on, as a consumer does."""
        log.warning("%s: %s", _names(partitions), _DELETED)

    def made_anew(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the new topics from their first records on."""
        log.warning("%s: %s", _names(partitions), _MADE_ANEW)

    def _reset(self, partition: TopicPartition, offset: int | None, found: Log) -> int:
        if self.reset == "none":
            advice = 'auto_offset_reset is "none": reset the group\'s offsets, or choose earliest or latest'
            raise NoOffset(partition, offset, found, advice)
        return found.first if self.reset == "earliest" else found.last


class ChoicePolicy:
    """A stream's `startingOffsets` and `failOnDataLoss`, which mean what they mean in Spark's own source."""

    def __init__(self, choice: OffsetChoice, isolation: int, *, fails_on_data_loss: bool) -> None:
        self._choice = choice
        self._isolation = isolation
        self._fails_on_data_loss = fails_on_data_loss
        self._old: frozenset[TopicPartition] = frozenset()

    def see(self, partitions: Iterable[TopicPartition]) -> None:
        """Apply the choice to these alone; a partition that comes later begins at its first record."""
        self._old = frozenset(partitions)

    async def begin(self, cluster: Cluster, logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
        """Return what `startingOffsets` or its kin chose; the earliest for what came later or was not named."""
        named = self._choice.named()
        chosen = {each for each in logs if each in self._old and (named is None or each in named)}
        choice = self._choice if named is None else _only(self._choice, chosen)
        found = await resolve(cluster, choice, chosen, isolation=self._isolation) if chosen else {}
        for each in [each for each in found if self._is_beyond(each, logs[each])]:
            if self._fails_on_data_loss:
                raise NotThere(choice.option, each, found[each], logs[each])
            found[each] = self.instead(each, found[each], logs[each])
        return {each: entry.first for each, entry in logs.items()} | found

    def _is_beyond(self, partition: TopicPartition, found: Log) -> bool:
        """Return whether an offset was named that is not there; the latest may have moved on since the look at it."""
        named = self._choice.place(partition)
        return named is not None and named >= 0 and not found.first <= named <= found.last

    def instead(self, partition: TopicPartition, offset: int, found: Log) -> int:
        """Return the first offset, or say what was lost."""
        if self._fails_on_data_loss:
            raise NoOffset(
                partition,
                offset,
                found,
                "failOnDataLoss is true: rows are gone; reset the group's offsets, or say failOnDataLoss=false to read"
                " on at the first offset there is",
            )
        log.warning("%s: offset %d is gone, it is read from %d on", partition, offset, found.first)
        return found.first

    def deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the others on, or say what was lost."""
        if self._fails_on_data_loss:
            raise TopicDeleted(partitions)
        log.warning("%s: %s", _names(partitions), _DELETED)

    def made_anew(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the new topics from their first records on, or say what was lost."""
        if self._fails_on_data_loss:
            raise TopicMadeAnew(partitions)
        log.warning("%s: %s", _names(partitions), _MADE_ANEW)


class StartingPoints:
    """The starting points of one member. With `is_marking`, where it starts is committed, with our `mark`."""

    def __init__(self, cluster: Cluster, group_id: str, policy: Policy, isolation: int, *, is_marking: bool) -> None:
        self.keeper: OffsetKeeper | None = None
        self.policy = policy
        self._cluster = cluster
        self._group_id = group_id
        self._isolation = isolation
        self._is_marking = is_marking
        self.mark = JOB
        self._there: frozenset[TopicPartition] = frozenset()
        self._checkpoint: Checkpoint | None = None
        self._new: NewCheckpoint | None = None
        self._is_latest = False
        self._is_first = True

    async def restart_from(self, checkpoint: Checkpoint, on_new: OnNewCheckpoint, choice: OffsetChoice) -> None:
        """Let a query's last batch have a say, once in each of its partitions; what it knows nothing of came later.

        Where there was no batch yet, `on_new` says whether commits of the group count. Raises KafkaError.
        """
        self._checkpoint = checkpoint
        if checkpoint.last.batch < 0:
            found = await fetch_committed(self._cluster, self._group_id, sorted(self._there))
            self._new = NewCheckpoint(self._group_id, on_new, str(choice), found)
            self._is_latest = choice.end == LATEST
        elif checkpoint.last.places and checkpoint.is_followed:
            self.policy.see(())

    def see(self, partitions: Iterable[TopicPartition]) -> None:
        """See which partitions there are when the job starts."""
        self._there = frozenset(partitions)
        self.policy.see(self._there)

    async def find(
        self,
        member: Membership,
        partitions: Partitions,
        read_to: Mapping[TopicPartition, int],
        made_anew: Partitions = frozenset(),
    ) -> dict[TopicPartition, int]:
        """Return where to read on in partitions that the member owns; `read_to` are those of them that it has read.

        `made_anew` are those whose topics are others than it has read: what was committed may be of the old ones.
        Raises NoOffset, OffsetMismatch, and CommitFailed when it turns out not to own them any more.
        """
        held: dict[TopicPartition, int] = {}
        if self.keeper is not None:
            held = await take_over(self.keeper, member, self._group_id, partitions)
        committed = {each: at for each, at in (await member.committed(partitions)).items() if each not in made_anew}
        # A topic that was made anew has no commits: it is not begun at the latest offset where it was being read.
        found = dict(read_to) | {partition: entry.offset for partition, entry in committed.items()}
        found |= await self._by_checkpoint(member, partitions, committed)
        logs = await self._logs(partitions)
        found |= await self._by_new_checkpoint(member, committed, logs)
        found |= held
        found = await self._readable(logs, found, made_anew)
        if self.keeper is not None:
            await settle(self.keeper, member, held, committed, found)
        if self._is_marking:
            begun = {each: at for each, at in found.items() if not _is_marked(committed.get(each), at)}
            await member.commit({each: OffsetAndMetadata(at, self.mark.text) for each, at in begun.items()})
        self._forget_checkpoint(partitions)
        return found

    async def _by_checkpoint(
        self, member: Membership, partitions: Partitions, committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, int]:
        if self._checkpoint is None:
            return {}
        others = frozenset(each for each in partitions if self._is_made_anew(each, self._checkpoint))
        if others:
            self.policy.made_anew(others)
            self._checkpoint = self._checkpoint.without(others)
        checkpoint = self._checkpoint
        is_shared = not self._is_first
        if checkpoint.is_in_doubt(partitions, committed):
            is_shared = is_shared or await self._has_other_members(member)
        return checkpoint.positions(partitions, committed, is_shared=is_shared)

    def _is_made_anew(self, partition: TopicPartition, checkpoint: Checkpoint) -> bool:
        """Return whether a topic is not the one that the checkpoint's last batch was read from."""
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
                raise  # elsewhere a choice that the logs do not hold is none of this start's
        is_shared = await self._has_other_members(member)
        return new.positions(committed, starts, is_shared=is_shared, is_latest=self._is_latest)

    async def _has_other_members(self, member: Membership) -> bool:
        """Return whether other members read some of the topics that this one reads."""
        try:
            group = await describe_group(self._cluster, self._group_id)
        except KafkaError as error:
            log.warning("group %s: whether it has other members: %s", self._group_id, error.text)
            return False
        others = [each for each in group.members if each.member_id != member.member_id]
        return any(_may_read(each, frozenset(member.topics)) for each in others)

    async def _logs(self, partitions: Partitions) -> dict[TopicPartition, Log]:
        """Return what the logs of those partitions hold that there are."""
        gone: set[TopicPartition] = set()
        first = await list_ends(self._cluster, partitions, EARLIEST, gone=gone)
        last = await list_ends(self._cluster, partitions, LATEST, gone=gone)
        return {each: Log(first[each], last[each]) for each in partitions if each not in gone}

    async def _readable(
        self, logs: Mapping[TopicPartition, Log], found: Mapping[TopicPartition, int], made_anew: Partitions
    ) -> dict[TopicPartition, int]:
        """Return the position of every partition that there is, within what its log holds."""
        readable = {each: entry.first for each, entry in logs.items() if each in made_anew}
        for partition, entry in logs.items():
            if (offset := found.get(partition)) is None or partition in made_anew:
                continue
            is_held = entry.first <= offset <= entry.last
            readable[partition] = offset if is_held else self.policy.instead(partition, offset, entry)
        new = {partition: entry for partition, entry in logs.items() if partition not in found.keys() | made_anew}
        return readable | (await self.policy.begin(self._cluster, new) if new else {})

    def _forget_checkpoint(self, partitions: Partitions) -> None:
        """What is given to this member again later was in others' hands: the group's offset counts."""
        self._is_first = False
        if self._checkpoint is not None:
            self._checkpoint = self._checkpoint.without(partitions)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _is_marked(committed: OffsetAndMetadata | None, offset: int) -> bool:
    """Return whether a job has committed just this offset, whichever job it was."""
    return committed is not None and committed.offset == offset and CommitMark.parse(committed.metadata) is not None


def _may_read(member: MemberDescription, topics: frozenset[str]) -> bool:
    """Return whether a member reads some of these topics, as far as the coordinator shows that."""
    named = {*member.topics, *(each.topic for each in member.assignment)}
    if member.subscription is not None:
        named |= {*member.subscription.topics}
    return bool(member.regex or not named or named & topics)


def _only(choice: OffsetChoice, partitions: set[TopicPartition]) -> OffsetChoice:
    return replace(
        choice,
        offsets={each: offset for each, offset in choice.offsets.items() if each in partitions},
        times_ms={each: time_ms for each, time_ms in choice.times_ms.items() if each in partitions},
    )
