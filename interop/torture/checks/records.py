"""Whether the log holds what was acknowledged, in its order, and nothing else: a list-append check over partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.history import Append, Log, Logged, Place, Writer


def check_records(writers: Iterable[Writer], log: Log) -> Iterator[Anomaly]:
    """Compare what was acknowledged to writers with the log of their topics."""
    by_place: dict[Place, list[Writer]] = defaultdict(list)
    for writer in writers:
        for partition in writer.appends:
            by_place[writer.topic, partition].append(writer)
    for place, of_place in sorted(by_place.items()):
        yield from _check_partition(place, of_place, log.get(place, []))


def _check_partition(place: Place, writers: Sequence[Writer], logged: list[Logged]) -> Iterator[Anomaly]:
    topic, partition = place
    values = {record.offset: record.value for record in logged}
    offsets: dict[str, list[int]] = defaultdict(list)
    for record in logged:
        offsets[record.value].append(record.offset)
    placed: list[tuple[Append, int]] = []  # with the first offset of each
    for writer in writers:
        latest = (-1, -1)  # offset and number of the acknowledged record that stands last so far
        for append in writer.appends[partition]:
            value = f"{writer.name}:{partition}:{append.number}"
            where, found = f"{topic}-{partition}", offsets.pop(value, [])
            if found:
                placed.append((append, found[0]))
            if writer.is_exact and len(found) > 1:
                yield Anomaly(Name.DOUBLED_RECORD, where, f"{value} at {found}")
            if not append.is_acknowledged:
                continue
            if not found:
                yield Anomaly(Name.LOST_RECORD, where, f"{value}, acknowledged at offset {append.offset}")
            elif append.offset >= 0 and values.get(append.offset) != value:
                at = values.get(append.offset)
                yield Anomaly(Name.MOVED_RECORD, where, f"{value} is at {found}, at offset {append.offset} is {at}")
            else:
                offset = append.offset if append.offset >= 0 else found[0]
                # Without idempotence what is sent again may come behind what was sent later, at one request a time too.
                if writer.is_exact and offset < latest[0]:
                    after = f"{value} at {offset} was sent after number {latest[1]} at {latest[0]}"
                    yield Anomaly(Name.REORDERED_RECORDS, where, after)
                latest = max(latest, (offset, append.number))
    yield from _check_real_time(place, placed)
    for value, found in offsets.items():
        yield Anomaly(Name.RECORD_FROM_NOWHERE, f"{topic}-{partition}", f"{value!r} at {found}")


def _check_real_time(place: Place, placed: list[tuple[Append, int]]) -> Iterator[Anomaly]:
    """Check that a record sent after another was acknowledged, by any writer, stands behind it."""
    acknowledged = sorted((append.acked_s, offset) for append, offset in placed if append.is_acknowledged)
    highest, taken = -1, 0
    for append, offset in sorted(placed, key=lambda each: each[0].sent_s):
        while taken < len(acknowledged) and acknowledged[taken][0] < append.sent_s:
            highest = max(highest, acknowledged[taken][1])
            taken += 1
        if offset < highest:
            detail = f"offset {offset} was sent after offset {highest} had been acknowledged"
            yield Anomaly(Name.REORDERED_RECORDS, f"{place[0]}-{place[1]}", detail)
