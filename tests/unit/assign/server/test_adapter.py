"""Assignors of the client, and plain functions, run by a coordinator; and what it refuses of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from tests.unit.assign.server_groups import group, member, text, texts, topic_id
from tests.unit.assign.test_custom import to_the_first

from kohort.assign import (
    Assignor,
    CapacityAssignor,
    CooperativeStickyAssignor,
    GroupSpec,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    assignor,
)
from kohort.assign.cooperative import two_step
from kohort.assign.quality import measure_target
from kohort.assign.server.adapter import TargetRefused
from kohort.assign.server.catalog import UnknownAssignor, as_server_assignor, server_assignors
from kohort.assign.server.spec import ServerAssignor, ServerGroup
from kohort.assign.user_data import encode_weight
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition


@pytest.mark.parametrize(
    "client_side",
    [RangeAssignor(), RoundRobinAssignor(), CooperativeStickyAssignor(), CapacityAssignor()],
    ids=lambda each: each.name,
)
def test_every_assignor_of_the_client_can_be_a_coordinators(client_side: Assignor) -> None:
    given = group({"a": member("t u", "t-0 t-1 t-2"), "b": member("t"), "c": member("u")}, t=3, u=3)
    server_side = as_server_assignor(client_side)
    quality = measure_target(given, server_side.assign(given))
    assert server_side.name == client_side.name
    assert (quality.faults, quality.unassigned) == ((), frozenset())


def test_nothing_is_withheld_from_a_target() -> None:
    given = group({"a": member("t", "t-0 t-1"), "b": member("t")}, t=2)
    for client_side in (CooperativeStickyAssignor(), assignor(to_the_last, name="l", cooperative=True, withhold=True)):
        target = as_server_assignor(client_side).assign(given)
        assert "t-1" in text(target["b"])


def to_the_last(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    return {max(spec.members): to_the_first(spec)[min(spec.members)]}


class Withholding:
    """A user's cooperative assignor without an attribute for its protocol."""

    name = "withholding"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        intended = {name: Assignment(frozenset(given)) for name, given in to_the_last(spec).items()}
        return two_step(spec, {name: intended.get(name, Assignment()) for name in spec.members})

    def user_data(self, _topics: Iterable[str], _owned: Partitions, _generation: int) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        pass


def test_what_a_strangers_assignor_withholds_comes_with_its_second_round() -> None:
    given = group({"a": member("t", "t-0 t-1"), "b": member("t")}, t=2)
    assert texts(as_server_assignor(Withholding).assign(given)) == {"a": "", "b": "t-0 t-1"}


