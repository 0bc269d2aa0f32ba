"""Which records may be handled now: those whose lane is free.

A lane is a sequence whose order matters: a key, a partition, or a single record. Of each, one record at a time is
handled.
Records without a key are in no lane: in Kafka, too, they have no order of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from kohort.client.consumer.finished_offsets import FinishedOffsets
from kohort.client.record import Record
from kohort.model.ids import TopicPartition

Ordering = Literal["key", "partition", "none"]
ORDERINGS: tuple[Ordering, ...] = get_args(Ordering)


@dataclass(slots=True, eq=False)
class PartitionWork:
    """A partition whose records are handled, for as long as this member owns it and does not seek.

    `is_dropped` is whether that is over: what still runs then is committed no more.
    """

    partition: TopicPartition
    finished: FinishedOffsets
    is_dropped: bool = False


class WorkItem:
    """A record on its way through a handler. `attempts` counts how often it has failed, `due_ms` is as in `Waiting`.

    `offset` is where it stands in the partition of `work`: a parked record is as it came first.
    """

    __slots__ = ("attempts", "due_ms", "lane", "offset", "record", "size", "work")

    def __init__(self, work: PartitionWork, record: Record, lane: Hashable) -> None:
        self.work = work
        self.record = record
        self.lane = lane
        self.offset = record.offset
        self.attempts = 0
        self.due_ms = 0
        self.size = len(record.key or b"") + len(record.value or b"")


def _by_key(partition: TopicPartition, record: Record) -> Hashable:
    return None if record.key is None else (partition, record.key)


def _by_partition(partition: TopicPartition, _: Record) -> Hashable:
    return partition


def _by_nothing(_partition: TopicPartition, _record: Record) -> Hashable:
    return None


LANES: dict[Ordering, Callable[[TopicPartition, Record], Hashable]] = {
    "key": _by_key,
    "partition": _by_partition,
    "none": _by_nothing,
}


class Schedule:
    """Records that wait for their turn, in the order in which they came.

    `records` and `size` (bytes of keys and values) are of all that was added and has not left by `leave`. With
    `is_by_partition` the records that `pop` returns together are of one partition.
    """

    def __init__(self, ordering: Ordering, *, is_by_partition: bool = False) -> None:
        self._lane_of = LANES[ordering]
        self._is_by_partition = is_by_partition
        self._ready: deque[WorkItem] = deque()
        self._lanes: dict[Hashable, deque[WorkItem]] = {}
        self.records = 0
        self.size = 0

    @property
    def ready(self) -> int:
        """How many records may be handled now."""
        return len(self._ready)

    def add(self, work: PartitionWork, records: Iterable[Record]) -> list[WorkItem]:
        """Add records of one partition in their order; return those that wait, for `come_back` when they are due.

        These failed at a former owner. One that comes behind another in its lane does not wait for its time.
        """
        lanes, lane_of, partition, failed = self._lanes, self._lane_of, work.partition, work.finished.waiting
        waiting: list[WorkItem] = []
        count = size = 0
        for record in records:
            lane = lane_of(partition, record)
            item = WorkItem(work, record, lane)
            count += 1
            size += item.size
            if failed and (found := failed.get(record.offset)) is not None:
                item.attempts, item.due_ms = found.attempts, found.due_ms
                if not found.has_lane:
                    item.lane = lane = None
                if lane not in lanes:  # None is never there
                    waiting.append(item)
                    if lane is not None:
                        lanes[lane] = deque()
                    continue
            if lane is None:
                self._ready.append(item)
            elif (behind := lanes.get(lane)) is None:
                lanes[lane] = deque()
                self._ready.append(item)
            else:
                behind.append(item)
        self.records += count
        self.size += size
        return waiting

    def enter(self, item: WorkItem) -> None:
        """Add a record that is in no lane."""
        self.count(item)
        self._ready.append(item)

    def count(self, item: WorkItem) -> None:
        """Count a record that is not handled, until it leaves."""
        self.records += 1
        self.size += item.size

    def pop(self, count: int) -> list[WorkItem]:
        """Return up to `count` records that may be handled now, each with what comes next in its lane, in order."""
        items: list[WorkItem] = []
        while self._ready and len(items) < count:
            if self._is_by_partition and items and self._ready[0].work is not items[0].work:
                break
            items.append(item := self._ready.popleft())
            if item.lane is not None and len(items) < count:
                behind = self._lanes[item.lane]
                while behind and len(items) < count:
                    items.append(behind.popleft())
        return items

    def leave(self, items: Sequence[WorkItem]) -> None:
        """Count these records, which `pop` returned together, as done with: their lanes continue."""
        if len(items) == 1:
            if (lane := self._left(items[0])) is not None:
                self._continue(lane)
            return
        for lane in dict.fromkeys(self._left(item) for item in items):
            if lane is not None:
                self._continue(lane)

    def leave_lane(self, item: WorkItem) -> None:
        """Let the lane continue although the record comes back later, by `come_back`."""
        lane, item.lane = item.lane, None
        if lane is not None:
            self._continue(lane)

    def come_back(self, items: Sequence[WorkItem]) -> None:
        """Have records that `pop` returned together handled once more, before what waits behind them in their lanes."""
        returned: dict[Hashable, WorkItem] = {}
        for item in reversed(items):
            if item.lane is None:
                self._ready.append(item)
            elif item.lane in returned:
                self._lanes[item.lane].appendleft(returned[item.lane])
                returned[item.lane] = item
            else:
                returned[item.lane] = item
        self._ready.extend(returned.values())

    def drop(self, is_dropped: Callable[[PartitionWork], bool]) -> None:
        """Forget the waiting records of some partitions."""
        for lane, behind in self._lanes.items():
            kept = [item for item in behind if not is_dropped(item.work)]
            if len(kept) < len(behind):
                self._forget(item for item in behind if is_dropped(item.work))
                self._lanes[lane] = deque(kept)
        dropped = [item for item in self._ready if is_dropped(item.work)]
        if dropped:
            self._ready = deque(item for item in self._ready if not is_dropped(item.work))
            self.leave(dropped)

    def _left(self, item: WorkItem) -> Hashable:
        self.records -= 1
        self.size -= item.size
        return item.lane

    def _forget(self, items: Iterable[WorkItem]) -> None:
        for item in items:
            self._left(item)

    def _continue(self, lane: Hashable) -> None:
        if behind := self._lanes[lane]:
            self._ready.append(behind.popleft())
        else:
            del self._lanes[lane]
