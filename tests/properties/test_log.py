"""A partition's log against a list: after appends, deletions, closes, kills and torn writes both are equal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.depth import examples

from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import OffsetOutOfRange, PartitionLog
from kohort.log.producer_state import Duplicate
from kohort.log.segments import LogConfig
from kohort.node.step_scheduler import result_of
from kohort.wire.compression import Compression
from kohort.wire.record_batches import Record, check_batch, decode_batch, encode_batch, iter_batches, read_header

DIRECTORY = "orders-0"
PRODUCER = 7


class LogAgainstList(RuleBasedStateMachine):
    """The list `rows` holds every record of the log by offset; `borders` the first offset of each batch and the end."""

    @initialize(
        policy=st.sampled_from(["os", "fsync"]),
        segment_bytes=st.sampled_from([1300, 2500, 1 << 20]),
        interval=st.sampled_from([0, 150, 4096]),
    )
    def begin(self, policy: str, segment_bytes: int, interval: int) -> None:
        config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, retention_bytes=-1, retention_ms=-1
        )
        self.config = replace(config, flush_policy=policy)  # type: ignore[arg-type]
        self.disk = MemoryDisk()
        self.rows: list[Record] = []
        self.borders = [0]
        self.start = self.flushed = self.epoch = self.sequence = 0
        self.epochs: dict[int, int] = {}
        self.idempotent: list[tuple[int, int, bytes]] = []
        self.open()

    def open(self) -> None:
        self.log = PartitionLog.open(self.disk, DIRECTORY, self.config, 0)

    @property
    def end(self) -> int:
        return len(self.rows)

    @property
    def visible(self) -> int:
        return self.flushed if self.config.flush_policy == "fsync" else self.end

    # -- changing

    @rule(
        times=st.lists(st.integers(0, 50), min_size=1, max_size=4),
        size=st.integers(0, 120),
        codec=st.sampled_from([Compression.NONE, Compression.GZIP]),
        batches=st.integers(1, 2),
        idempotent=st.booleans(),
    )
    def append(self, times: list[int], size: int, codec: Compression, batches: int, idempotent: bool) -> None:
        parts = []
        for _ in range(1 if idempotent else batches):
            rows = [Record(len(self.rows) + n, time, b"%d" % n, b"v" * size) for n, time in enumerate(times)]
            header = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": self.sequence}
            parts.append(encode_batch(rows, compression=codec, **(header if idempotent else {})))  # type: ignore[arg-type]
            self.rows += rows
            self.borders.append(len(self.rows))
        if idempotent:
            assert self.log.producers.check(read_header(parts[0])) is None
            self.idempotent.append((self.sequence, len(self.rows) - len(times), parts[0]))
            self.sequence += len(times)
        self.epochs.setdefault(self.epoch, len(self.rows) - len(times) * len(parts))
        appended = self.log.append(parts, leader_epoch=self.epoch, now_ms=0)
        assert appended.last_offset == self.end - 1
        self.learn_of_flushes()

    def learn_of_flushes(self) -> None:
        """Under fsync a segment is flushed when it is rolled."""
        if self.config.flush_policy == "fsync":
            assert self.log.high_watermark >= self.flushed
            assert self.log.high_watermark in self.borders
            self.flushed = self.log.high_watermark

    @precondition(lambda self: self.idempotent)
    @rule()
    def repeat(self) -> None:
        _, offset, batch = self.idempotent[-1]
        answer = self.log.producers.check(read_header(batch))
        assert isinstance(answer, Duplicate)
        assert answer.base_offset == offset

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        before = int(self.visible * part)
        self.start = max(self.start, before)
        assert self.log.delete_records(before) == self.start

    @rule(keep=st.integers(0, 4000))
    def delete_by_size(self, keep: int) -> None:
        self.log.config = replace(self.config, retention_bytes=keep)
        self.log.enforce_retention(0)
        self.log.config = self.config
        self.learn_of_flushes()
        assert self.log.size >= keep or self.log.log_start_offset == self.start
        assert self.log.log_start_offset in self.borders or self.log.log_start_offset == self.start
        assert self.start <= self.log.log_start_offset <= self.visible
        self.start = self.log.log_start_offset

    @rule(size=st.integers(1300, 3000))
    def resize_segments(self, size: int) -> None:
        self.config = self.log.config = replace(self.config, segment_bytes=size)

    # -- ending and beginning again

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.open()
        assert self.log.recovery is None
        self.flushed = self.end

    @rule()
    def kill(self) -> None:
        self.open()
        self.flushed = self.end

    @precondition(lambda self: self.config.flush_policy == "fsync")
    @rule()
    def lose_power(self) -> None:
        """Only what was flushed is sure to remain; what remains beyond it is a beginning of what was appended."""
        self.disk.lose_unflushed()
        self.open()
        self.shorten(self.log.log_end_offset)
        assert self.end >= self.flushed
        self.flushed = self.end

    @precondition(lambda self: self.end > self.start)
    @rule(part=st.floats(0, 0.999))
    def tear_the_last_append(self, part: float) -> None:
        path = max(name for name in self.disk.files if name.endswith(".log"))
        content = bytes(self.disk.files[path].content)
        last = [(header, view) for header, view in iter_batches(content)][-1:]
        if not last or last[0][0].base_offset < self.start:
            return
        size = len(last[0][1])
        self.disk.tear(path, len(content) - size + int(size * part))
        self.disk.remove(f"{DIRECTORY}/clean-shutdown")
        self.open()
        self.shorten(last[0][0].base_offset)
        self.flushed = self.end

    def shorten(self, end: int) -> None:
        assert end in self.borders
        self.borders = [border for border in self.borders if border <= end]
        del self.rows[end:]
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start < end}
        while self.idempotent and self.idempotent[-1][1] >= end:
            self.sequence, *_ = self.idempotent.pop()

    # -- looking

    @rule(part=st.floats(0, 1), max_bytes=st.integers(0, 2000), at_least_one=st.booleans())
    def read(self, part: float, max_bytes: int, at_least_one: bool) -> None:
        offset = self.start + int((self.visible - self.start) * part)
        views = self.log.read(offset, max_bytes, at_least_one=at_least_one)
        if offset == self.visible:
            assert views == []
            return
        found: list[Record] = []
        for view in views:
            for _, batch in iter_batches(view, strict=True):
                check_batch(batch)
                found += decode_batch(batch)
        if not found:
            assert not at_least_one
            return
        first = found[0].offset
        assert first in self.borders
        assert first <= offset < min(border for border in self.borders if border > first)
        assert found == self.rows[first : first + len(found)]
        assert first + len(found) in self.borders
        assert first + len(found) <= self.visible
        size = sum(map(len, views))
        assert size <= max_bytes or (at_least_one and first + len(found) == min(b for b in self.borders if b > first))

    @rule()
    def read_everything(self) -> None:
        offset, found = self.start, list[Record]()
        while views := self.log.read(offset, 700):
            for _, batch in iter_batches(views[0], strict=True):
                found += [row for row in decode_batch(batch) if row.offset >= offset]
            offset = found[-1].offset + 1
        assert found == self.rows[self.start : self.visible]

    @rule(timestamp=st.integers(0, 52))
    def find_by_time(self, timestamp: int) -> None:
        found = result_of(self.log.offset_for_timestamp(timestamp))
        expected = next((row for row in self.rows[self.start : self.visible] if row.timestamp_ms >= timestamp), None)
        assert (found and found[:2]) == (expected and (expected.timestamp_ms, expected.offset))

    @rule()
    def find_the_latest(self) -> None:
        found = result_of(self.log.max_timestamp_offset())
        expected = max(self.rows[self.start : self.visible], key=lambda row: row.timestamp_ms, default=None)
        assert (found and found[:2]) == (expected and (expected.timestamp_ms, expected.offset))

    @rule(epoch=st.integers(0, 10))
    def find_the_end_of_an_epoch(self, epoch: int) -> None:
        answer = self.log.end_offset_for_epoch(epoch)
        newer = [start for other, start in self.epochs.items() if other > epoch]
        if epoch in self.epochs and self.epochs[epoch] >= self.start:
            assert answer == (epoch, min(newer, default=self.end))

    @rule(beyond=st.integers(1, 5))
    def miss(self, beyond: int) -> None:
        for offset in (self.end + beyond, self.start - beyond):
            try:
                self.log.read(offset, 100)
            except OffsetOutOfRange:
                continue
            raise AssertionError(f"offset {offset} is outside {self.start}..{self.end}")

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_start_offset == self.start
            assert self.log.log_end_offset == self.end
            assert self.log.high_watermark == self.visible


LogAgainstList.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestLogAgainstList = LogAgainstList.TestCase
