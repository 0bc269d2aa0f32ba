"""Option `boundPartitions`: its values, what it goes with, and the assignor that gives each part to its member."""

from __future__ import annotations

import re

import pytest

from kohort.assign import GroupSpec, MemberSpec, RebalanceProtocol, TopicSpec
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.spark.options.member_options import BoundAssignor, BoundPartitions, MemberOptions
from kohort.spark.options.source_options import SourceOptions

STREAM = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks", "group.id": "g"}


def parsed(**options: str) -> MemberOptions:
    found = SourceOptions.parse(STREAM | options).member
    assert found is not None
    return found


def member(part: str | None, *topics: str, owned: tuple[tuple[str, int], ...] = (), instance: str = "") -> MemberSpec:
    data = None if part is None else part.encode()
    places = tuple(TopicPartition(*each) for each in owned)
    return MemberSpec(Subscription(topics or ("t",), data, places), instance or None)


def assigned(members: dict[str, MemberSpec], **topics: int) -> dict[str, list[str]]:
    spec = GroupSpec(members, {name: TopicSpec(count) for name, count in topics.items()})
    found = BoundAssignor(BoundPartitions()).assign(spec)
    return {name: sorted(map(str, each.partitions)) for name, each in found.items()}


@pytest.mark.parametrize(
    "text", ["0/2", "3/2", "-1/2", "1/0", "0/0", "1/-2", "x", "1", "1/2/3", "1/x", "1 / 2", "", "1234567/1234567"]
)
def test_a_part_that_is_none_is_refused_in_a_sentence_that_shows_it(text: str) -> None:
    with pytest.raises(ValueError, match=f"boundPartitions={text!r}: expected all, or the part of this query"):
        parsed(boundPartitions=text)


@pytest.mark.parametrize(
    ("text", "shown", "instance"),
    [
        ("all", "all", "g-1-of-1-"),
        ("ALL", "all", "g-1-of-1-"),
        ("1/1", "all", "g-1-of-1-"),
        (" 2/2 ", "2/2", "g-2-of-2-"),
    ],
)
def test_a_part_has_one_text_and_one_instance_id(text: str, shown: str, instance: str) -> None:
    found = parsed(boundPartitions=text)
    assert (str(found.bound), str(found.instance_id)[:-8], found.protocol) == (shown, instance, "cooperative")
    assert BoundPartitions.parse(shown) == found.bound


def test_the_instance_id_is_one_that_kafka_takes_and_has_the_part() -> None:
    found = parsed(boundPartitions="7/12", **{"group.id": "Zähler: a b" + "g" * 300}).instance_id
    assert found is not None
    assert re.fullmatch(r"Z_hler__a_bg+-7-of-12-[0-9a-f]{8}", found)
    assert len(found) <= 249


def test_the_sources_of_one_query_have_instance_ids_of_their_own_the_same_after_each_restart() -> None:
    names = ("clicks", "views", "clicks,views", "views, clicks")
    ids = [parsed(boundPartitions="1/2", subscribe=topics).instance_id for topics in names]
    assert len(set(ids)) == 3
    assert ids[2] == ids[3]


def test_the_instance_id_and_the_eager_protocol_of_the_user_are_taken() -> None:
    found = parsed(boundPartitions="1/2", protocol="eager", **{"instance.id": "mine"})
    (assignor,) = found.assignors(2)
    assert (found.instance_id, assignor.protocols) == ("mine", (RebalanceProtocol.EAGER,))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("protocol", "consumer", "the broker would assign"),
        ("assignor", "range", "a partition belongs to its checkpoint"),
        ("onOffsetMismatch", "group", "do not decide where reading continues"),
        ("onNewCheckpoint", "Group", "do not decide where reading continues"),
        ("allowSharedState", "true", "the state would be shared"),
    ],
)
def test_what_contradicts_bound_partitions_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is '{value}': it does not go with boundPartitions, as .*{reason}"):
        parsed(boundPartitions="1/2", **{name: value})


def test_parts_are_disjoint_and_whole_and_alike_in_every_topic() -> None:
    there = {TopicPartition(topic, number) for topic in "ab" for number in range(7)}
    parts = [BoundPartitions(number, 3).of(there) for number in (1, 2, 3)]
    assert sum(map(len, parts)) == len(there)
    assert frozenset().union(*parts) == there
    assert sorted(each.partition for each in parts[1] if each.topic == "a") == [1, 4]


def test_partitions_of_an_absent_part_are_assigned_to_no_member() -> None:
    assert assigned({"m": member("1/2")}, t=3) == {"m": ["t-0", "t-2"]}


def test_a_part_without_partitions_is_a_member_without_partitions() -> None:
    assert assigned({"a": member("1/3"), "b": member("3/3")}, t=2) == {"a": ["t-0"], "b": []}


def test_a_member_gets_partitions_of_its_own_topics_that_exist() -> None:
    members = {"a": member("all", "t", "missing", "t"), "b": member("all", "u")}
    assert assigned(members, t=1, u=2) == {"a": ["t-0"], "b": ["u-0", "u-1"]}


def test_of_two_members_of_one_part_the_owner_stays_and_else_the_first_of_the_order() -> None:
    both = {"a": member("1/2", instance="x"), "b": member("1/2", owned=(("t", 0),), instance="y")}
    assert assigned(both, t=3) == {"a": ["t-2"], "b": ["t-0"]}


@pytest.mark.parametrize("data", [None, "", "3/2", "1/2x", "weight"])
def test_a_program_that_writes_no_part_under_the_name_gets_nothing(data: str | None) -> None:
    found = assigned({"a": member(data), "b": member("2/2")}, t=2)
    assert found == {"a": [], "b": ["t-1"]}


def test_bytes_that_are_no_text_get_nothing() -> None:
    stranger = MemberSpec(Subscription(("t",), b"\xff\x00"))
    assert assigned({"a": stranger}, t=1) == {"a": []}
