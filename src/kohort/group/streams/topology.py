"""The topology of a streams group: what its members send of their program, and what follows from the topics there are.

A subtopology reads source topics, which users make, and repartition topics, which other subtopologies write; each of
its tasks may have state, with a changelog topic for each store. The last two kinds are internal topics: the coordinator
derives how many partitions they must have, and which of them are missing.

 - A repartition topic has the count that the program asks for, or as many partitions as the largest topic which the
   subtopologies that write it read. Those may be repartition topics again, so counts are derived until none is open.
 - Topics that are joined with each other (a co-partition group) must have the same count: that of the user's topics
   among them, or of a repartition topic whose count the program fixes, or the largest.
 - A changelog has as many partitions as its subtopology has tasks, and that is the count of the largest topic it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from kohort.group.coordinator_settings import TopicImage
from kohort.model.streams_tasks import Task

MOST_NAMED = 3
"""How many topics a status names before it only counts them."""


class InternalTopic(NamedTuple):
    """A repartition or changelog topic. A partition count or replication factor of 0 leaves it to the coordinator."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics that are joined with each other, as positions in the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regexes: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """A part of a program whose tasks run by themselves."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regexes: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the topics that it reads."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))

    @property
    def internal_topics(self) -> tuple[InternalTopic, ...]:
        """The topics of it that the coordinator makes."""
        return (*self.repartition_sources, *self.changelogs)


class StreamsTopology(NamedTuple):
    """A program, by its epoch; the subtopologies are sorted by id."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it reads, and of its changelogs."""
        return frozenset(
            name for each in self.subtopologies for name in (*each.inputs, *(topic.name for topic in each.changelogs))
        )

    @property
    def readers(self) -> dict[str, str]:
        """The id of the subtopology that reads each topic."""
        return {name: each.subtopology_id for each in self.subtopologies for name in each.inputs}


class StatusCode(IntEnum):
    """Why a member cannot run tasks although it is in the group; Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class StreamsStatus(NamedTuple):
    """One status of a heartbeat's answer. `detail` is the sentence for people."""

    code: StatusCode
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with counts: how many tasks it has, and its internal topics as they must be."""

    tasks: int
    subtopology: Subtopology

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state that standby tasks can copy."""
        return bool(self.subtopology.changelogs)


class ConfiguredTopology(NamedTuple):
    """A topology with the topics there are. `status` is why its tasks cannot be assigned, None if they can.

    `subtopologies` are by id, and empty while counts are not known. `missing` are internal topics that do not exist.
    """

    topology: StreamsTopology
    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: tuple[InternalTopic, ...] = ()
    status: StreamsStatus | None = None

    def has(self, task: Task) -> bool:
        """Whether there is such a task."""
        found = self.subtopologies.get(task[0])
        return found is not None and 0 <= task[1] < found.tasks


class InvalidTopology(ValueError):
    """A topology from which no counts follow, whatever topics there are; the text is the reason."""


