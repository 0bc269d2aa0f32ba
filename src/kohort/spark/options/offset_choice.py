"""`startingOffsets`, `endingOffsets` and the options by timestamp, parsed as in Spark's own source, and resolved.

A choice is parsed without a cluster, so that a wrong option is reported before any job runs; `resolve` requests the
offsets. -2 stands for the earliest offset and -1 for the latest, as in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from kohort.client.cluster.cluster import Cluster

Side = Literal["starting", "ending"]

_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_EXAMPLE = '{"flights": {"0": 23, "1": -2}}'


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """Where reading begins or ends.

    `offsets` per partition may be EARLIEST or LATEST; `times_ms` per partition, or `time_ms` for all, stand for the
    first offset at or after that time; `end` for EARLIEST or LATEST of all. `option` is the option that set it.
    `is_strict`: a time after the last record is an error rather than the latest offset.
    """

    option: str
    end: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int | None = None
    is_strict: bool = False

    def __str__(self) -> str:
        """Return the option with its value, where that is a word."""
        word = next((word for word, end in _ENDS.items() if end == self.end), None)
        return self.option if word is None else f"{self.option}={word}"

    def place(self, partition: TopicPartition) -> int | None:
        """Return the offset, EARLIEST or LATEST chosen for a partition, None where a time or nothing was."""
        return self.offsets.get(partition) if self.end is None else self.end

    def time(self, partition: TopicPartition) -> int | None:
        """Return the time chosen for a partition, or None."""
        return self.times_ms.get(partition) if self.time_ms is None else self.time_ms

    def named(self) -> frozenset[TopicPartition] | None:
        """Return the partitions that the choice names one by one, None where it is for all."""
        one_by_one = self.offsets.keys() | self.times_ms.keys()
        return frozenset(one_by_one) if self.end is None and self.time_ms is None else None


def choice_from(options: Mapping[str, str], side: Side, *, default: Literal["earliest", "latest"]) -> OffsetChoice:
    """Parse the options of a side: a timestamp takes precedence over timestamps by partition, those over offsets.

    Options' names may be in any case. Raises ValueError that names the option and what it takes.
    """
    given = {name.lower(): value for name, value in options.items()}
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy={strategy!r}: expected error or latest")
    is_strict = side == "starting" and strategy == "error"
    name = f"{side}Timestamp"
    if (text := given.get(name.lower())) is not None:
        return OffsetChoice(name, time_ms=_milliseconds(name, text), is_strict=is_strict)
    name = f"{side}OffsetsByTimestamp"
    if (text := given.get(name.lower())) is not None:
        times_ms = _by_partition(name, text)
        if any(time_ms < 0 for time_ms in times_ms.values()):
            raise ValueError(f"{name} is {text!r}: a timestamp is milliseconds since 1970, and none is negative")
        return OffsetChoice(name, times_ms=times_ms, is_strict=is_strict)
    name = f"{side}Offsets"
    text = given.get(name.lower(), default)
    if text.strip().lower() in _ENDS:
        return OffsetChoice(name, end=_ENDS[text.strip().lower()])
    offsets = _by_partition(name, text)
    if any(offset < EARLIEST for offset in offsets.values()):
        raise ValueError(f"{name} is {text!r}: an offset is 0 or more, -2 for the earliest or -1 for the latest")
    return OffsetChoice(name, offsets=offsets)


async def resolve(
    cluster: Cluster, choice: OffsetChoice, partitions: Iterable[TopicPartition], *, isolation: int = 0
) -> dict[TopicPartition, int]:
    """Return the offset of each partition that a choice stands for. Raises KafkaError, ValueError.

    A choice that names partitions has to name all of these and no other; a strict choice of a time needs a record at
    or after it.
    """
    from kohort.client.cluster.list_offsets import list_offsets  # options are also read where no cluster is asked

    partitions = sorted(partitions)
    named = choice.named()
    if named is not None and named != set(partitions):
        raise ValueError(_unequal(choice.option, named, set(partitions)))
    found: dict[TopicPartition, int] = {}
    asked: dict[TopicPartition, int] = {}
    for partition in partitions:
        place = choice.place(partition)
        if place is not None and place >= 0:
            found[partition] = place
            continue
        time_ms = choice.time(partition)
        asked[partition] = time_ms if place is None and time_ms is not None else LATEST if place is None else place
    late: list[TopicPartition] = []
    for partition, entry in (await list_offsets(cluster, asked, isolation=isolation)).items():
        if entry is None:
            late.append(partition)
        else:
            found[partition] = entry.offset
    if late and choice.is_strict:
        partition = min(late)
        raise ValueError(
            f"{choice.option}: {partition} has no record at or after {choice.time(partition)};"
            " startingOffsetsByTimestampStrategy=latest begins at the latest offset there"
        )
    if late:
        ends = await list_offsets(cluster, dict.fromkeys(late, LATEST), isolation=isolation)
        found |= {partition: entry.offset for partition, entry in ends.items() if entry is not None}
    return {partition: found[partition] for partition in partitions}


def _milliseconds(name: str, text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit():
        raise ValueError(f"{name}={text!r}: expected milliseconds since 1970, such as 1700000000000")
    return int(text)


def _by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    """Return the numbers of a JSON object of topics, of partitions. Raises ValueError."""
    words = "" if "Timestamp" in name else "earliest, latest, or "
    wrong = ValueError(f"{name}={text!r}: expected {words}JSON such as {_EXAMPLE.replace('-2', '42')}")
    try:
        topics = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(topics, dict) or not all(isinstance(partitions, dict) for partitions in topics.values()):
        raise wrong
    found = {}
    for topic, partitions in topics.items():
        for number, value in partitions.items():
            if not (number.isascii() and number.isdigit()) or type(value) is not int:
                raise wrong
            found[TopicPartition(topic, int(number))] = value
    if not found:
        raise wrong
    return found


def _unequal(option: str, named: frozenset[TopicPartition], there: set[TopicPartition]) -> str:
    missing, unknown = sorted(there - named), sorted(named - there)
    parts = [f"it leaves out {_some(missing)}"] if missing else []
    parts += [f"it names {_some(unknown)}, not read here"] if unknown else []
    return f"{option} must name every partition that is read, once: {' and '.join(parts)}"


def _some(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(str(each) for each in partitions[:3])
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"
