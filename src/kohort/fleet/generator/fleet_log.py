"""Writes the log of a fleet: thousands of groups, most of them well, some not, and says which.

    truth = generate(directory, groups=2000, seed=1)

Each story is played once by real members on a real coordinator; its groups are copies of that under other names, at
other times. What is written are segment files of `__consumer_offsets`, as a broker of either kind has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from random import Random

from kohort.broker.os_disk import OsDisk
from kohort.fleet.generator.faulty_groups import EXPIRING, ill
from kohort.fleet.generator.generated_commits import DAY_MS, Batch
from kohort.fleet.generator.ground_truth import Known, Truth
from kohort.fleet.generator.group_log import Played, Written, play, play_modern, simple
from kohort.fleet.generator.group_scenario import Commits, Story, topics
from kohort.fleet.generator.healthy_groups import nearly_ill, ordinary
from kohort.fleet.generator.share_and_streams import ShareGroup, StreamsGroup
from kohort.log.log_config import LogConfig
from kohort.log.partition_log import PartitionLog
from kohort.model.ids import group_partition, topic_id_text

BEGAN_MS = 1_759_276_800_000
"""When the log of every fleet begins: 2025-10-01 00:00 UTC."""
TOPIC = "__consumer_offsets"
TOPICS_FILE = "topics.json"
LEAST_DAYS = 8
"""Kafka forgets offsets after seven days: that some are about to be forgotten takes a day more."""
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
    stories: Collection[str] = (),
    progress: Progress = lambda _, __: None,
) -> Truth:
    """Write a fleet's log into a directory, which must be new or empty, and return what is known of it.

    `commits_per_day` is of each group, on average; `stories` are the names of those that there shall be, none of them
    stands for all. `progress` hears how many stories were played and groups written, and how many there are of both.
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
    made = [each for each in _made_up(seed) if not stories or each.story.name in stories]
    played = [story for story in _played() if not stories or story.name in stories][: max(0, groups - len(made))]
    if not made and not played:
        raise ValueError(f"stories={sorted(stories)}: there are no such stories")
    steps = len(played) + groups
    for done, story in enumerate(played):
        progress(done, steps)
        made.append(play(story, seed))
    fleet: dict[int, list[Written]] = {}
    known: dict[str, Known] = {}
    named: dict[str, tuple[bytes, int]] = {}
    for each in _drawn(made, groups, random):
        written = Written(each, Random(random.getrandbits(64)), BEGAN_MS, ended_ms, DAY_MS // commits_per_day)
        if written.group in known:
            continue
        story = each.story
        known[written.group] = Known(story.name, story.expected, story.permitted, story.near)
        named |= written.copy.topics
        fleet.setdefault(group_partition(written.group, partitions), []).append(written)
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


def _played() -> Iterator[Story]:
    yield from ordinary()
    yield from nearly_ill()
    yield from ill()


def _made_up(seed: int) -> Iterator[Played]:
    """Yield what no scene can play: groups without members, and those of types that our coordinator does not have."""
    yield simple(Story("simple", _nothing, topics(6), weight=3))
    yield simple(Story("expiring by itself", _nothing, topics(3), EXPIRING, commits=Commits.EXPIRING))
    share, streams = (
        Story("share", _nothing, topics(8), weight=3, commits=Commits.NONE),
        partial(play_modern, seed=seed),
    )
    yield play_modern(share, ShareGroup, seed)
    yield streams(Story("streams", _nothing, topics(6), weight=3), StreamsGroup)
    refused = frozenset({"unloadable_log"})
    cleaned = Story("streams, cleaned", _nothing, topics(6), refused, commits=Commits.FIRST)
    yield streams(cleaned, StreamsGroup)


def _nothing(_: object) -> None:
    """A story without a script."""


def _drawn(made: list[Played], groups: int, random: Random) -> Iterator[Played]:
    """Yield so many groups: one of each story at least, the rest by weight."""
    yield from made[:groups]
    yield from random.choices(made, [each.story.weight for each in made], k=max(0, groups - len(made)))


def _write(disk: OsDisk, partition: int, groups: list[Written], segment_bytes: int) -> int:
    config = LogConfig(segment_bytes=segment_bytes, cleanup_policy="compact", segment_ms=1 << 50)
    batches: list[Batch] = []
    for written in groups:
        batches.extend(written.batches())
    batches.sort(key=lambda batch: batch.at_ms)
    log = PartitionLog.open(disk, f"{TOPIC}-{partition}", config, BEGAN_MS)
    pending: list[bytes] = []
    size = 0
    for at_ms, content in batches:
        pending.append(content)
        size += len(content)
        if size >= _APPENDED_BYTES:
            log.append(pending, leader_epoch=0, now_ms=at_ms)
            pending, size = [], 0
    if pending:
        log.append(pending, leader_epoch=0, now_ms=batches[-1].at_ms)
    count = log.log_end_offset
    log.close()
    return count


def _write_topics(home: Path, named: dict[str, tuple[bytes, int]]) -> None:
    """Write what a cluster would tell of its topics besides the log: names of ids, and partitions."""
    content = {
        name: {"id": topic_id_text(topic_id), "partitions": count} for name, (topic_id, count) in sorted(named.items())
    }
    (home / TOPICS_FILE).write_text(json.dumps(content, indent=1) + "\n")
