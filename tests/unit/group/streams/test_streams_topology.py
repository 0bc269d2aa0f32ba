"""What follows from a topology: partition counts, tasks, missing topics, and why tasks cannot be assigned."""

from __future__ import annotations

import pytest
from tests.unit.group.consumer_world import Topics

from kohort.group.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    InvalidTopology,
    StatusCode,
    StreamsTopology,
    Subtopology,
    configured,
)


def test_repartition_count_is_derived_over_subtopologies() -> None:
    # As the subtopologies stand, the first can only be counted after the second, and that after the third.
    topology = StreamsTopology(
        0,
        (
            Subtopology("0", repartition_sources=(InternalTopic("r1"),), changelogs=(InternalTopic("c"),)),
            Subtopology("1", ("few",), repartition_sources=(InternalTopic("r2"),), repartition_sinks=("r1",)),
            Subtopology("2", ("many",), repartition_sinks=("r2",)),
        ),
    )
    found = configured(topology, Topics(few=2, many=5))
    assert {key: each.tasks for key, each in found.subtopologies.items()} == {"0": 5, "1": 5, "2": 5}
    assert found.missing == (InternalTopic("c", 5), InternalTopic("r1", 5), InternalTopic("r2", 5))
    assert found.status is not None
    assert found.status.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert found.status.detail == "Internal topics are missing: c, r1, r2"
    assert [each.is_stateful for each in found.subtopologies.values()] == [True, False, False]


def test_subtopology_that_reads_what_it_writes_has_the_count_of_its_other_topics() -> None:
    loop = Subtopology("0", ("many",), repartition_sources=(InternalTopic("r"),), repartition_sinks=("r",))
    assert configured(StreamsTopology(0, (loop,)), Topics(many=5)).missing == (InternalTopic("r", 5),)


def joined(*sources: InternalTopic, topics: tuple[str, ...] = ()) -> StreamsTopology:
    group = CopartitionGroup(tuple(range(len(topics))), (), tuple(range(len(sources))))
    writer = Subtopology("1", ("input",), repartition_sinks=tuple(each.name for each in sources))
    return StreamsTopology(
        0, (Subtopology("0", topics, repartition_sources=sources, copartition_groups=(group,)), writer)
    )


def test_copartitioned_topics_have_the_count_of_the_users_topic() -> None:
    found = configured(joined(InternalTopic("r"), topics=("table",)), Topics(input=2, table=4))
    assert found.missing == (InternalTopic("r", 4),)


def test_copartitioned_topics_have_the_count_that_the_program_fixes() -> None:
    found = configured(joined(InternalTopic("r", 6), InternalTopic("s")), Topics(input=2))
    assert found.missing == (InternalTopic("r", 6), InternalTopic("s", 6))


@pytest.mark.parametrize(
    ("topology", "detail"),
    [
        (
            joined(topics=("table", "stream")),
            "Following topics do not have the same number of partitions: [{stream=3, table=4}]",
        ),
        (
            joined(InternalTopic("r", 6), topics=("table",)),
            "Number of partitions [6] of repartition topic [r] doesn't match "
            "number of partitions [4] of the source topic.",
        ),
        (
            StreamsTopology(0, (Subtopology("0", ("table",), changelogs=(InternalTopic("stream"),)),)),
            "Existing topic stream has different number of partitions: expected 4, found 3",
        ),
    ],
)
def test_counts_that_contradict_each_other_are_a_status(topology: StreamsTopology, detail: str) -> None:
    found = configured(topology, Topics(input=2, table=4, stream=3))
    assert found.status is not None
    assert (found.status.code, found.status.detail) == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    assert not found.subtopologies
    assert not found.missing


def test_many_missing_topics_are_counted() -> None:
    found = configured(StreamsTopology(0, (Subtopology("0", tuple("abcde")),)), Topics())
    assert found.status is not None
    assert found.status.detail == "Source topics a, b, c and 2 additional topics are missing."


@pytest.mark.parametrize(
    "subtopologies",
    [
        (Subtopology("0", repartition_sources=(InternalTopic("r"),), repartition_sinks=("r",)),),
        (Subtopology("0", ("input",), repartition_sources=(InternalTopic("r"),)),),
        (Subtopology("0"),),
        (Subtopology("0", ("input",), copartition_groups=(CopartitionGroup((1,)),)),),
        (Subtopology("0", ("input",)), Subtopology("0", ("input",))),
        (Subtopology("0", ("input",), repartition_sources=(InternalTopic("r", -1),)),),
    ],
    ids=["loop", "unwritten", "no input", "index", "twice", "negative"],
)
def test_topology_from_which_no_counts_follow_is_invalid(subtopologies: tuple[Subtopology, ...]) -> None:
    with pytest.raises(InvalidTopology):
        configured(StreamsTopology(0, subtopologies), Topics(input=2))
