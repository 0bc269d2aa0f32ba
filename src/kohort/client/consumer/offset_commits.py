"""A consumer's commits: asked for by the program, automatic, and before partitions are revoked.

Commits leave one after another, in the order in which they were asked for: a late one never moves the group back behind
a newer one, however often it is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import GroupMetadata, OffsetAndMetadata, PartitionOffsets, committable
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.finished_offsets import PREFIX, FinishedOffsets, shortened
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.processing.copies import CopyTransactions
from kohort.client.consumer.processing.prompt_commits import PromptCommits
from kohort.client.errors import CommitFailed, PartitionErrors, RebalanceInProgress, TransactionAbortable
from kohort.client.membership.member_commits import OwnershipWatch
from kohort.client.synchronization import BackgroundTasks
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

_SYNC_WAIT_MS = 20
_SYNC_TIMEOUT_S = 5.0
"""How long a last commit waits for the group's leader to sync."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
OnComplete = Callable[[PartitionOffsets, KafkaError | None], object]


@dataclass(eq=False)
class OffsetCommits:
    """The commits of one consumer. `deadline_s` bounds them all, once the consumer stops.

    `auto_commit_error` is what the last automatic commit failed with, None where it was written.
    With `copies`, of a `process` that runs, they are made in its transactions, of all that has finished. With `prompt`,
    of the same, the automatic ones are among those: one beside them would delay the next by its answer.
    """

    _cluster: Cluster
    _config: ConsumerConfig
    _partitions: PartitionTable
    _group: ConsumerMembership
    _metrics: RebalanceMetrics
    deadline_s: float | None = None
    auto_commit_error: KafkaError | None = None
    copies: CopyTransactions | None = None
    prompt: PromptCommits | None = None

    def __post_init__(self) -> None:
        self._order = asyncio.Lock()
        self._begun = BackgroundTasks("kohort consumer commit")
        self._automatic = BackgroundTasks("kohort consumer auto-commit")
        self._next_s = 0.0
        # Half of the rebalance timeout: the listener is called however long the commit hangs (KAFKA-13310).
        self._last_commit_s = self._config.max_poll_interval_ms / 2000

    async def stop(self) -> None:
        """End every commit that is under way."""
        for tasks in (self._begun, self._automatic):
            tasks.cancel()
        for tasks in (self._begun, self._automatic):
            await tasks.wait()
        await self.end_copies()

    async def end_copies(self) -> None:
        """Commit no more in transactions: until then nothing is committed without what belongs to it."""
        copies, self.copies = self.copies, None
        if copies is not None:
            await copies.stop()

    # For the program

    async def commit(self, offsets: Offsets | None) -> None:
        """Commit these offsets, by default all positions, after what `begin_commit` has begun."""
        await self._commit(self._partitions.positions() if offsets is None else committable(offsets))

    def begin_commit(self, offsets: Offsets | None, on_complete: OnComplete | None) -> None:
        """Begin to commit as `commit` does; `on_complete(offsets, error)` is called with the outcome."""
        wanted = self._partitions.positions() if offsets is None else committable(offsets)
        self._group.require_id()
        self._begun.spawn(self._commit_and_report(wanted, self._group.current.watch_ownership(wanted), on_complete))

    async def wait_for_begun(self) -> None:
        """Wait for what `begin_commit` has begun so far."""
        if begun := tuple(self._begun):
            now_s = asyncio.get_running_loop().time()
            await asyncio.wait(begun, timeout=None if self.deadline_s is None else max(0.0, self.deadline_s - now_s))

    # Automatic commits

    def commit_if_due(self) -> None:
        """Begin an auto-commit where the interval is over."""
        now_s = asyncio.get_running_loop().time()
        if self._config.is_auto_committing and now_s >= self._next_s:
            self._next_s = now_s + self._config.auto_commit_interval_ms / 1000
            if self.prompt is None:
                self._automatic.spawn(self._auto_commit())
            else:
                self.prompt.note(1)

    async def commit_finished(self) -> bool:
        """Commit what is finished and not committed yet; return whether it is, with a line in the log if not."""
        if not self._group.has_joined:
            return False
        try:
            await self._commit(self._partitions.finished())
        except RebalanceInProgress as error:
            log.info("group %s: nothing is committed between two rounds: %s", self._group.group_id, error.text)
            return False
        except KafkaError as error:
            self.auto_commit_error = error
            log.warning("auto-commit: %s", error.text)
            return False
        self.auto_commit_error = None
        return True

    def next_due_s(self, until_s: float | None) -> float | None:
        """Return when to call `commit_if_due` again, at the latest `until_s`."""
        if not self._config.is_auto_committing:
            return until_s
        return self._next_s if until_s is None else min(until_s, self._next_s)

    async def commit_before_join(self) -> None:
        """Commit what is finished before JoinGroup: the coordinator refuses the generation once the round is formed."""
        if not self._config.is_auto_committing:
            return
        # No heartbeat leaves before JoinGroup is answered: the member must be back well within its session.
        limit_s = min(self._last_commit_s, self._config.session_timeout_ms / 3000)
        try:
            async with asyncio.timeout(limit_s):
                await self._commit(self._partitions.finished())
        except KafkaError as error:
            log.info("group %s: nothing was committed before JoinGroup: %s", self._group.group_id, error.text)
        except TimeoutError:
            log.info("group %s: the coordinator did not answer the commit before JoinGroup", self._group.group_id)

    async def commit_before_revocation(self, partitions: Partitions) -> None:
        """Commit what is finished of partitions that are revoked; warn of what could not be committed."""
        if not self._config.is_auto_committing:
            return
        why = "its coordinator did not answer"
        try:
            until_s = asyncio.get_running_loop().time() + self._last_commit_s
            async with asyncio.timeout_at(min(until_s, self.deadline_s or until_s)):
                await self._commit_between_rounds(partitions)
        except KafkaError as error:
            why = error.text
        except TimeoutError:
            pass
        self.warn_of_repeated(partitions, why)

    def warn_of_repeated(self, partitions: Partitions, why: str) -> None:
        """Warn of records that were finished, were not committed, and will be read again by the next owner."""
        counts = {
            partition: state.uncommitted
            for partition in sorted(partitions)
            if (state := self._partitions.get(partition)) is not None
            and state.uncommitted
            and not self._cluster.view.is_gone(partition.topic)
        }
        if self._config.is_auto_committing and counts:
            listed = ", ".join(f"{partition} ({count})" for partition, count in counts.items())
            text = "group %s: %d finished records could not be committed and will be read again, of %s: %s"
            log.warning(text, self._group.group_id, sum(counts.values()), listed, why)

    # The inside

    async def _commit(self, offsets: PartitionOffsets) -> None:
        watch = self._group.current.watch_ownership(offsets)
        await self.wait_for_begun()
        await self._commit_in_order(offsets, watch)

    async def _commit_in_order(self, offsets: PartitionOffsets, watch: OwnershipWatch | None) -> None:
        self._group.require_id()
        async with self._order:
            began_s = asyncio.get_running_loop().time()
            if self.copies is not None:
                offsets = await self._commit_copies(self.copies)
            left, done = offsets if self.copies is None else {}, dict(offsets)
            while left:
                failed: CommitFailed | PartitionErrors | None = None
                try:
                    await self._group.current.commit(left, since=watch)
                except (CommitFailed, PartitionErrors) as error:
                    failed = error
                self._measure_latency(offsets, began_s)
                if isinstance(failed, CommitFailed):
                    raise failed
                left = {} if failed is None else self._shortened(left, failed)
                done |= left
            offsets = done
            for partition, committed in offsets.items():
                if (state := self._partitions.get(partition)) is not None:
                    state.committed, state.committed_metadata = committed.offset, committed.metadata
                    if state.position == committed.offset:
                        state.mark_consumed()  # the program committed it, finished by a later poll or not

    async def _commit_copies(self, copies: CopyTransactions) -> PartitionOffsets:
        """Commit in a transaction, with less metadata where the broker takes no more. Raises as `copies.commit`."""
        offsets: PartitionOffsets = {}

        def offsets_now() -> tuple[GroupMetadata, PartitionOffsets]:
            nonlocal offsets
            offsets = self._partitions.finished()
            return self._group.metadata_for(offsets), offsets

        while True:
            try:
                return await copies.commit(offsets_now, self._finished_of)
            except TransactionAbortable as error:
                longest = max(offsets, key=lambda each: len(offsets[each].metadata), default=None)
                if error.code is not ErrorCode.OFFSET_METADATA_TOO_LARGE or longest is None:
                    raise
                if not (sent := len(offsets[longest].metadata)):
                    raise
                if (finished := self._finished_of(longest)) is not None:
                    _lower_limit(longest, finished, sent)

    def _finished_of(self, partition: TopicPartition) -> FinishedOffsets | None:
        return None if (state := self._partitions.get(partition)) is None else state.finished

    def _shortened(self, offsets: PartitionOffsets, error: PartitionErrors) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what to commit where the broker takes less metadata than `process` wrote. Raises other errors."""
        shorter: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, code in error.codes.items():
            state = self._partitions.get(partition)
            if code is not ErrorCode.OFFSET_METADATA_TOO_LARGE or state is None or state.finished is None:
                raise error
            entry = offsets[partition]
            if not entry.metadata.startswith(PREFIX):
                raise error  # written by the program
            _lower_limit(partition, state.finished, len(entry.metadata))
            shorter[partition] = replace(entry, metadata=shortened(entry.offset, entry.metadata, state.finished.limit))
        return shorter

    async def _commit_and_report(
        self, offsets: PartitionOffsets, watch: OwnershipWatch | None, on_complete: OnComplete | None
    ) -> None:
        failure: KafkaError | None = None
        try:
            await self._commit_in_order(offsets, watch)
        except KafkaError as error:
            failure = error
        if on_complete is not None:
            try:
                on_complete(offsets, failure)
            except Exception:
                log.exception("on_complete of commit_async raised")
        elif failure is not None:
            log.warning("a commit failed: %s", failure.text)

    async def _auto_commit(self) -> None:
        await self.commit_finished()

    async def _commit_between_rounds(self, partitions: Partitions) -> None:
        """Commit what is finished; retry while the group's leader has not synced: until then no commit is taken."""
        waits = self._cluster.waits(_SYNC_WAIT_MS)
        until_s = asyncio.get_running_loop().time() + _SYNC_TIMEOUT_S
        while True:
            try:
                return await self._commit(self._partitions.finished(partitions))
            except RebalanceInProgress:
                if asyncio.get_running_loop().time() >= until_s:
                    raise
            await asyncio.sleep(waits.next_s())

    def _measure_latency(self, offsets: PartitionOffsets, began_s: float) -> None:
        """Measure a commit that the group answered, be it with a refusal."""
        if offsets:
            now_s = asyncio.get_running_loop().time()
            self._metrics.commit_answered(round((now_s - began_s) * 1000), int(now_s * 1000))


def _lower_limit(partition: TopicPartition, finished: FinishedOffsets, refused: int) -> None:
    """Write less metadata, because the broker refused so many bytes."""
    if finished.lower_limit(refused):
        text = "%s: the broker's offset.metadata.max.bytes is below %d: %d is tried, so fewer records run at once"
        log.warning(text, partition, refused, finished.limit)
