"""Whether what consumers saw is the log: nothing that was read disappears, nothing is skipped or comes again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.history import GroupHistory, Log, Logged, Reader


class _Partition:
    """The records of one partition by their offsets, and the number of each among those that a consumer is shown."""

    def __init__(self, logged: list[Logged], is_read_committed: bool) -> None:
        self.by_offset = {each.offset: each for each in logged}
        shown = (each for each in logged if each.is_committed or not is_read_committed)
        self.numbers = {each.offset: number for number, each in enumerate(shown)}


def check_reads(group: GroupHistory, log: Log) -> Iterator[Anomaly]:
    """Compare what the members of a group read with the log of its topic."""
    by_partition = {partition: records for (topic, partition), records in log.items() if topic == group.topic}
    is_read_committed = any(reader.is_read_committed for reader in group.readers)
    shown = {partition: _Partition(records, is_read_committed) for partition, records in by_partition.items()}
    read: dict[int, set[int]] = defaultdict(set)
    for reader in group.readers:
        yield from _check_reader(f"{group.name} {reader.name}", reader, shown)
        for span in reader.spans:
            for partition, offset, *_ in span:
                read[partition].add(offset)
    for partition, committed in sorted(group.final.items()):
        for record in by_partition.get(partition, []):
            is_due = record.offset < committed and (record.is_committed or not is_read_committed)
            if is_due and record.offset not in read[partition]:
                detail = f"offset {record.offset}, committed is {committed}"
                yield Anomaly(Name.UNREAD_RECORD, f"{group.name} {group.topic}-{partition}", detail)


def _check_reader(where: str, reader: Reader, log: dict[int, _Partition]) -> Iterator[Anomaly]:
    nothing = _Partition([], reader.is_read_committed)
    for span in reader.spans:
        latest: dict[int, tuple[int, int]] = {}  # number and offset of the last record read
        for partition, offset, _, value in span:
            of_partition = log.get(partition, nothing)
            at, found = f"{where}, partition {partition}", of_partition.by_offset.get(offset)
            number = of_partition.numbers.get(offset)
            if found is None or found.value != value:
                yield Anomaly(Name.VANISHED_RECORD, at, f"read {value!r} at {offset}, the log holds {found}")
            elif number is None:
                yield Anomaly(Name.ABORTED_RECORD_READ, at, f"{value!r} at {offset}")
            if number is None:
                continue
            before = latest.get(partition, (number - 1, offset - 1))
            if number != before[0] + 1:
                name = Name.SKIPPED_RECORDS if number > before[0] else Name.REREAD_RECORDS
                yield Anomaly(name, at, f"read {offset} after {before[1]}")
            latest[partition] = (number, offset)
