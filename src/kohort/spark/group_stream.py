"""`GroupStream`: a loop of small Spark jobs whose application is a member of a consumer group.

Each round reads the owned partitions from their committed offsets, passes a DataFrame to the user's function, and
commits when that has returned. A row is processed at least once: after a kill or a lost partition the next owner reads
the rows of the open round again, and no others.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from kohort.client.consumer.range_reader import RangeReader
from kohort.client.decode.arrow_decoder import warm
from kohort.client.errors import CommitFailed
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.model.setting import LONG, OBJECT, STRING, check_fields, setting, settings_of, unknown
from kohort.spark.into_table import ExactlyOnce
from kohort.spark.loop_thread import LoopThread
from kohort.spark.membership.group_progress import GroupProgress
from kohort.spark.membership.member_settings import MemberSettings
from kohort.spark.membership.owned_partitions import Available
from kohort.spark.membership.round_gate import RoundGate
from kohort.spark.membership.starting_offsets import OffsetStore
from kohort.spark.options.source_options import default_subject
from kohort.spark.report import HistoryListener, StreamHistory, stream_report
from kohort.spark.rows.read_rows import range_reader
from kohort.spark.rows.rounds import OffsetRange, Round, plan
from kohort.spark.running_session import is_stopped
from kohort.spark.source.round_frames import frame_of, frame_on_executors, table_on_driver, table_on_executors
from kohort.spark.tables.table import Fenced
from kohort.spark.transactional_topic import TransactionalTopic

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kohort.assign.spec import Assignor
    from kohort.client.membership.protocol_switch import GroupProtocol
    from kohort.spark.rows.read_settings import Isolation, ReadSettings
    from kohort.spark.schemas.value_decoder import Format

log = logging.getLogger(__name__)

RoundFunction = Callable[["DataFrame", Round], object]
ArrowFunction = Callable[["pa.Table", Round], object]


class StreamSettings(TypedDict, total=False):
    """The keyword arguments of `GroupStream`; `StreamConfig` explains its own, `MemberSettings` those of a member."""

    max_rows_per_round: int
    rows_on_driver: int
    bytes_on_driver: int
    listener: RebalanceListener | None
    finished: Callable[[Round, bool], object] | None
    include_headers: bool
    report: str | Path | None
    registry: str | Mapping[str, str] | None
    subject: str | None
    version: int | str
    schema: str | StructType | None
    value_format: Format | None
    dead_letter_topic: str | None
    auto_offset_reset: str | None
    fail_on_data_loss: bool | None
    client_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    assignors: tuple[Assignor, ...]
    client_rack: str | None
    protocol: GroupProtocol
    assignor: str | None
    pattern: str | None
    isolation_level: Isolation
    topics_must_exist: bool
    allow_auto_create_topics: bool
    metadata_max_age_ms: int
    properties: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamConfig:
    """Settings of a stream besides those of its member. Raises ValueError for those that do not go together.

    With `registry` or `schema` the column `value` is decoded, as by `kohort.spark.decode`.
    """

    # fmt: off
    max_rows_per_round: int = setting(100_000, "How many offsets a round has at most.", 1, kind=LONG)
    rows_on_driver: int = setting(50_000, "Rounds of up to this many offsets are decoded by the application, which is "
        "faster than the tasks of a job.", 0, kind=LONG)
    bytes_on_driver: int = setting(64 << 20, "Bytes of decoded rows at which a round that the application reads ends "
        "early.", 0, kind=LONG)
    listener: RebalanceListener | None = setting(None, "Its callbacks run in another thread, after a running round has "
        "been committed.", kind=OBJECT)
    finished: Callable[[Round, bool], object] | None = setting(None, "Called with each round and whether it is "
        "committed; else its next owner reads its rows again.", kind=OBJECT)
    include_headers: bool = setting(False, "Whether rows have the column `headers`.")
    report: str | Path | None = setting(None, "An HTML file that `close` writes (`write_report`).", kind=OBJECT)
    registry: str | Mapping[str, str] | None = setting(None, "Where a schema registry is, or its settings by name.",
        kind=OBJECT)
    subject: str | None = setting(None, "Whose schema the reader has; else that of `TOPIC-value`.", kind=STRING)
    version: int | str = setting("latest", "The version of that schema.", kind=OBJECT)
    schema: str | StructType | None = setting(None, "The reader's schema itself.", kind=OBJECT)
    value_format: Format | None = setting(None, "What values are, where no registry has their schema: avro or json.",
        kind=STRING)
    dead_letter_topic: str | None = setting(None, "Where bad records go; without it they have null as `value` and the "
        "reason in the column `error`.", kind=STRING)
    # fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        if self.registry is None and self.schema is None and (self.dead_letter_topic or self.subject):
            raise ValueError("dead_letter_topic and subject are for values that are decoded: give registry or schema")

    def read_settings(self, member: MemberSettings) -> ReadSettings:
        """Return how the rows of a member's topics are read. Raises ValueError, SchemaUnknown, RegistryUnavailable."""
        found = replace(
            member.read_settings, include_headers=self.include_headers, dead_letter_topic=self.dead_letter_topic or ""
        )
        if self.registry is not None or self.schema is not None:
            from kohort.spark.schemas.decoded_column import decoding  # urllib3 and numba are loaded for it

            subject = self.subject or (default_subject(member.topics) if self.schema is None else None)
            how = decoding(
                self.registry,
                subject=subject,
                version=self.version,
                schema=self.schema,
                value_format=self.value_format,
            )
            found = replace(found, decoding=how)
        if self.dead_letter_topic in member.topics:
            text = f"dead_letter_topic is {self.dead_letter_topic}, which is read: its records would be bad again"
            raise ValueError(text)
        return found


