"""Positions of a TransactionalTopic: commits whose metadata names the topic and group, or the query, of each."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.ids import TopicPartition
from kohort.spark.membership.stream_offset import CommitMark
from kohort.spark.tables.table import BATCHES, OtherTopic, Position
from kohort.spark.topics.round_transactions import CommittedPositions, Offsets, Origin

FLIGHTS = TopicPartition("flights", 2)
BATCH = TopicPartition(f"{BATCHES}query", 0)
ID = "x2Bb5r9XTf6Y0kqXG1oQzQ"


def positions_with(commits: Offsets, **origins: Origin) -> CommittedPositions:
    def committed(partitions: Collection[TopicPartition]) -> Offsets:
        return {each: commits[each] for each in partitions if each in commits}

    by_topic = {BATCH.topic if name == "batches" else name: each for name, each in origins.items()}
    return CommittedPositions("alerts", "written", committed, lambda *_: None, by_topic)


@pytest.mark.parametrize("group", ["g", "two words", "a=b group=c", "line\nbreak", "ü€", ""])
def test_an_origin_is_in_the_metadata_which_is_no_mark_of_a_member(group: str) -> None:
    for origin in (Origin(ID, group), Origin("", group), Origin("1f0c-9")):
        assert Origin.parse(origin.text) == origin
        assert CommitMark.parse(origin.text) is None


@pytest.mark.parametrize("metadata", ["", "by hand", "kohort.spark", "kohort.spark query=a batch=3"])
def test_a_commit_without_an_origin_counts(metadata: str) -> None:
    found = positions_with({FLIGHTS: OffsetAndMetadata(7, metadata)}, flights=Origin(ID, "g"))
    assert found.offsets("g", [FLIGHTS]) == {FLIGHTS: Position(7)}


def test_batches_are_counted_in_partition_0_of_the_target() -> None:
    here = Origin("query-1")
    found = positions_with({TopicPartition("alerts", 0): OffsetAndMetadata(3, here.text)}, batches=here)
    assert found.offsets("written", [BATCH]) == {BATCH: Position(3, "query-1")}


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (Origin(ID, "g"), Origin("another", "g")),
        (Origin(ID, "g"), Origin(ID, "g2")),
        (Origin("query-1"), Origin(ID, "g")),
    ],
)
def test_offsets_of_another_topic_group_or_query_end_in_a_sentence(there: Origin, here: Origin) -> None:
    found = positions_with({FLIGHTS: OffsetAndMetadata(7, there.text)}, flights=here)
    with pytest.raises(OtherTopic, match=r"has the position 7 of flights-2 from .*Give it another group, or reset the"):
        found.offsets("g", [FLIGHTS])


def test_ids_are_not_compared_where_the_cluster_has_none() -> None:
    found = positions_with({FLIGHTS: OffsetAndMetadata(7, Origin("", "g").text)}, flights=Origin(ID, "g"))
    assert found.offsets("g", [FLIGHTS]) == {FLIGHTS: Position(7)}