class _Unready(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        self.status = StreamsStatus(code, detail)


def configured(topology: StreamsTopology, image: TopicImage) -> ConfiguredTopology:
    """Derive the internal topics of a topology, and how many tasks there are. Raises InvalidTopology."""
    _check(topology)
    existing = {name: topic.partitions for name in topology.topics if (topic := image.topic(name)) is not None}
    try:
        missing_sources = {name for each in topology.subtopologies for name in each.source_topics} - existing.keys()
        if missing_sources:
            raise _Unready(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_named(missing_sources)} are missing.")
        counts = _repartition_counts(topology, existing)
        for each in topology.subtopologies:
            for group in each.copartition_groups:
                counts.update(_copartitioned(topology, each, group, {**counts, **existing}))
        known = {**counts, **existing}
        subtopologies = {each.subtopology_id: _with_counts(each, known, counts) for each in topology.subtopologies}
        missing = _missing(subtopologies, existing)
    except _Unready as error:
        return ConfiguredTopology(topology, {}, (), error.status)
    status = None
    if missing:
        names = _named([topic.name for topic in missing])
        status = StreamsStatus(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology, subtopologies, missing, status)


def _check(topology: StreamsTopology) -> None:
    """Raise InvalidTopology for one that refers to what it does not have."""
    if len({each.subtopology_id for each in topology.subtopologies}) < len(topology.subtopologies):
        raise InvalidTopology("Two subtopologies have the same id")
    for each in topology.subtopologies:
        if not each.inputs:
            raise InvalidTopology(f"No source topics found for subtopology {each.subtopology_id}")
        for topic in each.internal_topics:
            if topic.partitions < 0:
                raise InvalidTopology(f"Topic {topic.name} cannot have {topic.partitions} partitions")
        for group in each.copartition_groups:
            for indexes, named in (
                (group.source_topics, each.source_topics),
                (group.repartition_sources, each.repartition_sources),
            ):
                if not all(0 <= index < len(named) for index in indexes):
                    raise InvalidTopology(
                        f"A co-partition group of {each.subtopology_id} names a topic it does not have"
                    )


def _repartition_counts(topology: StreamsTopology, existing: Mapping[str, int]) -> dict[str, int]:
    """Return the partition count of each repartition topic."""
    sources = {topic.name: topic for each in topology.subtopologies for topic in each.repartition_sources}
    counts = {name: topic.partitions for name, topic in sources.items() if topic.partitions}
    known = {name: existing[name] for each in topology.subtopologies for name in each.source_topics} | counts
    inputs: dict[str, set[str]] = {}
    for each in topology.subtopologies:
        for sink in set(each.repartition_sinks) - counts.keys():
            inputs.setdefault(sink, set()).update(each.inputs)
    readers: dict[str, list[str]] = {}
    for sink, names in inputs.items():
        for name in names:
            readers.setdefault(name, []).append(sink)
    largest = dict.fromkeys(inputs, 0)
    unknown = {sink: len(names) for sink, names in inputs.items()}
    begun: dict[str, None] = {}
    """Open sinks of which an input is counted."""
    arrived = sorted(known.items())
    open_sinks = len(inputs)
    while open_sinks:
        complete = []
        for name, count in arrived:
            for sink in readers.get(name, ()):
                largest[sink] = max(largest[sink], count)
                unknown[sink] -= 1
                if sink not in counts:
                    begun[sink] = None
                    complete += [sink] if not unknown[sink] else []
        # Those first of which all inputs are counted; of a loop, what comes in from outside counts.
        arrived = [(sink, largest[sink]) for sink in sorted(complete or begun)]
        if not arrived:
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
        counts.update(arrived)
        open_sinks -= len(arrived)
        for sink, _ in arrived:
            del begun[sink]
    if unwritten := sorted(sources.keys() - counts.keys()):
        raise InvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            f"never used as a sink topic: {_named(unwritten)}"
        )
    return counts


def _copartitioned(
    topology: StreamsTopology, subtopology: Subtopology, group: CopartitionGroup, counts: Mapping[str, int]
) -> dict[str, int]:
    """Return the count of each repartition topic of a co-partition group, which is the same for all."""
    sources = {subtopology.source_topics[index] for index in group.source_topics}
    repartitions = [subtopology.repartition_sources[index] for index in group.repartition_sources]
    repartition_names = {topic.name for topic in repartitions}
    fixed = {
        topic.name: topic.partitions
        for each in topology.subtopologies
        for topic in each.repartition_sources
        if topic.partitions and topic.name in repartition_names
    }
    external = {name: counts[name] for name in sorted(sources - repartition_names)}
    decisive = external or fixed or {topic.name: counts[topic.name] for topic in repartitions}
    if not decisive:
        return {}
    if (external or fixed) and len(set(decisive.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(decisive.items()))
        text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise _Unready(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    count = max(decisive.values())
    for name, partitions in sorted(fixed.items()):
        if partitions != count:
            raise _Unready(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{partitions}] of repartition topic [{name}] "
                f"doesn't match number of partitions [{count}] of the source topic.",
            )
    return dict.fromkeys(repartition_names, count)


def _with_counts(each: Subtopology, known: Mapping[str, int], counts: Mapping[str, int]) -> ConfiguredSubtopology:
    tasks = max(known[name] for name in each.inputs)
    sources = tuple(
        topic._replace(partitions=topic.partitions or counts[topic.name]) for topic in each.repartition_sources
    )
    changelogs = tuple(topic._replace(partitions=tasks) for topic in each.changelogs)
    return ConfiguredSubtopology(tasks, each._replace(repartition_sources=sources, changelogs=changelogs))


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], existing: Mapping[str, int]
) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist, by name; those that do must have the count they should have."""
    wanted = {topic.name: topic for each in subtopologies.values() for topic in each.subtopology.internal_topics}
    for name, topic in sorted(wanted.items()):
        found = existing.get(name, topic.partitions)
        if found != topic.partitions:
            raise _Unready(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {found}",
            )
    return tuple(topic for name, topic in sorted(wanted.items()) if name not in existing)


def _named(names: Collection[str]) -> str:
    first = ", ".join(sorted(names)[:MOST_NAMED])
    return first + (f" and {len(names) - MOST_NAMED} additional topics" if len(names) > MOST_NAMED else "")