@dataclass(slots=True)
class StreamMetrics:
    """Metrics of a stream: rounds and offsets committed, those lost to a rebalance, and how long rounds took."""

    rounds: int = 0
    offsets: int = 0
    """Offsets of committed rounds; compaction and transactions may have left fewer records."""
    lost_rounds: int = 0
    lost_offsets: int = 0
    dead_letters: int = 0
    """Records in the dead-letter topic of rounds that the application decoded; executors log theirs."""
    last_round_ms: float = 0.0
    longest_round_ms: float = 0.0
    total_round_ms: float = 0.0

    def count(self, done: Round, seconds: float) -> None:
        """Add a committed round."""
        self.rounds += 1
        self.offsets += done.size
        self.last_round_ms = seconds * 1000
        self.longest_round_ms = max(self.longest_round_ms, self.last_round_ms)
        self.total_round_ms += self.last_round_ms

    def lose(self, lost: Round) -> None:
        """Add a round whose commit the group refused."""
        self.lost_rounds += 1
        self.lost_offsets += lost.size


@dataclass(frozen=True, slots=True)
class _RunningStream:
    """The member of a stream that has started, the thread in which it runs, and what reads small rounds."""

    thread: LoopThread
    gate: RoundGate
    reader: RangeReader


class GroupStream:
    """Rounds of rows from topics, shared with the other members of a group.

    `settings` are those of `StreamConfig` and of `MemberSettings`, among them `pattern` instead of topics. The stream
    joins the group when it is entered or first used.
    """

    def __init__(
        self,
        spark: SparkSession,
        *topics: str,
        bootstrap_servers: str,
        group_id: str,
        **settings: Unpack[StreamSettings],
    ) -> None:
        if bool(topics) == bool(settings.get("pattern")):
            raise ValueError("a GroupStream reads topics by name, at least one, or those that match a pattern")
        own, of_member = settings_of(StreamConfig), settings_of(MemberSettings)
        for name in settings:
            if name not in own and name not in of_member:
                raise unknown("GroupStream", name, [*own, *of_member])
        config = {name: value for name, value in settings.items() if name in own}
        member: dict[str, Any] = {name: value for name, value in settings.items() if name not in own}
        self.metrics = StreamMetrics()
        self._spark = spark
        self._config = StreamConfig(**config)  # type: ignore[arg-type]
        self._settings = MemberSettings(bootstrap_servers, group_id, topics, **member)
        self._read_settings = self._config.read_settings(self._settings)
        self._history = StreamHistory()
        self._listener = HistoryListener(self._history, self._config.listener or RebalanceListener())
        self._progress = GroupProgress(group_id, "", -1, 0, 0, 0, 0, 0)
        self._running: _RunningStream | None = None
        self._is_stopping = False
        self._refusal: CommitFailed | None = None
        self._written: Round | None = None
        """The last round whose offsets were committed in a transaction."""
        self._former_handlers: dict[int, Any] = {}

    def __enter__(self) -> GroupStream:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> None:
        """Connect to the cluster and begin to join the group. Raises KafkaError."""
        if self._running is not None:
            return
        warm()
        thread = LoopThread(f"kohort member of {self._settings.group_id}")
        try:
            gate = thread.call(RoundGate.join(self._settings, self._listener))
            self._running = _RunningStream(thread, gate, range_reader(self._read_settings))
        except BaseException:
            thread.close()
            self.close()
            raise

    def stop(self) -> None:
        """End after the running round, which is still committed. Signal handlers and other threads may call it."""
        self._is_stopping = True
        if (running := self._running) is not None:
            running.thread.wake(running.gate.interrupt)

    def close(self, reason: str = "the stream is being closed") -> None:
        """Leave the group, close every connection, and restore signal handlers."""
        self.stop()
        for number, former in self._former_handlers.items():
            signal.signal(number, former)
        self._former_handlers.clear()
        running, self._running = self._running, None
        if running is None:
            return
        self._progress = self._progress_of(running)
        self._sample(running)
        try:
            running.reader.close()
            running.thread.call(running.gate.stop(reason))
        finally:
            running.thread.close()
            self._report_at_end()

    def write_report(self, path: str | Path) -> None:
        """Write an HTML file with the stream's figures and a plot of ownership, lag and rate since it was made.

        Other threads may call it. Raises OSError.
        """
        text = stream_report(self.progress, self._history)
        unfinished = Path(f"{path}.unfinished")
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise

    def stop_on(self, *numbers: int) -> GroupStream:
        """Call `stop` when the process receives one of these signals; only in the main thread. Returns the stream."""
        for number in numbers:
            self._former_handlers.setdefault(number, signal.signal(number, lambda *_: self.stop()))
        return self

    def run(
        self,
        function: RoundFunction | ArrowFunction,
        *,
        rows: Literal["spark", "arrow"] = "spark",
        until: Callable[[GroupStream], bool] | None = None,
        timeout_s: float | None = None,
    ) -> StreamMetrics:
        """Pass each round's rows to `function(frame, round)` and commit them when it has returned.

        With `rows="arrow"` the function receives a `pyarrow.Table` instead of a DataFrame. Then a round of at most
        `rows_on_driver` rows runs no Spark job; a larger one is read by the executors and collected in this process.
        Neither does a small one that `exactly_once` stores as it is.
        Ends when `until(stream)` is true, checked between rounds, when `timeout_s` passed, after `stop`, or when
        the session was stopped; a stream that was stopped or closed reads no more. An exception of `function` ends the
        run: its round is not committed. Raises KafkaError where the group or a log fails. `exactly_once(table)` as the
        function stores the offsets in its table: a round that the table refused is lost. A `TransactionalTopic` as the
        function commits the offsets in its transaction.
        """
        store = function if isinstance(function, OffsetStore) else None
        topic = function if isinstance(function, TransactionalTopic) else None
        if rows not in ("spark", "arrow"):
            raise ValueError(f'rows is {rows!r}: the rows of a round are "spark" (a DataFrame) or "arrow" (a Table)')
        in_arrow = sys.maxsize if rows == "arrow" else 0
        if isinstance(function, ExactlyOnce):
            in_arrow = max(in_arrow, function.rows_in_arrow)
        if rows == "arrow" and (topic or (isinstance(function, ExactlyOnce) and not function.takes_arrow)):
            raise ValueError(f'rows is "arrow", and {function!r} takes a DataFrame: leave rows out')
        if topic is not None and not self._is_stopping:
            topic.start()  # an earlier job's open transaction would hide the offsets where reading starts
        is_exact = store is not None or topic is not None
        with closing(self._rounds(in_arrow, until, timeout_s, store, is_exact=is_exact)) as rounds:
            for frame, each in rounds:
                try:
                    if topic is None:
                        function(frame, each)
                    else:
                        self._write(frame, each, topic)
                except Fenced as refusal:
                    self._refusal = refusal
                except Exception as error:
                    if not self._is_overtaken(each):
                        raise
                    text = f"the cluster deleted rows before they were read ({type(error).__name__})"
                    identity = self.generation, self.member_id
                    self._refusal = CommitFailed(ErrorCode.OFFSET_OUT_OF_RANGE, identity, f"{text}: {error}")
        return self.metrics

    def rounds(
        self,
        *,
        until: Callable[[GroupStream], bool] | None = None,
        timeout_s: float | None = None,
        offset_store: OffsetStore | None = None,
    ) -> Generator[tuple[DataFrame, Round]]:
        """Yield `(frame, round)`; a round is committed when the next one is requested, and not before.

        With an `offset_store` rounds start at its offsets; it has to store each round before the next is requested.
        """
        return self._rounds(0, until, timeout_s, offset_store, is_exact=offset_store is not None)

    def _rounds(
        self,
        in_arrow: int,
        until: Callable[[GroupStream], bool] | None,
        timeout_s: float | None,
        offset_store: OffsetStore | None,
        *,
        is_exact: bool,
    ) -> Generator[tuple[Any, Round]]:
        """Yield rounds, those of at most `in_arrow` offsets in Arrow."""
        if self._is_stopping:
            return  # a member that reads no more would withhold its partitions from the others
        self.start()
        running = self._running
        assert running is not None, "a started stream is running"
        thread, gate = running.thread, running.gate
        thread.wake(lambda: gate.use_store(offset_store, is_exact=is_exact))
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_stopping:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            if is_stopped(self._spark):
                log.warning("group %s: the session was stopped, which ends the stream", self._settings.group_id)
                return
            poll_s = _SESSION_POLL_S if until is None else _POLL_S
            patience_s = poll_s if left_s is None else min(poll_s, left_s)
            begun = thread.call(gate.begin(self._plan, patience_s, at_once=True))
            if begun is not None:
                yield from self._one(thread, gate, begun, in_arrow)
            self._sample(running)
            if until is not None and until(self):
                return

    @property
    def is_caught_up(self) -> bool:
        """Whether partitions are owned, and all their records as of the last look-up were read and committed."""
        owned, lag = self.owned, self.lag
        return bool(owned) and len(lag) == len(owned) and not any(lag.values())

    @property
    def owned(self) -> Partitions:
        """The partitions that this member owns."""
        return self._running.gate.owned.partitions if self._running else frozenset()

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Offsets between the committed position and the end, per owned partition whose position is known."""
        return self._running.gate.owned.lag if self._running else {}

    def read_lag(self) -> dict[TopicPartition, Lag]:
        """Ask the cluster how far the group is behind in each owned partition, in records and in seconds.

        It counts from what is committed, so that a round that is being written is behind. Raises KafkaError.
        """
        return self._running.thread.call(self._running.gate.lags()) if self._running else {}

    @property
    def progress(self) -> GroupProgress:
        """The stream's place in its group: generation, partitions, lag, rebalances; after `close`, as it was then."""
        return self._progress_of(self._running) if self._running else self._progress

    @property
    def generation(self) -> int:
        """The group's generation, or -1."""
        return self._running.gate.member.generation if self._running else -1

    @property
    def member_id(self) -> str:
        """The member id from the coordinator, or an empty string."""
        return self._running.gate.member.member_id if self._running else ""

    async def _plan(self, available: Available) -> tuple[OffsetRange, ...]:
        return plan(available, self._config.max_rows_per_round)

    def _progress_of(self, running: _RunningStream) -> GroupProgress:
        member, owned, lost = running.gate.member, running.gate.owned, self.metrics.lost_offsets
        return GroupProgress.of(self._settings.group_id, member, len(owned.partitions), owned.lag.values(), lost)

    def _sample(self, running: _RunningStream) -> None:
        self._history.sample(sum(running.gate.owned.lag.values()), self.metrics.offsets, self.metrics.lost_offsets)

    def _report_at_end(self) -> None:
        if self._config.report is not None:
            try:
                self.write_report(self._config.report)
            except Exception as error:  # the member has left, and what ended the stream is worth more
                log.warning("group %s: no report: %s", self._settings.group_id, error)

    def _one(self, thread: LoopThread, gate: RoundGate, planned: Round, in_arrow: int) -> Generator[tuple[Any, Round]]:
        began = time.perf_counter()
        is_committed = False
        try:
            frame, done = self._frame(planned, in_arrow)
            self._refusal = None
            yield frame, done
            is_committed = self._commit(thread, gate, done, began)
        except KafkaError as error:
            is_lost = error.code is ErrorCode.OFFSET_OUT_OF_RANGE
            if is_lost and (policy := gate.starting.policy).fails_on_data_loss:
                raise KafkaError(error.code, f"{error.text}; {policy.advice}") from None
            if not is_lost and error.code not in (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
            ):
                raise
            # The records were deleted: the next round starts at the first that is left, without a deleted topic.
            log.warning("group %s: %s", self._settings.group_id, error.text)
        finally:
            thread.wake(lambda: gate.close(planned, is_committed=is_committed))

    def _write(self, frame: DataFrame, done: Round, topic: TransactionalTopic) -> None:
        """Write a round and commit its offsets in one transaction; where the group refuses them, the round is lost."""
        assert self._running is not None, "a round belongs to a running stream"
        thread, gate = self._running.thread, self._running.gate
        identity = gate.member.identity
        try:
            topic.write_round(frame, done.size, lambda: thread.call(gate.transaction_offsets(done)))
        except CommitFailed as refusal:
            self._refusal = refusal
            code = refusal.code
            thread.wake(lambda: gate.member.commit_refused(identity, code))
        else:
            self._written = done

    def _commit(self, thread: LoopThread, gate: RoundGate, done: Round, began: float) -> bool:
        """Commit a round and return whether the group accepted it. A round that its table has stored is done anyway."""
        is_stored = gate.starting.store is not None and self._refusal is None
        try:
            if self._refusal is not None:
                raise self._refusal
            thread.call(gate.advance(done) if self._written is done else gate.commit(done))
            is_committed = True
        except CommitFailed as refusal:
            fate = "is not committed, and is in its table" if is_stored else "is lost"
            log.warning("group %s: round %d %s: %s", self._settings.group_id, done.number, fate, refusal.text)
            is_committed = False
        is_done = is_committed or is_stored
        if is_done:
            self.metrics.count(done, time.perf_counter() - began)
        else:
            self.metrics.lose(done)
        if self._config.finished is not None:
            self._config.finished(done, is_done)
        return is_committed

    def _is_overtaken(self, failed: Round) -> bool:
        """Return whether executors failed because rows of their round were deleted: then the next round may succeed."""
        assert self._running is not None, "a round belongs to a running stream"
        if failed.size <= self._config.rows_on_driver or self._running.gate.starting.policy.fails_on_data_loss:
            return False
        try:
            return self._running.thread.call(self._running.gate.is_overtaken(failed))
        except KafkaError as error:
            log.warning("group %s: cannot find out whether rows were deleted: %s", self._settings.group_id, error.text)
            return False

    def _frame(self, planned: Round, in_arrow: int) -> tuple[DataFrame | pa.Table, Round]:
        """Return the rows of a round, with the round as far as it was read."""
        if planned.size > self._config.rows_on_driver:
            read = frame_on_executors if planned.size > in_arrow else table_on_executors
            return read(self._spark, self._read_settings, planned), planned
        assert self._running is not None, "a round belongs to a running stream"
        reader = self._running.reader
        table, ranges, bad = table_on_driver(self._read_settings, planned, self._config.bytes_on_driver, reader=reader)
        frame = frame_of(self._spark, self._read_settings, table) if planned.size > in_arrow else table
        self.metrics.dead_letters += bad
        return frame, replace(planned, ranges=ranges)


_POLL_S = 0.05
"""Seconds between two calls of `until` while there is nothing to read."""

_SESSION_POLL_S = 0.5
"""Seconds between two looks at whether the session was stopped, while there is nothing to read."""