def test_a_function_receives_all_fields_of_the_members() -> None:
    seen = []

    def curious(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
        seen.append(spec)
        return {}

    given = group(
        {
            "a": member(
                "u t", "t-1 gone-0", instance="i", rack="r1", lags="t-0:7 gone-1:3", reason="standby_caught_up"
            ),
            "b": member("t", metadata={"curious": (-1, b"from-b"), "range": (-1, b"")}),
        },
        t="r1 r2",
        u=1,
    )
    assert texts(as_server_assignor(curious).assign(given)) == {"a": "", "b": ""}
    (spec,) = seen
    native, classic = spec.members["a"], spec.members["b"]
    assert native.subscription.topics == ("t", "u")
    assert (native.subscription.owned, native.subscription.generation) == ((TopicPartition("t", 1),), 1)
    assert (native.instance_id, native.subscription.rack, native.subscription.user_data) == ("i", "r1", None)
    assert (native.lags, native.reason) == ({TopicPartition("t", 0): 7}, "standby_caught_up")
    assert (classic.subscription.user_data, classic.subscription.generation) == (b"from-b", -1)
    assert classic.metadata == {"curious": (-1, b"from-b"), "range": (-1, b"")}
    assert {name: (topic.partitions, topic.racks) for name, topic in spec.topics.items()} == {
        "t": (2, (frozenset({"r1"}), frozenset({"r2"}))),
        "u": (1, ()),
    }


def test_weights_of_classic_members_count() -> None:
    heavy = member("t", metadata={"capacity": (-1, encode_weight(3))})
    target = as_server_assignor(CapacityAssignor()).assign(group({"a": heavy, "b": member("t")}, t=4))
    assert {name: len(each.split()) for name, each in texts(target).items()} == {"a": 3, "b": 1}


# What is refused


def returning(found: object, *, is_plain: bool) -> ServerAssignor:
    def wrong(_: GroupSpec) -> Mapping[str, Iterable[TopicPartition] | Assignment]:
        return found  # type: ignore[return-value]

    return as_server_assignor(wrong if is_plain else assignor(wrong, name="wrong"))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"c": [TopicPartition("t", 0)]}, "the assignor wrong gave partitions to c: no such member"),
        ({"a": [("x", 0)]}, "the assignor wrong gave x-0 to a: no such topic in the group"),
        ({"a": [("t", 2)]}, "the assignor wrong gave t-2 to a: t has 2 partitions, from 0"),
        ({"a": [("t", -1)]}, "the assignor wrong gave t--1 to a: t has 2 partitions, from 0"),
        ({"b": [("u", 0)]}, "the assignor wrong gave u-0 to b, which did not subscribe to u"),
        ({"a": [("t", 0)], "b": [("t", 0)]}, "the assignor wrong gave t-0 to both a and b"),
        ({"a": [1]}, "the assignor wrong gave a what are no partitions"),
        ({"a": [("t", "0")]}, "the assignor wrong gave a what are no partitions"),
        ([("a", [])], "the assignor wrong returned list, not the partitions of each member"),
        (None, "the assignor wrong returned NoneType, not the partitions of each member"),
    ],
)
@pytest.mark.parametrize("is_plain", [True, False], ids=["function", "assignor"])
def test_a_wrong_target_is_refused_with_what_is_wrong(found: object, message: str, is_plain: bool) -> None:
    with pytest.raises(TargetRefused, match=message):
        returning(found, is_plain=is_plain).assign(group({"a": member("t u"), "b": member("t")}, t=2, u=2))


class ById:
    """A user's own server-side assignor."""

    name = "by-id"

    def __init__(self, found: object = ()) -> None:
        self.found = found

    def assign(self, _: ServerGroup) -> Mapping[str, tuple[tuple[bytes, tuple[int, ...]], ...]]:
        return {"a": self.found}  # type: ignore[dict-item]


def test_a_server_side_assignor_is_checked_too_and_its_target_put_in_order() -> None:
    given = group({"a": member("t u"), "b": member("t")}, t=2, u=2)
    loose = [(topic_id("u"), [1, 0]), (topic_id("t"), [1])]
    assert texts(as_server_assignor(ById(loose)).assign(given)) == {"a": "t-1 u-0 u-1", "b": ""}
    for wrong, message in (
        ([(b"?" * 16, [0])], "gave a partitions of the topic with id .*: no such topic in the group"),
        ([(topic_id("t"), [5])], "gave t-5 to a: t has 2 partitions"),
        ([(topic_id("t"), ["x"])], "gave a what are no partitions by topic id"),
        ([topic_id("t")], "gave a what are no partitions by topic id"),
    ):
        with pytest.raises(TargetRefused, match=message):
            as_server_assignor(ById(wrong)).assign(given)


def test_the_same_assignor_may_be_given_twice() -> None:
    once = as_server_assignor(to_the_first)
    assert as_server_assignor(once) is once


@pytest.mark.parametrize("found", [3, "uniform", None, object()])
def test_an_object_that_is_no_assignor_is_refused(found: object) -> None:
    with pytest.raises(TypeError, match="neither an assignor"):
        as_server_assignor(found)


def test_names_that_are_not_built_in_are_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownAssignor, match="no server-side assignor 'even'; there are range, standby, uniform"):
        server_assignors(["uniform", "even"])


def test_kafkas_class_names_are_known() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    found = server_assignors([f"{package}.RangeAssignor", "uniform", f"{package}.UniformAssignor"])
    assert list(found) == ["range", "uniform"]
