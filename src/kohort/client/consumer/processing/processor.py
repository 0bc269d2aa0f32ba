"""Runs a handler over the records that a consumer polls: many at a time, one of each lane, and nothing without a slot.

A record's way: waiting → running → finished; or running → failed → waiting again, a dead letter, or the end of all.
When partitions are revoked, what waits is dropped, what runs has a time to finish, and is cancelled then; what did not
finish stays unfinished in what is committed, so that the next owner handles it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer_metrics import ConsumerMetrics
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.finished_offsets import FinishedOffsets, NotRuns, Waiting, finished_of, waiting_of
from kohort.client.consumer.partition_state import PartitionState, PartitionTable
from kohort.client.consumer.processing.copies import CopyTransactions, outputs_of
from kohort.client.consumer.processing.dead_letters import FailedRecordWriter
from kohort.client.consumer.processing.error_policies import DeadLetter, Outcome, Retry, seconds_of
from kohort.client.consumer.processing.process_settings import ProcessSettings
from kohort.client.consumer.processing.prompt_commits import PromptCommits
from kohort.client.consumer.processing.retry_topic import parked_of
from kohort.client.consumer.processing.schedule import PartitionWork, Schedule, WorkItem
from kohort.client.record import Record
from kohort.client.synchronization import BackgroundTasks, BroadcastEvent
from kohort.model.ids import TopicPartition
from kohort.net.environment import wall_clock
from kohort.wire.record_batches import NO_TIMESTAMP, CorruptBatch

log = logging.getLogger(__name__)

_LOOK_AHEAD = 4
"""How many records are taken for each slot, so that a lane with many records does not stop the others."""
_LEAST_AHEAD = 1_000
_MOST_BYTES = 64 * 2**20
_IN_A_ROW = 64
"""After so many records a worker lets the event loop run: a handler that never waits would stop the heartbeats."""
_LOOKED_S = 1.0
_LONG_S = 60.0
"""A handler that runs for so long is named in the log."""
_CANCELLED_S = 1.0
"""How long a cancelled handler may take to end."""


@dataclass(slots=True, eq=False)
class _Run:
    """A call of the handler. `is_named` is whether the log has it."""

    items: list[WorkItem]
    began_s: float
    is_named: bool = False


class Processor:
    """The work of one `process`. `changed` is notified when there may be room again, and when a failure ends it all.

    `commit` is that of `PromptCommits`, `is_gone` whether a topic is known not to exist, `deadline_s` when calls are
    cancelled because the consumer stops. More than 20 attributes: settings, counts, and the parts of the work.
    """

    def __init__(
        self,
        settings: ProcessSettings,
        partitions: PartitionTable,
        changed: BroadcastEvent,
        config: ConsumerConfig,
        metrics: ConsumerMetrics,
        commit: Callable[[], Awaitable[bool]],
        is_gone: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._is_coroutine = settings.is_coroutine
        self._is_plain = self._is_coroutine and settings.batch is None and not settings.exactly_once
        self._partitions = partitions
        self._changed = changed
        self._deserializers = config.deserializers
        self._metrics = metrics
        self._is_gone = is_gone
        self.commits = PromptCommits(commit, settings.at_once)
        self.copies = CopyTransactions(config, self._end_with) if settings.exactly_once else None
        self._writer = FailedRecordWriter(config, config.group_id or "", self.copies)
        self._schedule = Schedule(settings.ordering, is_by_partition=settings.exactly_once)
        self._works: dict[TopicPartition, PartitionWork] = {}
        self._runs: dict[asyncio.Task[None], _Run] = {}
        self._waiting: dict[asyncio.TimerHandle, list[WorkItem]] = {}
        self._parked: dict[asyncio.TimerHandle, WorkItem] = {}
        self._parked_bytes = 0
        self._workers = BackgroundTasks("kohort handler")
        self._watching = asyncio.create_task(self._watch(), name="kohort handlers watch")
        self._releasing = 0
        self.deadline_s = math.inf
        self._failure: BaseException | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._wall_ms = wall_clock()
        self._most = max(_LEAST_AHEAD, _LOOK_AHEAD * settings.at_once)
        self._completed = 0

    @property
    def running(self) -> int:
        """How many calls of the handler run."""
        return sum(bool(run.items) for run in self._runs.values())

    @property
    def unfinished(self) -> int:
        """How many records were taken and have not finished."""
        return self._schedule.records

    def longest_ms(self, now_ms: int) -> int:
        """Return for how long the oldest call runs; 0 where none does."""
        began_s = min((run.began_s for run in list(self._runs.values()) if run.items), default=now_ms / 1000)
        return max(0, now_ms - round(began_s * 1000))

    def room(self) -> int:
        """Return how many more records may be taken. Raises what ends the work: the failure of a handler."""
        if self._failure is not None:
            raise self._failure
        for state in self._partitions:
            if state.finished is None and state.buffered and state.position is not None:
                self._work_on(state, state.position)  # offsets without records may come first: they are taken too
        return 0 if self._schedule.size >= _MOST_BYTES else max(0, self._most - self._schedule.records)

    def add(self, batch: Batch) -> None:
        """Take the records of a batch that was polled, less what a former owner has finished."""
        work = self._work_on(self._partitions[batch.partition], batch.first_offset)
        records = batch.records
        taken = work.finished.take([record.offset for record in records], batch.next_offset)
        if len(taken) < len(records):
            wanted = set(taken)
            records = [record for record in records if record.offset in wanted]
        if batch.partition.topic in self._settings.policies.retry_topics:
            records = [record for record in records if not self._wait_if_parked(work, record)]
        for item in self._schedule.add(work, records):
            self._come_back_in(self._left_s(item.due_ms), [item])
        self._start_workers()

    def add_unreadable(self, error: CorruptBatch) -> None:
        """Take a record batch that cannot be read: like a record without a key that has failed for good.

        Its value are the bytes of the batch, if they came whole. Raises the error where it stops, or where the end of
        the batch is not known.
        """
        policy = self._settings.policies.of(error)
        outcome = policy.then if isinstance(policy, Retry) else policy
        state = None if error.partition is None else self._partitions.get(error.partition)
        if outcome == "stop" or state is None or error.offset is None or error.next_offset is None:
            raise error
        work = self._work_on(state, error.offset)
        is_finished = not work.finished.take([error.offset], error.next_offset)
        state.pass_over(error.next_offset)
        if is_finished:
            return
        self._metrics.failures.record(1, round(asyncio.get_running_loop().time() * 1000))
        item = WorkItem(work, Record(*state.partition, error.offset, NO_TIMESTAMP, None, error.batch), None)
        item.attempts = 1
        self._schedule.count(item)
        task = self._workers.spawn(self._end_unreadable(item, error, outcome))
        self._runs[task] = _Run([item], asyncio.get_running_loop().time())
        task.add_done_callback(self._worker_ended)

    async def _end_unreadable(self, item: WorkItem, error: CorruptBatch, outcome: Outcome) -> None:
        try:
            await self._end_attempts([item], error, outcome)
        except asyncio.CancelledError:  # its partition is released: the next owner meets the batch again
            self._schedule.leave([item])
            raise

    def _work_on(self, state: PartitionState, offset: int) -> PartitionWork:
        """Return the work on a partition; it begins at `offset`, unless it has begun."""
        if state.finished is None:
            if (old := self._works.get(state.partition)) is not None:  # its position was moved
                self._schedule.drop({old}.__contains__)
                old.is_dropped = True
                self._forget_waiting()
            state.finished = _finished_before(state, offset)
            self._works[state.partition] = PartitionWork(state.partition, state.finished)
        return self._works[state.partition]

    def _left_s(self, due_ms: int) -> float:
        """Return how long to wait for a time of another clock, perhaps: no longer than the policies have it."""
        return min(max(0.0, (due_ms - self._wall_ms()) / 1000), self._settings.policies.longest_s)

    def _wait_if_parked(self, work: PartitionWork, record: Record) -> bool:
        """Have a record of a retry topic handled when it is due; return False for one that another program wrote."""
        if (parked := parked_of(record)) is None:
            return False
        item = WorkItem(work, parked.record, None)
        item.offset, item.attempts = record.offset, parked.attempts
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle = loop.call_later(self._left_s(parked.due_ms), lambda: self._due(timer))
        self._parked[timer] = item
        self._count_parked(item.size)
        return True

    def _due(self, timer: asyncio.TimerHandle) -> None:
        item = self._parked.pop(timer)
        self._count_parked(-item.size)
        self._schedule.enter(item)
        self._start_workers()

    def _count_parked(self, size: int) -> None:
        """Read no more of retry topics while what waits takes the memory that there is for it."""
        self._parked_bytes += size
        for partition, work in self._works.items():
            if partition.topic in self._settings.policies.retry_topics:
                work.finished.is_full = self._parked_bytes >= _MOST_BYTES

    async def release(
        self, partitions: Iterable[TopicPartition], *, is_lost: Callable[[], bool] = lambda: False
    ) -> None:
        """End the work on partitions: what runs may finish, in time, until they are lost to this member.

        Once `is_lost`, which is asked each time that `changed` is notified, nothing of it could be committed.
        """
        works = {work for each in partitions if (work := self._works.get(each)) is not None}
        self._schedule.drop(works.__contains__)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._settings.revocation_timeout_ms / 1000
        self._releasing += 1
        try:
            while (runs := self._runs_of(works)) and not is_lost():
                if loop.time() >= (due_s := min(until_s, self.deadline_s)):
                    break
                await self._changed.wait(due_s)
        finally:
            self._releasing -= 1
        for work in works:  # which two may wait for: a rebalance, and the end of `process`
            work.is_dropped = True
            if self._works.get(work.partition) is work:
                del self._works[work.partition]
        self._forget_waiting()
        for task, run in runs.items():
            first = run.items[0]
            text = "%s: %s did not finish offset %d, key %r, in time: it is cancelled, and the next owner handles it"
            log.warning(text, first.work.partition, self._settings.name, first.record.offset, first.record.key)
            task.cancel()
        if runs:
            _, left = await asyncio.wait(runs, timeout=_CANCELLED_S)
            if left:
                log.warning("%s: %d calls were cancelled and still run", self._settings.name, len(left))

    async def stop(self) -> None:
        """End everything, whatever runs."""
        self._watching.cancel()
        await self.commits.stop()
        for task in self._runs:
            task.cancel()
        for timer in [*self._waiting, *self._parked]:
            timer.cancel()
        for work in {item.work for run in self._runs.values() for item in run.items}:
            work.is_dropped = True
        if workers := tuple(self._workers):
            await asyncio.wait(workers, timeout=_CANCELLED_S)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        await self._writer.stop()

    # Workers

    def _start_workers(self) -> None:
        """Start two workers where there is work and a slot; each starts two more when it begins.

        So there are soon as many as handlers wait, and one where none waits: that one does the work of all.
        """
        free = self._settings.at_once - len(self._runs)
        for _ in range(min(2, free, self._schedule.ready)):
            task = self._workers.spawn(self._work())
            self._runs[task] = _Run([], 0.0)
            task.add_done_callback(self._worker_ended)  # also where it is cancelled before it begins

    async def _work(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None, "a worker is a task"
        run = self._runs[task]
        schedule, size = self._schedule, self._settings.batch or 1
        in_a_row = 0
        try:
            while self._failure is None and (items := schedule.pop(size)):
                run.items, run.began_s, run.is_named = items, loop.time(), False
                if not in_a_row and schedule.ready:
                    self._start_workers()
                await self._handle(items)
                run.items = []
                in_a_row += 1
                if self._releasing:
                    self._changed.notify()
                if not in_a_row % _IN_A_ROW:
                    await asyncio.sleep(0)
        finally:
            # At once: what is added next counts on the slot.
            self._worker_ended(task)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        self._runs.pop(task, None)
        if self._releasing:
            self._changed.notify()

    async def _handle(self, items: list[WorkItem]) -> None:
        failed: Exception
        try:
            try:
                if self._is_plain and self._deserializers is None:
                    await self._settings.handler(items[0].record)  # not by `_call`, which takes a microsecond more
                else:
                    await self._call(items)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                failed = HandlerCancelled(str(error))
            except Exception as error:
                failed = error
            else:
                self._finish(items)
                return
            await self._failed(items, failed)
        except asyncio.CancelledError:
            self._come_back(items)
            raise
        except BaseException as error:
            self._end_with(error)

    async def _call(self, items: list[WorkItem]) -> None:
        settings = self._settings
        records = [item.record if self._deserializers is None else await self._deserialized(item) for item in items]
        argument: Any = records[0] if settings.batch is None else records
        if self._is_coroutine:
            returned = await settings.handler(argument)
        else:
            executor = settings.executor
            if executor is None:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(settings.at_once, "kohort handler")
                executor = self._threads
            returned = await asyncio.get_running_loop().run_in_executor(executor, settings.handler, argument)
        if self.copies is not None:
            self.copies.add(items[0].work, outputs_of(returned))

    async def _deserialized(self, item: WorkItem) -> Any:
        assert self._deserializers is not None, "the caller has looked"
        made, failed = await self._deserializers.apply_ready(item.record.topic_partition, (item.record[2:],))
        if failed is not None:
            raise failed
        return made[0]

    # What comes of a call

    def _finish(self, items: list[WorkItem]) -> None:
        for item in items:
            if not item.work.is_dropped:
                item.work.finished.finish(item.offset)
        self.commits.note(len(items))
        self._schedule.leave(items)
        self._completed += 1
        if not self._schedule.ready or not self._completed % _IN_A_ROW:
            self._changed.notify()

    async def _failed(self, items: list[WorkItem], error: Exception) -> None:
        self._metrics.failures.record(1, round(asyncio.get_running_loop().time() * 1000))
        for item in items:
            item.attempts += 1
        policy = self._settings.policies.of(error)
        first = items[0]
        if isinstance(policy, Retry):
            if first.attempts <= len(policy.delays):
                delay_s = seconds_of(policy.delays[first.attempts - 1])
                text = "%s: %s failed at offset %d, key %r, attempt %d, and is called again in %g s: %r"
                where = (first.work.partition, self._settings.name, first.record.offset, first.record.key)
                log.info(text, *where, first.attempts, delay_s, error)
                due_ms = self._wall_ms() + round(delay_s * 1000)
                if policy.topic is not None and policy.parks(delay_s):
                    await self._park(items, policy.topic, due_ms)
                    return
                if policy.order == "none":
                    for item in items:
                        self._schedule.leave_lane(item)
                for item in items:
                    item.work.finished.waiting[item.offset] = Waiting(item.attempts, due_ms, item.lane is not None)
                self.commits.note(len(items))
                self._come_back_in(delay_s, items)
                return
            policy = policy.then
        await self._end_attempts(items, error, policy)

    async def _park(self, items: list[WorkItem], topic: str, due_ms: int) -> None:
        """Have records wait in a retry topic; there they count as finished here."""
        try:
            for item in items:
                await self._writer.park(topic, item, due_ms)
        except Exception as refused:
            self._end_with(refused)
            return
        self._finish(items)

    async def _end_attempts(self, items: list[WorkItem], error: Exception, outcome: Outcome) -> None:
        first = items[0]
        where = f"{first.work.partition}, offset {first.record.offset}, key {first.record.key!r}"
        if isinstance(outcome, DeadLetter):
            try:
                for item in items:
                    await self._writer.send_letter(outcome.topic, item, error)
                    self._metrics.dead_letters.record(1, round(asyncio.get_running_loop().time() * 1000))
            except Exception as refused:
                self._end_with(refused)
                return
            log.warning("%s: after %d attempts in %s: %r", where, first.attempts, outcome.topic, error)
        elif outcome == "skip":
            log.warning("%s: skipped after %d attempts", where, first.attempts, exc_info=error)
        else:
            error.add_note(f"{self._settings.name} failed at {where}; the record is unfinished, and comes again")
            self._end_with(error)
            return
        self._finish(items)

    def _come_back_in(self, delay_s: float, items: list[WorkItem]) -> None:
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle = loop.call_later(delay_s, lambda: self._come_back(self._waiting.pop(timer)))
        self._waiting[timer] = items

    def _forget_waiting(self) -> None:
        """Let go of what waits for an attempt in partitions that were released."""
        for timer, items in list(self._waiting.items()):
            self._schedule.leave([item for item in items if item.work.is_dropped])
            if kept := [item for item in items if not item.work.is_dropped]:
                self._waiting[timer] = kept
            else:
                timer.cancel()
                del self._waiting[timer]
        deleted: dict[str, list[str]] = {}
        for timer in [timer for timer, item in self._parked.items() if item.work.is_dropped]:
            timer.cancel()
            item = self._parked.pop(timer)
            self._count_parked(-item.size)
            if self._is_gone(topic := item.work.partition.topic):
                deleted.setdefault(topic, []).append(f"{item.record.topic_partition} at {item.record.offset}")
        for topic, places in deleted.items():
            text = "the retry topic %s was deleted: %d records that waited in it are handled no more: %s"
            log.error(text, topic, len(places), ", ".join(sorted(places)))

    def _come_back(self, items: list[WorkItem]) -> None:
        """Have records handled once more, but for those of partitions that were released: a batch may have both."""
        self._schedule.leave([item for item in items if item.work.is_dropped])
        self._schedule.come_back([item for item in items if not item.work.is_dropped])
        self._start_workers()

    def _end_with(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._changed.notify()

    # Looking at what runs

    def _runs_of(self, works: set[PartitionWork]) -> dict[asyncio.Task[None], _Run]:
        return {task: run for task, run in self._runs.items() if any(item.work in works for item in run.items)}

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before_s = loop.time()
            await asyncio.sleep(_LOOKED_S)
            late_s = loop.time() - before_s - _LOOKED_S
            if late_s > _LOOKED_S:
                text = "the event loop stood still for %.1f s: does %s block? A plain function runs in a thread instead"
                log.warning(text, late_s, self._settings.name)
            for run in self._runs.values():
                if run.items and not run.is_named and loop.time() - run.began_s >= _LONG_S:
                    run.is_named = True
                    first = run.items[0]
                    text = "%s: %s has been at offset %d, key %r, for %d s"
                    where = (first.work.partition, self._settings.name, first.record.offset, first.record.key)
                    log.warning(text, *where, round(loop.time() - run.began_s))


class HandlerCancelled(Exception):
    """A handler raised CancelledError although it was not cancelled: something that it awaited was."""


def _finished_before(state: PartitionState, first_offset: int) -> FinishedOffsets:
    """Return what a former owner finished, as the commit has it at which this member begins to read."""
    if state.committed_metadata and state.committed == first_offset:
        try:
            text = state.committed_metadata
            return FinishedOffsets(
                first_offset, finished_of(first_offset, text), waiting=waiting_of(first_offset, text)
            )
        except NotRuns as why:
            text = (
                "%s: the metadata of the commit at offset %d lists no finished records: %s; all that follows is handled"
            )
            log.info(text, state.partition, first_offset, why)
    return FinishedOffsets(first_offset)
