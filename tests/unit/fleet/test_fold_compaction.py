"""A log whose beginning was compacted: each event of the fold happened, and the last state is the group's."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.fleet.written_group import Written

from kohort.fleet.fold.fold import fold
from kohort.fleet.fold.folded_group import LOG_BEGINS, FoldedRecord, Group

COUNT = 8


def shares(members: list[str]) -> dict[str, tuple[int, ...]]:
    return {member: tuple(range(at, COUNT, len(members))) for at, member in enumerate(members)}


def a_consumer_group(random: Random) -> list[FoldedRecord]:
    """Return the records of a group whose members come and go, each change reconciled before the next."""
    written, members, held, epoch, made = Written(), list[str](), dict[str, tuple[int, ...]](), 1, 0
    for _ in range(random.randrange(3, 12)):
        written.after(random.randrange(1, 3000))
        if members and random.random() < 0.4:
            gone = members.pop(random.randrange(len(members)))
            held.pop(gone, None)
            written.goes(gone)
        else:
            made += 1
            members.append(f"m{made}")
            written.joins(f"m{made}")
        epoch += 1
        written.epoch(epoch)
        if not members:
            continue
        target = shares(members)
        written.targets(epoch, **target)
        for member in members:
            kept = tuple(sorted(set(held.get(member, ())) & set(target[member])))
            if set(held.get(member, ())) - set(kept):
                written.has(member, epoch - 1, *kept, pending=tuple(sorted(set(held[member]) - set(kept))))
                written.after(1)
        for member in members:
            held[member] = target[member]
            written.after(random.random()).has(member, epoch, *target[member])
    return written.records


def a_classic_group(random: Random) -> list[FoldedRecord]:
    written, made = Written(), 0
    members: list[str] = []
    for generation in range(1, random.randrange(3, 12)):
        if members and random.random() < 0.4:
            members.pop(random.randrange(len(members)))
        else:
            made += 1
            members.append(f"m{made}")
        written.after(random.randrange(1, 3000)).generation(generation, shares(members), formed_s_ago=0.5)
    return written.records


def cleaned(records: list[FoldedRecord], end: int, *, keeps_tombstones: bool) -> list[FoldedRecord]:
    """Return what a cleaner leaves that went over the log up to an offset."""
    last = {(each.record_type, each.member): each.offset for each in records if each.offset < end}
    return [
        each
        for each in records
        if each.offset >= end
        or (last[each.record_type, each.member] == each.offset and (keeps_tombstones or not each.tombstone))
    ]


def folded(records: list[FoldedRecord]) -> tuple[Group, set[Any], int]:
    group, found = Group("cluster", "orders"), set()
    for record in records:
        for each in fold(group, record).events:
            if each.cause != LOG_BEGINS:
                found.add((record.offset, each.event, each.epoch, each.member, tuple(each.partitions or ())))
    return group, found, sum(hour.rebalances for hour in group.hours.collect(all_of_them=True))


@pytest.mark.parametrize("make", [a_consumer_group, a_classic_group])
@pytest.mark.parametrize("keeps_tombstones", [True, False])
def test_events_of_a_compacted_log_happened_and_its_group_ends_in_the_same_state(
    make: Any, keeps_tombstones: bool
) -> None:
    for seed in range(150):
        random = Random(seed)
        records = make(random)
        end = random.randrange(len(records))
        whole, all_found, rebalances = folded(records)
        group, found, fewer = folded(cleaned(records, end, keeps_tombstones=keeps_tombstones))
        assert {each for each in found - all_found if each[1] not in ("settled", "generation_formed")} == set(), seed
        assert fewer <= rebalances, seed
        assert (sorted(group.members), group.epoch) == (sorted(whole.members), whole.epoch), seed
        owners = {partition: owner for partition, (owner, _) in group.ownership.owners.items()}
        assert owners == {partition: owner for partition, (owner, _) in whole.ownership.owners.items()}, seed
