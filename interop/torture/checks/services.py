"""Whether services handled every record, the records of a key in order, and none again that they need not.

A record is finished when a call of its handler has returned, or it is a dead letter. What had finished and is in no
commit may be handled again: where the commit could not be sent yet, or its answer did not come.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.history import (
    ATTEMPTS,
    UNKNOWN,
    CommitAttempt,
    GroupHistory,
    Handling,
    Log,
    Logged,
    Ownership,
    ServiceMember,
    is_poisoned,
    key_of,
)

TURNS = 10
"""After so many free turns of its event loop, of 0.1 s, a member has sent the commit that is due: the guide says that
it leaves 100 ms after the one before."""

PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
"""Between two commits, and after one that failed."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a handler, by which member, and how long that owned the partition."""

    handling: Handling
    member: ServiceMember
    owned: Ownership


def check_services(group: GroupHistory, letters: str, log: Log) -> Iterator[Anomaly]:
    """Compare what the services of a group handled with the log of its topic, and with its dead letters."""
    calls: dict[int, dict[int, list[_Call]]] = defaultdict(lambda: defaultdict(list))
    for member in group.readers:
        if isinstance(member, ServiceMember):
            for each in member.handlings:
                calls[each.partition][each.offset].append(_Call(each, member, _ownership(member, each)))
    set_aside = {each.value for (topic, _), records in log.items() if topic == letters for each in records}
    values: Counter[str] = Counter()
    for (topic, partition), records in sorted(log.items()):
        if topic != group.topic:
            continue
        where, of_partition = f"{group.name} {topic}-{partition}", calls[partition]
        committed = group.final.get(partition, -1)
        values.update(each.value for each in records)
        yield from _check_values(where, of_partition, records)
        yield from _check_all_handled(where, of_partition, records[: _count_below(records, committed)], set_aside)
        yield from _check_order(where, of_partition, records, set_aside)
        for offset, of_record in sorted(of_partition.items()):
            yield from _check_again(f"{where}, offset {offset}", of_record)
    for value in sorted(set_aside - values.keys()):
        yield Anomaly(Name.WRONG_DEAD_LETTER, f"{group.name} {letters}", f"{value!r} is in no partition")


def _count_below(records: list[Logged], offset: int) -> int:
    return bisect_left(records, offset, key=attrgetter("offset"))


def _ownership(member: ServiceMember, handling: Handling) -> Ownership:
    """Return how the member owned the partition when it began the call."""
    owned = member.owned.get(handling.partition, [])
    number = bisect_right(owned, handling.began_s, key=attrgetter("began_s"))
    return owned[number - 1] if number else Ownership(handling.began_s, handling.began_s, "never assigned")


def _check_values(where: str, calls: Mapping[int, list[_Call]], records: list[Logged]) -> Iterator[Anomaly]:
    logged = {each.offset: each.value for each in records}
    for offset, of_record in calls.items():
        for value in sorted({call.handling.value for call in of_record} - {logged.get(offset)}):
            detail = f"handled {value!r} at {offset}, the log holds {logged.get(offset)!r}"
            yield Anomaly(Name.VANISHED_RECORD, where, detail)


def _check_all_handled(
    where: str, calls: Mapping[int, list[_Call]], records: list[Logged], set_aside: set[str]
) -> Iterator[Anomaly]:
    for record in records:
        of_record = [call.handling for call in calls.get(record.offset, [])]
        if record.value in set_aside:
            failed = sum(each.has_failed for each in of_record)
            if failed < (1 if is_poisoned(record.value) else ATTEMPTS):
                yield Anomaly(
                    Name.WRONG_DEAD_LETTER, where, f"{record.value!r} at {record.offset} failed {failed} times"
                )
        elif not any(each.is_done for each in of_record):
            yield Anomaly(Name.UNHANDLED_RECORD, where, f"offset {record.offset}, {len(of_record)} calls")


def _check_order(
    where: str, calls: Mapping[int, list[_Call]], records: list[Logged], set_aside: set[str]
) -> Iterator[Anomaly]:
    """Check that the record of its key before it had finished when a record was begun, at whichever member."""
    before: dict[str, Logged] = {}
    for record in records:
        key = key_of(record.value)
        earlier, before[key] = before.get(key), record
        began_s = min((call.handling.began_s for call in calls.get(record.offset, [])), default=UNKNOWN)
        if earlier is None or began_s == UNKNOWN:
            continue
        of_earlier = [call.handling for call in calls.get(earlier.offset, [])]
        finished = [each.ended_s for each in of_earlier if each.is_done]
        if earlier.value in set_aside:
            finished += [each.ended_s for each in of_earlier if each.has_failed]
        if min(finished, default=UNKNOWN) > began_s:
            detail = f"offset {record.offset} at {began_s:.3f}, offset {earlier.offset} had not finished"
            yield Anomaly(Name.REORDERED_HANDLERS, where, f"key {key}: {detail}")


def _check_again(where: str, calls: list[_Call]) -> Iterator[Anomaly]:
    """Check each call that began after another had returned."""
    for again in calls:
        for done in calls:
            if done.handling.is_done and done.handling.ended_s <= again.handling.began_s:
                yield from _check_pair(where, done, again)


def _check_pair(where: str, done: _Call, again: _Call) -> Iterator[Anomaly]:
    ended_s = done.handling.ended_s
    detail = f"{again.member.name} at {again.handling.began_s:.3f}, {done.member.name} had handled it at {ended_s:.3f}"
    if done.owned is again.owned:
        yield Anomaly(Name.HANDLED_AGAIN, where, f"{detail}, the partition was its own all the time")
        return
    if ended_s > done.owned.ended_s:
        return  # the group had given the partition to another: it was not to be committed
    partition = done.handling.partition
    attempts = done.member.attempts
    number = bisect_left(attempts, ended_s, key=attrgetter("sent_s"))
    covering = [
        each for each in attempts[number:] if partition in each.partitions and each.sent_s <= done.owned.ended_s
    ]
    # What the first one has may be older: it was asked for while another was under way, as before a revocation.
    sure = [each for each in covering if each.is_acked and each is not attempts[number]]
    acked_s = min((each.ended_s for each in sure), default=UNKNOWN)
    if acked_s < again.owned.began_s:
        yield Anomaly(Name.HANDLED_AGAIN, where, f"{detail}, committed at {acked_s:.3f}")
    elif not covering and (late := _late(done, attempts[number - 1] if number else None)):
        yield Anomaly(Name.LATE_COMMIT, where, f"{detail}, and {late} had sent no commit of it")


def _late(done: _Call, previous: CommitAttempt | None) -> str:
    """Return how late it was when a member had not begun to commit what it had finished; nothing where in time."""
    due_s = done.handling.ended_s
    until_s = min(done.owned.ended_s, done.member.ended_s)
    if done.owned.why == "lost" or (previous is not None and previous.ended_s >= until_s):
        return ""
    if done.owned.why == "revoked":
        return "when the partition was revoked"
    if previous is not None:
        pause_s = PAUSE_S if previous.is_acked else LONGEST_PAUSE_S
        due_s = max(due_s, previous.ended_s, previous.sent_s + pause_s)
    turns = done.member.turns
    free = bisect_right(turns, until_s) - bisect_left(turns, due_s)
    return f"{free} turns after it was due" if free > TURNS else ""
