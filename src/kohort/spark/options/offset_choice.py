"""`startingOffsets`, `endingOffsets` and the options by timestamp, parsed as in Spark's own source, and resolved.

A choice is parsed without a cluster, so that a wrong option is reported before any job runs; `resolve` requests the
offsets. -2 stands for the earliest offset and -1 for the latest, as in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.model.ids import TopicPartition
from kohort.model.setting import LONG, STRING, refused, setting
from kohort.spark.options.option_values import Given

if TYPE_CHECKING:
    from kohort.client.cluster.cluster import Cluster

Side = Literal["starting", "ending"]

_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_EXAMPLE = '{"flights": {"0": 23, "1": 42}}'


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


def _by_partition(option: str) -> Callable[[str], Any]:
    """Return the reader of an option that is a JSON object of topics, of partitions; offsets may be a word for all."""
    words, least, rule = _ENDS, EARLIEST, "an offset is 0 or more, -2 for the earliest or -1 for the latest"
    if "Timestamp" in option:
        words, least, rule = {}, 0, "a timestamp is milliseconds since 1970, and none is negative"

    def read(text: str) -> int | dict[TopicPartition, int]:
        if text.lower() in words:
            return words[text.lower()]
        wrong = refused(option, text, f"{'earliest, latest, or ' if words else ''}JSON such as {_EXAMPLE}")
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
        if any(value < least for value in found.values()):
            raise ValueError(f"{option} is {text!r}: {rule}")
        return found

    return read


_MOMENT = "milliseconds since 1970, such as 1700000000000"
_BY_TIME = "The first offset at or after a time, in milliseconds since 1970"


@dataclass(frozen=True, slots=True)
class OffsetOptions:
    """The options of both sides; a timestamp takes precedence over timestamps by partition, those over offsets."""

    # fmt: off
    starting: int | Mapping[TopicPartition, int] | None = setting(None, "Where reading begins: earliest, latest, or "
        "offsets by topic and partition, as JSON.", kind=STRING, reader=_by_partition("startingOffsets"),
        name="startingOffsets")
    starting_time_ms: int | None = setting(None, f"{_BY_TIME}.", 0, kind=LONG, expected=_MOMENT,
        name="startingTimestamp")
    starting_times_ms: Mapping[TopicPartition, int] | None = setting(None, f"{_BY_TIME} by topic and partition, as "
        "JSON.", kind=STRING, reader=_by_partition("startingOffsetsByTimestamp"), name="startingOffsetsByTimestamp")
    strategy: Literal["error", "latest"] = setting("error", "What a time after the last record is.",
        choices=("error", "latest"), name="startingOffsetsByTimestampStrategy")
    ending: int | Mapping[TopicPartition, int] | None = setting(None, "Where a batch ends.", kind=STRING,
        reader=_by_partition("endingOffsets"), name="endingOffsets")
    ending_time_ms: int | None = setting(None, "The same as a time.", 0, kind=LONG, expected=_MOMENT,
        name="endingTimestamp")
    ending_times_ms: Mapping[TopicPartition, int] | None = setting(None, "The same as times by partition.", kind=STRING,
        reader=_by_partition("endingOffsetsByTimestamp"), name="endingOffsetsByTimestamp")
    # fmt: on


def choice_from(options: Mapping[str, str], side: Side, *, default: Literal["earliest", "latest"]) -> OffsetChoice:
    """Parse the options of a side, whose names may be in any case. Raises ValueError with the option."""
    found = Given(options).values(OffsetOptions)
    is_strict = side == "starting" and found.get("strategy", "error") == "error"
    if (time_ms := found.get(f"{side}_time_ms")) is not None:
        return OffsetChoice(f"{side}Timestamp", time_ms=time_ms, is_strict=is_strict)
    if (times_ms := found.get(f"{side}_times_ms")) is not None:
        return OffsetChoice(f"{side}OffsetsByTimestamp", times_ms=times_ms, is_strict=is_strict)
    place = found.get(side, _ENDS[default])
    name = f"{side}Offsets"
    return OffsetChoice(name, end=place) if isinstance(place, int) else OffsetChoice(name, offsets=place)


async def resolve(
    cluster: Cluster, choice: OffsetChoice, partitions: Iterable[TopicPartition], *, isolation: int = 0
) -> dict[TopicPartition, int]:
    """Return the offset of each partition that a choice stands for. Raises KafkaError, ValueError.

    A choice that names partitions has to name all of these and no other; a strict choice of a time needs a record at
    or after it.
    """
    from kohort.client.cluster.list_offsets import (
        list_offsets,
        list_starts,
    )  # options are also read where no cluster is asked

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
    if choice.is_strict:
        places = await list_offsets(cluster, asked, isolation=isolation)
    else:
        places = {**await list_starts(cluster, asked, isolation=isolation)}
    found |= {partition: entry.offset for partition, entry in places.items() if entry is not None}
    if late := asked.keys() - found.keys():
        partition = min(late)
        raise ValueError(
            f"{choice.option}: {partition} has no record at or after {choice.time(partition)};"
            " startingOffsetsByTimestampStrategy=latest begins at the latest offset there"
        )
    return {partition: found[partition] for partition in partitions}


def _unequal(option: str, named: frozenset[TopicPartition], there: set[TopicPartition]) -> str:
    missing, unknown = sorted(there - named), sorted(named - there)
    parts = [f"it leaves out {_some(missing)}"] if missing else []
    parts += [f"it names {_some(unknown)}, not read here"] if unknown else []
    return f"{option} must name every partition that is read, once: {' and '.join(parts)}"


def _some(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(str(each) for each in partitions[:3])
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"
