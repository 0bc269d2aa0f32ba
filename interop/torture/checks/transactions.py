"""Whether transactions are whole: their records together or not at all, their offsets with their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.history import GroupHistory, Log, Writer


def check_transactions(writer: Writer, log: Log) -> Iterator[Anomaly]:
    """Compare the transactions of a writer with the records that read_committed consumers see."""
    visible = {
        record.value
        for (topic, _), logged in log.items()
        if topic == writer.topic
        for record in logged
        if record.is_committed
    }
    for transaction in writer.transactions:
        values = [f"{writer.name}:{partition}:{number}" for partition, number in transaction.records]
        found = [value for value in values if value in visible]
        where, detail = f"{writer.name} on {writer.topic}", f"{len(found)} of {len(values)} records, first {values[0]}"
        if found and len(found) < len(values):
            yield Anomaly(Name.TORN_TRANSACTION, where, detail)
        elif transaction.is_committed and not found:
            yield Anomaly(Name.LOST_TRANSACTION, where, detail)
        elif transaction.is_committed is False and found:
            yield Anomaly(Name.ABORTED_TRANSACTION_VISIBLE, where, detail)


def check_copies(group: GroupHistory, target: str, log: Log) -> Iterator[Anomaly]:
    """Check that each visible record below a copier's committed offset was copied once, and no other."""
    committed = group.final
    for (topic, partition), logged in sorted(log.items()):
        if topic != group.topic:
            continue
        copies = Counter(each.value for each in log.get((target, partition), []) if each.is_committed)
        where = f"{target}-{partition}"
        for record in logged:
            if record.is_committed and record.offset < committed.get(partition, -1):
                value = f"{partition}@{record.offset}"
                if not copies[value]:
                    yield Anomaly(Name.LOST_COPY, where, f"{value}, committed is {committed[partition]}")
                else:
                    copies[value] -= 1
        for value, count in copies.items():
            if count:
                yield Anomaly(Name.DOUBLED_COPY, where, f"{value}, {count} too many")
