"""The cleaner against a model: whatever was written, and whenever and how far it cleans, readers lose nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.depth import examples
from tests.properties.test_consumer_log import DEEDS, PART, act, cast
from tests.replay.cleaned_log import replay_differences
from tests.replay.test_cleaned_log import DIRECTORY, written
from tests.replay.test_consumer_group_log import Recorded

from kohort.group.consumer.group import ConsumerGroup
from kohort.log import cleaner
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.wire.compression import Compression
from kohort.wire.record_batches import (
    ControlType,
    Record,
    check_batch,
    control_record,
    decode_batch,
    encode_batch,
    iter_batches,
    read_header,
)

RETENTION_MS = 1_000
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, cleanup_policy=("compact",),
                   delete_retention_ms=RETENTION_MS, flush_policy="fsync")  # fmt: skip
ROWS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=5)


class CleanerAgainstModel(RuleBasedStateMachine):
    """`rows` are all records that count, by offset: those of committed transactions, in the order of their offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.now_ms = 0
        self.rows: dict[int, tuple[int, bytes | None]] = {}
        self.open: dict[int, dict[int, tuple[int, bytes | None]]] = {}
        self.sequences: dict[int, int] = {}
        self.log = PartitionLog.open(self.disk, DIRECTORY, CONFIG, 0)

    def append(
        self, rows: list[tuple[int, bool]], compression: Compression, **header: int
    ) -> dict[int, tuple[int, bytes | None]]:
        end = self.log.log_end_offset
        content = [(key, b"value %d" % (end + at) if has_value else None) for at, (key, has_value) in enumerate(rows)]
        records = [Record(0, self.now_ms, b"key-%d" % key, value) for key, value in content]
        batch = encode_batch(records, compression=compression, **header)  # type: ignore[arg-type]
        self.log.append([batch], leader_epoch=0, now_ms=self.now_ms)
        self.log.flush()
        return {end + at: row for at, row in enumerate(content)}

    # -- writing

    @rule(rows=ROWS, compression=st.sampled_from([Compression.NONE, Compression.GZIP]))
    def write(self, rows: list[tuple[int, bool]], compression: Compression) -> None:
        self.rows |= self.append(rows, compression)

    @rule(rows=ROWS, producer=st.integers(1, 2))
    def write_as_a_producer(self, rows: list[tuple[int, bool]], producer: int) -> None:
        first = self.sequences.get(producer, 0)
        self.sequences[producer] = first + len(rows)
        self.rows |= self.append(rows, Compression.NONE, producer_id=producer, producer_epoch=0, base_sequence=first)

    @rule(rows=ROWS, producer=st.integers(11, 12))
    def write_in_a_transaction(self, rows: list[tuple[int, bool]], producer: int) -> None:
        first = self.sequences.get(producer, 0)
        self.sequences[producer] = first + len(rows)
        header = {"producer_id": producer, "producer_epoch": 0, "base_sequence": first, "transactional": True}
        self.open.setdefault(producer, {}).update(self.append(rows, Compression.NONE, **header))

    @precondition(lambda self: self.open)
    @rule(commits=st.booleans(), at=st.integers(0, 1))
    def end_a_transaction(self, commits: bool, at: int) -> None:
        producer = sorted(self.open)[at % len(self.open)]
        kind = ControlType.COMMIT if commits else ControlType.ABORT
        marker = encode_batch(
            [control_record(kind, self.now_ms)],
            producer_id=producer,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        self.log.append([marker], leader_epoch=0, now_ms=self.now_ms)
        self.log.flush()
        rows = self.open.pop(producer)
        if commits:
            self.rows |= rows

    # -- cleaning

    @rule(roll=st.booleans())
    def clean(self, roll: bool) -> None:
        self.log.compact(self.now_ms, roll=roll)

    @rule(part=PART)
    def clean_up_to(self, part: float) -> None:
        self.log.compact(self.now_ms, roll=True, up_to=round(part * self.log.log_end_offset))

    @rule(memory_bytes=st.integers(200, 1000), steps=st.integers(0, 30))
    def clean_a_little(self, memory_bytes: int, steps: int) -> None:
        for _ in zip(range(steps), self.log.cleaner.begin(self.now_ms, memory_bytes=memory_bytes), strict=False):
            pass

    @rule(ms=st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS * 2]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    # -- ending

    @rule(how=st.sampled_from(["stop", "kill", "power"]))
    def restart(self, how: str) -> None:
        if how == "stop":
            self.log.close()
        else:
            # A pass that a kill stopped does nothing more: here its generator tidies up whenever it is collected.
            self.disk = self.disk.clone()
        if how == "power":
            self.disk.lose_unflushed()
        self.log = PartitionLog.open(self.disk, DIRECTORY, CONFIG, self.now_ms)

    # -- looking

    @invariant()
    def last_record_of_each_key_is_there_and_nothing_that_was_not_written(self) -> None:
        found: dict[int, tuple[int, bytes | None]] = {}
        aborted_or_open = {offset for rows in self.open.values() for offset in rows}
        offset, last = self.log.log_start_offset, -1
        while views := self.log.read(offset, 300):
            for view in views:
                for header, batch in iter_batches(view, strict=True):
                    check_batch(batch)
                    assert header.base_offset > last
                    last = header.last_offset
                    for record in [] if header.is_control else decode_batch(batch):
                        assert record.key is not None
                        found[record.offset] = int(record.key[4:]), record.value
                offset = last + 1
        assert offset == self.log.log_end_offset or not self.rows
        written = self.rows | {offset: row for rows in self.open.values() for offset, row in rows.items()}
        assert all(written.get(offset, row) == row for offset, row in found.items())
        assert aborted_or_open <= found.keys(), "what is not decided stays"
        assert state(self.rows) == state({offset: row for offset, row in found.items() if offset in self.rows})

    @invariant()
    def producers_go_on(self) -> None:
        again = PartitionLog.open(self.disk.clone(), DIRECTORY, replace(CONFIG, segment_bytes=1 << 20), self.now_ms)
        for producer, sequence in self.sequences.items():
            following = encode_batch(
                [Record(0, 0, b"k", b"v")], producer_id=producer, producer_epoch=0, base_sequence=sequence
            )
            assert again.producers.check(read_header(following)) is None


def state(rows: dict[int, tuple[int, bytes | None]]) -> dict[int, bytes]:
    """Return what a reader of the whole log ends with."""
    found: dict[int, bytes | None] = {}
    for offset in sorted(rows):
        key, value = rows[offset]
        found[key] = value
    return {key: value for key, value in found.items() if value is not None}


CleanerAgainstModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestCleanerAgainstModel = CleanerAgainstModel.TestCase


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deeds=st.lists(DEEDS, min_size=5, max_size=40), points=st.lists(PART, max_size=3), piece=st.integers(100, 5000))
def test_any_groups_log_says_what_lives_wherever_the_cleaner_stopped(
    deeds: list[tuple[int, str]], points: list[float], piece: int
) -> None:
    world = Recorded()
    clients = cast(world)
    for index, deed in deeds:
        act(world, clients[index], deed)
    if not isinstance(world.shard.groups.get("g"), ConsumerGroup):
        return
    disk, log = written([list(events) for events in world.log])
    before, cleaner.PIECE_BYTES = cleaner.PIECE_BYTES, piece
    try:
        up_to = [round(point * log.log_end_offset) for point in (*points, 1.0)]
        assert replay_differences(disk, DIRECTORY, world.shard, up_to) == []
    finally:
        cleaner.PIECE_BYTES = before
