"""`GroupStream`: a loop of small Spark jobs whose application is a member of a consumer group.

Each round reads the owned partitions from their committed offsets, hands a DataFrame to the user's
function, and commits once it returns. A row is handed over at least once: after a kill or a lost
partition the rows of the open round, and no others, are read again by whoever owns them then.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.client.decode.arrow_decoder import warm
from kohort.client.errors import CommitFailed
from kohort.client.rebalance_listener import RebalanceListener
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.loop_thread import LoopThread
from kohort.spark.membership.offset_store import OffsetKeeper
from kohort.spark.membership.round_gate import GroupSettings, RoundGate
from kohort.spark.rows.rounds import Round, StreamMetrics
from kohort.spark.source.round_frames import frame_on_driver, frame_on_executors
from kohort.spark.tables.fencing import Fenced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

RoundFunction = Callable[["DataFrame", Round], object]

ROWS_ON_DRIVER = 50_000
"""Rounds up to this many rows are decoded by the application itself: below it, that is faster than a job's tasks."""

BYTES_ON_DRIVER = 64 << 20
"""Bytes of decoded rows at which a round read by the application ends early."""


class GroupStream:
    """Rounds of rows from topics, shared with the other members of a group.

    `max_rows_per_round` bounds a round; `rows_on_driver` is the size up to which the application decodes a round
    itself instead of having the executors read it. `include_headers` adds the column `headers`. `group` are fields of
    `GroupSettings`: `protocol` ("classic", "consumer", "auto"), `assignors`, `assignor`, `auto_offset_reset`
    ("latest", "earliest", "none"), `isolation_level`, `group_instance_id`, timeouts, `pattern` instead of topics, and
    `properties`, how to be let into a secured cluster. `listener` hears of rebalances; its callbacks run in
    another thread, after a running round has been committed. `finished(round, is_committed)` is called after each
    round; one that is not committed was lost to a rebalance, and its rows are read again by their next owner. Joins
    the group when entered or first used.
    """

    def __init__(
        self,
        spark: SparkSession,
        *topics: str,
        bootstrap_servers: str,
        group_id: str,
        max_rows_per_round: int = 100_000,
        rows_on_driver: int = ROWS_ON_DRIVER,
        bytes_on_driver: int = BYTES_ON_DRIVER,
        listener: RebalanceListener | None = None,
        finished: Callable[[Round, bool], object] | None = None,
        include_headers: bool = False,
        **group: Any,
    ) -> None:
        if bool(topics) == bool(group.get("pattern")):
            raise ValueError("a GroupStream reads topics by name, at least one, or those that match a pattern")
        if max_rows_per_round < 1:
            raise ValueError(f"max_rows_per_round is {max_rows_per_round}: a round reads at least one row")
        self.metrics = StreamMetrics()
        self._spark = spark
        self._most_rows = max_rows_per_round
        self._rows_on_driver = rows_on_driver
        self._bytes_on_driver = bytes_on_driver
        self._settings = GroupSettings(bootstrap_servers, group_id, topics, **group)
        self._read_settings = replace(self._settings.read_settings, include_headers=include_headers)
        self._listener = listener
        self._finished = finished
        self._gate: RoundGate | None = None
        self._thread: LoopThread | None = None
        self._is_stopping = False
        self._refusal: CommitFailed | None = None
        self._former_handlers: dict[int, Any] = {}

    def __enter__(self) -> GroupStream:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Life

    def start(self) -> None:
        """Reach the cluster and begin to join the group. Raises KafkaError."""
        if self._thread is not None:
            return
        warm()
        self._thread = LoopThread(f"kohort member of {self._settings.group_id}")
        try:
            self._gate = self._thread.call(_gate(self._settings, self._listener))
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """End after the running round, which is still committed. Signal handlers and other threads may call it."""
        self._is_stopping = True
        if self._thread is not None and self._gate is not None:
            self._thread.wake(self._gate.interrupt)

    def close(self, reason: str = "the stream is being closed") -> None:
        """Leave the group, close every connection, and put signal handlers back."""
        self.stop()
        for number, former in self._former_handlers.items():
            signal.signal(number, former)
        self._former_handlers.clear()
        if self._thread is None:
            return
        try:
            if self._gate is not None:
                self._thread.call(self._gate.stop(reason))
        finally:
            self._thread.close()
            self._thread = self._gate = None

    def stop_on(self, *numbers: int) -> GroupStream:
        """Call `stop` when the process receives one of these signals; only in the main thread. Returns the stream."""
        for number in numbers:
            self._former_handlers.setdefault(number, signal.signal(number, lambda *_: self.stop()))
        return self

    # Rounds

    def run(
        self,
        function: RoundFunction,
        *,
        until: Callable[[GroupStream], bool] | None = None,
        timeout_s: float | None = None,
    ) -> StreamMetrics:
        """Hand each round's rows to `function(frame, round)` and commit them when it has returned.

        Ends when `until(stream)` holds, looked at between rounds, when `timeout_s` passed, or after `stop`; a stream
        that was stopped or closed reads no more. What
        `function` raises ends the run: its round is not committed. Raises KafkaError where the group or a log fails.
        `exactly_once(table)` as the function keeps the offsets in its table: a round that the table refused is lost.
        """
        keeper = function if isinstance(function, OffsetKeeper) else None
        with closing(self.rounds(until=until, timeout_s=timeout_s, keeper=keeper)) as rounds:
            for frame, each in rounds:
                try:
                    function(frame, each)
                except Fenced as refusal:
                    self._refusal = refusal
                except Exception as error:
                    if not self._is_overtaken(each):
                        raise
                    text = f"the cluster removed rows before they were read ({type(error).__name__})"
                    self._refusal = CommitFailed(
                        ErrorCode.OFFSET_OUT_OF_RANGE, self.member_id, self.generation, f"{text}: {error}"
                    )
        return self.metrics

    def rounds(
        self,
        *,
        until: Callable[[GroupStream], bool] | None = None,
        timeout_s: float | None = None,
        keeper: OffsetKeeper | None = None,
    ) -> Generator[tuple[DataFrame, Round]]:
        """Yield `(frame, round)`; a round is committed when the next one is asked for, and not if none ever is.

        With a `keeper` rounds start where that says, and it has to be given each round before the next is asked for.
        """
        if self._is_stopping:
            return  # a member that nobody reads with any more would keep its partitions from the others
        self.start()
        assert self._thread is not None, "a started stream has a thread"
        assert self._gate is not None, "a started stream has a gate"
        self._thread.wake(partial(self._gate.keep, keeper))
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_stopping:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            patience_s = left_s if until is None else min(_LOOK_S, _LOOK_S if left_s is None else left_s)
            begun = self._thread.call(self._gate.begin(self._most_rows, patience_s))
            if begun is not None:
                yield from self._one(self._thread, self._gate, begun)
            if until is not None and until(self):
                return

    @property
    def is_caught_up(self) -> bool:
        """Whether partitions are owned and all their records, as of the last look, were read and committed."""
        owned, lag = self.owned, self.lag
        return bool(owned) and len(lag) == len(owned) and not any(lag.values())

    @property
    def owned(self) -> Partitions:
        """The partitions that this member owns."""
        return self._gate.owned if self._gate else frozenset()

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records between the committed position and the end, per owned partition whose position is known."""
        return self._gate.lag if self._gate else {}

    @property
    def generation(self) -> int:
        """The group's generation, or -1."""
        return self._gate.generation if self._gate else -1

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave, or an empty string."""
        return self._gate.member_id if self._gate else ""

    # The inside

    def _one(self, thread: LoopThread, gate: RoundGate, planned: Round) -> Generator[tuple[DataFrame, Round]]:
        began = time.perf_counter()
        is_committed = False
        try:
            frame, done = self._frame(planned)
            self._refusal = None
            yield frame, done
            is_committed = self._commit(thread, gate, done, began)
        except KafkaError as error:
            is_lost = error.code is ErrorCode.OFFSET_OUT_OF_RANGE and self._settings.auto_offset_reset != "none"
            if not is_lost and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # Retention was faster: the next round starts where the policy says, as a consumer would, and without a
            # topic that was deleted.
            log.warning("group %s: %s", self._settings.group_id, error.text)
        finally:
            thread.wake(partial(gate.close, planned, is_committed=is_committed))

    def _commit(self, thread: LoopThread, gate: RoundGate, done: Round, began: float) -> bool:
        """Commit a round and return whether the group took it. What a table took with its offsets is done anyway."""
        is_kept = gate.keeper is not None and self._refusal is None
        try:
            if self._refusal is not None:
                raise self._refusal
            thread.call(gate.commit(done))
            is_committed = True
        except CommitFailed as refusal:
            fate = "is in its table all the same" if is_kept else "is lost"
            log.warning("group %s: round %d %s: %s", self._settings.group_id, done.number, fate, refusal.text)
            is_committed = False
        is_done = is_committed or is_kept
        if is_done:
            self.metrics.count(done, time.perf_counter() - began)
        else:
            self.metrics.lose(done)
        if self._finished is not None:
            self._finished(done, is_done)
        return is_committed

    def _is_overtaken(self, failed: Round) -> bool:
        """Return whether a round that executors read had rows that are gone: then another one may do better."""
        if failed.size <= self._rows_on_driver or self._settings.auto_offset_reset == "none":
            return False
        assert self._thread is not None, "a round has a thread"
        assert self._gate is not None, "a round has a gate"
        try:
            return self._thread.call(self._gate.is_overtaken(failed))
        except KafkaError as error:
            log.warning("group %s: whether rows are gone: %s", self._settings.group_id, error.text)
            return False

    def _frame(self, planned: Round) -> tuple[DataFrame, Round]:
        if planned.size > self._rows_on_driver:
            return frame_on_executors(self._spark, self._read_settings, planned.ranges), planned
        frame, ranges = frame_on_driver(self._spark, self._read_settings, planned.ranges, self._bytes_on_driver)
        return frame, Round(planned.number, planned.generation, ranges)


_LOOK_S = 0.05
"""Seconds between two looks at `until` while there is nothing to read."""


async def _gate(settings: GroupSettings, listener: RebalanceListener | None) -> RoundGate:
    gate = RoundGate(settings, listener)
    await gate.start()
    return gate
