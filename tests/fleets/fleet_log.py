"""Generates the log of a fleet: thousands of groups, most of them healthy, some with known faults.

    truth = generate(directory, groups=2000, seed=1)

Each scenario is simulated once with members and a coordinator; its groups are copies with other names and times. The
output are segment files of `__consumer_offsets` as a broker has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random

from tests.fleets.generated_commits import CommitStyle
from tests.fleets.group_log import GeneratedGroup, Template, construct, simple, simulate
from tests.fleets.scenarios import (
    EXPIRING,
    REWOUND,
    ZOMBIES,
    Scenario,
    faulty_groups,
    ordinary_groups,
    resembling_groups,
    topics,
)

from kohort.broker.os_disk import OsDisk
from kohort.fleet.ground_truth import KnownFaults, Truth
from kohort.fleet.schema import DAY_MS
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.ids import group_partition, topic_id_text

BEGAN_MS = 1_759_276_800_000
"""When the log of every fleet begins: 2025-10-01 00:00 UTC."""
TOPIC = "__consumer_offsets"
TOPICS_FILE = "topics.json"
LEAST_DAYS = 8
"""Kafka expires offsets after seven days, so that offsets about to expire need a day more."""
_APPENDED_BYTES = 1 << 20
Progress = Callable[[int, int], None]


def generate(
    directory: str | Path,
    *,
    groups: int = 2000,
    seed: int = 1,
    days: int = LEAST_DAYS,
    partitions: int = 10,
    commits_per_day: int = 24,
    segment_bytes: int = 64 << 20,
    scenarios: Collection[str] = (),
    progress: Progress = lambda _, __: None,
) -> Truth:
    """Write a fleet's log into a new or empty directory, and return its known faults.

    `commits_per_day` is the average of a group; `scenarios` selects scenarios by name, all where empty. `progress` is
    called with the number of simulated scenarios and written groups, and their total.
    Raises ValueError, and StorageError as the disk does.
    """
    if days < LEAST_DAYS:
        raise ValueError(f"days={days}: a fleet has at least {LEAST_DAYS}")
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise ValueError(f"{home} is not empty: a fleet is written into a directory of its own")
    random = Random(seed)
    ended_ms = BEGAN_MS + days * DAY_MS
    simulated = [*ordinary_groups(), *resembling_groups(), *faulty_groups()]
    templates = _constructed(seed)
    if scenarios:
        templates = [each for each in templates if each.scenario.name in scenarios]
        simulated = [each for each in simulated if each.name in scenarios]
    simulated = simulated[: max(0, groups - len(templates))]
    if not templates and not simulated:
        raise ValueError(f"scenarios={sorted(scenarios)}: there are no such scenarios")
    steps = len(simulated) + groups
    for done, scenario in enumerate(simulated):
        progress(done, steps)
        templates.append(simulate(scenario, seed))
    fleet: dict[int, list[GeneratedGroup]] = {}
    known: dict[str, KnownFaults] = {}
    named: dict[str, tuple[bytes, int]] = {}
    for template in _drawn(templates, groups, random):
        made = GeneratedGroup(template, Random(random.getrandbits(64)), BEGAN_MS, ended_ms, DAY_MS // commits_per_day)
        if made.group in known:
            continue
        scenario = made.scenario
        known[made.group] = KnownFaults(scenario.name, scenario.expected, scenario.permitted, scenario.near)
        named |= made.topics
        fleet.setdefault(group_partition(made.group, partitions), []).append(made)
    records = 0
    disk = OsDisk(home)
    for partition in range(partitions):
        here = fleet.pop(partition, [])
        progress(steps - len(here) - sum(map(len, fleet.values())), steps)
        records += _write(disk, partition, here, segment_bytes)
    disk.close()
    _write_topics(home, named)
    truth = Truth(known, BEGAN_MS, ended_ms, records)
    truth.write(home)
    return truth


def _constructed(seed: int) -> list[Template]:
    """Return the scenarios that are not simulated: groups without members, and share groups, which we have not."""
    return [
        simple(Scenario("simple", _nothing, topics(6), weight=3)),
        simple(Scenario("repeated", _nothing, topics(3), REWOUND, near=ZOMBIES, commits=CommitStyle.REPEATED)),
        simple(Scenario("expiring by itself", _nothing, topics(3), EXPIRING, commits=CommitStyle.EXPIRING)),
        construct(Scenario("share", _nothing, topics(8), weight=3, commits=CommitStyle.NONE), seed),
    ]


def _nothing(_: object) -> None:
    """The script of a scenario that is not simulated."""


def _drawn(templates: list[Template], groups: int, random: Random) -> Iterator[Template]:
    """Yield `groups` groups: one of each scenario at least, the rest by weight."""
    yield from templates[:groups]
    weights = [each.scenario.weight for each in templates]
    yield from random.choices(templates, weights, k=max(0, groups - len(templates)))


def _write(disk: OsDisk, partition: int, groups: list[GeneratedGroup], segment_bytes: int) -> int:
    """Write the log of a partition; return the number of its records."""
    config = LogConfig(segment_bytes=segment_bytes, cleanup_policy=("compact",), segment_ms=1 << 50)
    batches = [batch for group in groups for batch in group.batches()]
    batches.sort(key=lambda batch: batch.at_ms)
    log = PartitionLog.open(disk, f"{TOPIC}-{partition}", config, BEGAN_MS)
    pending: list[bytes] = []
    size = 0
    for place, (at_ms, content) in enumerate(batches, 1):
        pending.append(content)
        size += len(content)
        if size >= _APPENDED_BYTES or place == len(batches):
            log.append(pending, leader_epoch=0, now_ms=at_ms)
            pending, size = [], 0
    count = log.log_end_offset
    log.close()
    return count


def _write_topics(home: Path, named: dict[str, tuple[bytes, int]]) -> None:
    """Write the metadata of topics, which is not in the log: names of ids, and partition counts."""
    content = {
        name: {"id": topic_id_text(topic_id), "partitions": count} for name, (topic_id, count) in sorted(named.items())
    }
    (home / TOPICS_FILE).write_text(json.dumps(content, indent=1) + "\n")
