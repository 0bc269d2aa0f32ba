"""The stream reader of `spark.readStream.format("kohort")`, in the Python process that Spark calls for batches.

Spark makes readers in several processes, and requests batches from one of them as long as the query runs; only that one
may be a member. So the first request for a batch joins the group, not the constructor. The member leaves with `stop`,
at the end of `availableNow`, on SIGTERM, when its session is stopped, and when its application has ended. What a member
needs is imported there alone: executors import this module, too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kohort.spark.membership.application import Calls
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.options.source_options import NO_LIMITS, SourceOptions
from kohort.spark.rows.rounds import parted, pieces, tasks
from kohort.spark.source.range_piece import RangePiece, read_piece

if TYPE_CHECKING:
    import asyncio

    import pyarrow as pa

    from kohort.client.membership.user_callbacks import RebalanceListener
    from kohort.spark.loop_thread import LoopThread
    from kohort.spark.membership.application import Application
    from kohort.spark.membership.stream_member import Finished, StreamMember

Answer = TypeVar("Answer")

_APPLICATION_POLL_S = 0.5


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads topics as a member of a group. `cores` are the query's: they weigh it, and split what it reads.

    `listener` and `finished` are those of `StreamMember`; they run in the process that is the member. `plan_key` is the
    `options_key` of its options.
    """

    def __init__(
        self,
        options: SourceOptions,
        cores: int,
        listener: RebalanceListener | None = None,
        finished: Finished | None = None,
        plan_key: str = "",
    ) -> None:
        assert options.member is not None, "a stream is a member of a group"
        self.options = options
        self.group_id = options.member.group_id
        self.cores = cores
        self.listener = listener
        self.finished = finished
        self._thread: LoopThread | None = None
        self._member: StreamMember | None = None
        self._plan_key = plan_key
        self._ends_now = False
        self._is_over = False
        self._replayed = 0
        self._calls = Calls()
        self._watch: asyncio.Task[None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the membership out: a reader is also sent to the executors, which read and do not join."""
        return self.__dict__ | {"listener": None, "finished": None, "_thread": None, "_member": None, "_watch": None}

    # Calls in the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first batch: always the same, as a batch is described by its end."""
        self._calls.called()
        return StreamOffset(self.group_id).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options, or one of them: Spark passes it with each request for a batch."""
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End this run at the present ends of the topics."""
        self._calls.called()
        self._ends_now = True  # the member joins when its checkpoint is known, with the first request for a batch

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Commit the batch that ended at `start`, and return the end of the next one, or `start` where none is due."""
        begun = StreamOffset.from_json(start)
        if self._is_over:
            return start
        self._calls.called()
        limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self.options.limits
        member = self._joined(begun)
        self._call(member.check_siblings())
        end = self._call(member.next(begun, limits))
        self._calls.is_planned = end != begun
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the owned partitions, and how far behind them the query is, for Spark's progress."""
        if self._member is None:
            return None
        self._member.read_again += self._replayed
        self._replayed = 0
        return self._member.latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the pieces of the batch that ends at `end`, which its end alone describes."""
        self._calls.called()
        if start == end:
            return []
        asked = self.options.min_partitions
        least = asked or self.cores
        most = self.options.max_records_per_partition
        # minPartitions applies however few rows there are; without it no small range is cut to occupy the cores.
        batch = StreamOffset.from_json(end)
        ranges = batch.ranges
        if self._member is None or batch.reader != self._member.socket.name:  # Spark runs a logged batch again
            self._replayed = sum(each.size for each in ranges)
        cut = parted(pieces(ranges, least, smallest=1) if asked else pieces(ranges, least), most)
        found = tasks(cut, least) if most is None else [(each,) for each in cut]
        return [RangePiece(each, batch.topic_ids) for each in found]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this a batch late, when `latestOffset` has committed."""

    def stop(self) -> None:
        """Leave the group."""
        self._leave("the query was stopped")

    # Calls in the executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one piece's rows. Raises KafkaError where records were deleted."""
        yield from read_piece(self.options.read, partition)

    def _joined(self, last: StreamOffset) -> StreamMember:
        from kohort.spark.loop_thread import LoopThread

        if self._member is None:
            self._thread = LoopThread(f"kohort member of {self.group_id}")
            try:
                self._member = self._call(self._start(last))
            except BaseException:
                self._thread.close()
                self._thread = None
                raise
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, self._terminated)
        return self._member

    async def _start(self, last: StreamOffset) -> StreamMember:
        import asyncio

        from kohort.spark.membership.application import Application, session_files
        from kohort.spark.membership.query_listener import claim
        from kohort.spark.membership.stream_member import StreamMember

        operators = claim(os.getppid(), self._plan_key)
        member = await StreamMember.join(
            self.options, self.cores, self.listener, self.finished, self._calls, last, operators
        )
        if self._ends_now:
            await member.set_targets()
        following = _follow(Application(session_files()), member)
        self._watch = asyncio.create_task(following, name="kohort query watches its application")
        return member

    def _call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        assert self._thread is not None, "a member has a thread"
        try:
            return self._thread.call(work)
        except Exception as error:
            # A sentence for the user: Spark repeats it several times, with its frames.
            if type(error).__module__.startswith("kohort."):
                error.__traceback__ = None
            raise

    def _leave(self, reason: str) -> None:
        thread, member = self._thread, self._member
        self._is_over = True
        if thread is None:
            return
        try:
            if member is not None:  # a signal may arrive meanwhile: it waits for the same end
                thread.call(member.leave(reason))
        finally:
            self._thread = self._member = None
            thread.close()

    def _terminated(self, number: int, frame: object) -> None:
        """Leave, then end by the signal: Spark sends it where a query ends by itself or fails."""
        del frame
        with suppress(Exception):
            self._leave("the query has ended")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


async def _follow(application: Application, member: StreamMember) -> None:
    """Leave the group when the session is stopped or the application has ended; then this process ends, too."""
    import asyncio

    while not application.has_ended:
        if application.is_stopped() and not member.is_over:
            with suppress(Exception):
                await member.leave("the session was stopped")
        await asyncio.sleep(_APPLICATION_POLL_S)
    with suppress(Exception):
        await member.leave("the application has ended")
    os._exit(1)  # the main thread may wait for the application forever
