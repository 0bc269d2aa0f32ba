"""`Consumer.process` with the faults of programs that commit by hand what many handlers have done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tests.quality.replacing import replaced

from kohort.client.consumer.finished_offsets import FinishedOffsets
from kohort.client.consumer.processing import processor
from kohort.client.consumer.processing.processor import Processor
from kohort.client.consumer.processing.schedule import WorkItem
from kohort.model.ids import TopicPartition

Mutation = AbstractContextManager[None]


@contextmanager
def commit_the_highest() -> Iterator[None]:
    """Committed is the offset behind the highest record that has finished."""

    def offset(self: FinishedOffsets) -> int:
        unfinished = set(self._open)
        at = self.next_offset
        while at - 1 in unfinished:
            at -= 1
        return at

    def metadata(_: FinishedOffsets) -> str:
        return ""

    with replaced(FinishedOffsets, "offset", property(offset)), replaced(FinishedOffsets, "metadata", metadata):
        yield


def forget_what_finished() -> Mutation:
    """The next owner of a partition does not read what has finished above the committed offset."""

    def finished_before(_state: object, first_offset: int) -> FinishedOffsets:
        return FinishedOffsets(first_offset)

    return replaced(processor, "_finished_before", finished_before)


def fence_before_the_wait() -> Mutation:
    """What finishes after the revocation of its partition has begun counts no more."""
    right = Processor.release

    async def release(self: Processor, partitions: Iterable[TopicPartition], **how: Any) -> None:
        given = tuple(partitions)
        for each in given:
            if (work := self._works.get(each)) is not None:
                work.is_dropped = True
        await right(self, given, **how)

    return replaced(Processor, "release", release)


def commit_what_was_cancelled() -> Mutation:
    """A record whose handler was cancelled, since its partition is revoked, counts as finished."""
    right = Processor._come_back

    def come_back(self: Processor, items: list[WorkItem]) -> None:
        for item in items:
            if item.work.is_dropped:
                item.work.finished.finish(item.record.offset)
        right(self, items)

    return replaced(Processor, "_come_back", come_back)
