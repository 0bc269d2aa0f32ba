"""A log that is split into runs gives the figures of the whole one, with any content; a partition has one owner."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

from kohort.fleet.fold.fold import COMMITS, fold
from kohort.fleet.fold.folded_group import FoldedRecord, Group, group_from_json, group_to_json
from kohort.fleet.fold.hours import Hour

START = 1_700_000_000_000
MEMBERS = ("a", "b", "c")
INSTANCES = (None, None, "host-1", "host-2")
SEEDS = range(600)
Topics = list[dict[str, Any]]


def topics(name: str, partitions: list[int]) -> Topics:
    return [{name: "flights", "partitions": sorted(partitions)}] if partitions else []


def some(random: Random) -> list[int]:
    return random.sample(range(6), random.randrange(5))


def classic_value(random: Random) -> dict[str, Any]:
    held = random.sample(range(6), 6)
    members = [
        {
            "memberId": member_id,
            "groupInstanceId": random.choice(INSTANCES),
            "clientId": member_id,
            "clientHost": "/h",
            "sessionTimeout": 45_000,
            "subscription": {"version": 3, "topics": ["flights"], "ownedPartitions": topics("topic", some(random))},
            "assignment": {"assignedPartitions": topics("topic", held[2 * number : 2 * number + 2])},
        }
        for number, member_id in enumerate(random.sample(MEMBERS, random.randrange(4)))
    ]
    return {
        "protocolType": "consumer",
        "generation": random.randrange(1, 7),
        "protocol": random.choice(["range", "cooperative-sticky"]),
        "leader": random.choice(MEMBERS),
        "currentStateTimestamp": START + random.randrange(9_000_000),
        "members": members,
        "awaitsSync": random.random() < 0.3,
    }


def value_of(random: Random, record_type: int) -> dict[str, Any] | None:
    if random.random() < 0.2:
        return None
    match record_type:
        case 2:
            return classic_value(random)
        case 3:
            return {"epoch": random.randrange(1, 7)}
        case 5:
            return {"clientId": "c", "instanceId": random.choice(INSTANCES), "subscribedTopicNames": ["flights"]}
        case 6:
            return {"assignmentEpoch": random.randrange(1, 7)}
        case 7:
            return {"topicPartitions": topics("topicId", some(random))}
        case _:
            return {
                "memberEpoch": random.randrange(-2, 7),
                "state": random.randrange(4),
                "assignedPartitions": topics("topicId", some(random)),
                "partitionsPendingRevocation": topics("topicId", some(random)),
            }


def log_of(random: Random) -> list[FoldedRecord]:
    records, at_ms = [], START
    for offset in range(random.randrange(40)):
        at_ms += random.choice([0, 5, 1_000, 90_000, 4_000_000])
        kind = random.choice([COMMITS, 2, 2, 3, 5, 6, 7, 8, 8])
        if kind == COMMITS:
            records.append(FoldedRecord(3, offset, at_ms, COMMITS, False, None, None, random.randrange(9), 0))
            continue
        value = value_of(random, kind)
        member = random.choice(MEMBERS) if kind in (5, 7, 8) else None
        fields = None if value is None else json.dumps(value)
        records.append(FoldedRecord(3, offset, at_ms, kind, value is None, member, fields))
    return records


class Seen:
    """What a fold gave, in a form that does not depend on how it was cut."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.ended: list[Any] = []
        self.sums: Counter[tuple[int, str]] = Counter()
        self.extremes: dict[int, tuple[int, int, int]] = {}

    def take_hours(self, hours: list[Hour]) -> None:
        for hour in hours:
            for name in (
                "rebalances", "rebalances_failed", "rebalance_ms_total", "unowned_partition_ms", "partitions_moved",
                "partitions_kept", "commits", "joined", "left", "evicted",
            ):  # fmt: skip
                self.sums[hour.hour_ms, name] += getattr(hour, name)
            low, high, longest = self.extremes.get(hour.hour_ms, (1 << 30, -1, 0))
            if hour.members_min is not None and hour.members_max is not None:
                low, high = min(low, hour.members_min), max(high, hour.members_max)
            self.extremes[hour.hour_ms] = low, high, max(longest, hour.rebalance_ms_max)


def folded(records: list[FoldedRecord], cuts: set[int]) -> tuple[Seen, str]:
    group, seen = Group("cluster", "orders"), Seen()
    for number, record in enumerate(records):
        if number in cuts:
            seen.take_hours(group.hours.collect(all_of_them=True))
            group = group_from_json("cluster", "orders", group_to_json(group))
        found = fold(group, record)
        seen.events += found.events
        seen.ended += found.ended
        seen.take_hours(found.hours)
        owners = group.ownership.owners
        assert not owners.keys() & group.ownership.unowned.keys(), "what has an owner is not unowned"
        held = sum(group.ownership.share_of(member) for member in [*group.members, *group.departed])
        assert held == len(owners), "every owner is a member, or one whose departure is not known yet"
    seen.take_hours(group.hours.collect(all_of_them=True))
    return seen, group_to_json(group)


def test_a_log_that_is_split_into_runs_gives_the_figures_of_the_whole_one() -> None:
    for seed in SEEDS:
        random = Random(seed)
        records = log_of(random)
        whole, state = folded(records, set())
        parts, state_of_parts = folded(records, set(random.sample(range(40), 3)))
        assert parts.events == whole.events, seed
        assert sorted(parts.ended) == sorted(whole.ended), seed
        assert +parts.sums == +whole.sums, seed
        assert parts.extremes == whole.extremes, seed
        assert json.loads(state_of_parts) == json.loads(state), seed


def test_no_partition_has_two_owners_at_a_time() -> None:
    for seed in SEEDS:
        seen, _ = folded(log_of(Random(seed)), set())
        by_partition: dict[Any, list[Any]] = {}
        for each in sorted(seen.ended, key=lambda each: (each.from_ms, each.until_ms)):
            by_partition.setdefault(each.partition, []).append(each)
        for intervals in by_partition.values():
            for before, after in pairwise(intervals):
                assert before.until_ms <= after.from_ms, f"seed {seed}: a partition has one owner"
