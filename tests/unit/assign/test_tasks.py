"""The assignor `tasks`: what its members send, the two-step rule, and copies in assignments."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assign import GroupSpec, MemberSpec, TasksAssignor, TopicSpec
from kohort.assign.user_data import Copies, decode_assigned_copies, decode_copies, encode_copies
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def spec(*members: TasksAssignor, owned: dict[str, frozenset[TopicPartition]], **topics: int) -> GroupSpec:
    """Return a group of members a, b, … with what each assignor sends."""
    found = {}
    for name, assignor in zip("abcdef", members, strict=False):
        mine = owned.get(name, frozenset())
        subscription = Subscription(tuple(topics), assignor.user_data(tuple(topics), mine, 1), tuple(sorted(mine)), 1)
        found[name] = MemberSpec(subscription)
    return GroupSpec(found, {topic: TopicSpec(count) for topic, count in topics.items()})


def test_task_is_withheld_for_a_round_and_its_copy_is_announced() -> None:
    a, b = TasksAssignor(), TasksAssignor()
    behind = a.assign(spec(a, b, owned={"a": frozenset({T0, T1})}, t=2))
    assert behind["a"].partitions == {T0, T1}
    assert decode_assigned_copies(behind["b"].user_data).warmup == {T1}
    b.update_lags({T1: 0})
    first = a.assign(spec(a, b, owned={"a": frozenset({T0, T1})}, t=2))
    assert (first["a"].partitions, first["b"].partitions) == ({T0}, frozenset())
    second = a.assign(spec(a, b, owned={"a": frozenset({T0})}, t=2))
    assert (second["a"].partitions, second["b"].partitions) == ({T0}, {T1})


def test_members_of_an_eager_round_keep_what_they_ran() -> None:
    a, b = TasksAssignor(), TasksAssignor()
    a.on_assignment(Assignment(frozenset({T1})), 1)
    b.on_assignment(Assignment(frozenset({T0})), 1)
    given = a.assign(spec(a, b, owned={}, t=2))
    assert (given["a"].partitions, given["b"].partitions) == ({T1}, {T0})


def test_on_copies_is_called_with_each_assignment() -> None:
    calls: list[tuple[frozenset[TopicPartition], frozenset[TopicPartition]]] = []
    a, b = TasksAssignor(standby_replicas=1), TasksAssignor(on_copies=lambda *copies: calls.append(copies))
    given = a.assign(spec(a, b, owned={"a": frozenset({T0})}, t=1))
    b.on_assignment(given["b"], 1)
    assert calls == [(frozenset({T0}), frozenset())]
    assert b.standby == {T0}
    assert b.is_settled


def test_member_rejoins_after_the_probing_interval_only_while_a_move_waits() -> None:
    a, b = TasksAssignor(probing_rebalance_interval_ms=70_000), TasksAssignor()
    waiting = a.assign(spec(a, b, owned={"a": frozenset({T0, T1})}, t=2))["b"]
    assert b.probing_ms(waiting) == 70_000
    b.on_assignment(waiting, 1)
    assert not b.is_settled
    settled = a.assign(spec(a, owned={"a": frozenset({T0, T1})}, t=2))["a"]
    assert a.probing_ms(settled) is None


def test_topics_of_some_members_go_to_those_alone() -> None:
    a, b = TasksAssignor(), TasksAssignor()
    group = spec(a, b, owned={}, t=2, u=1)
    alone = replace(group.members["b"], subscription=replace(group.members["b"].subscription, topics=("t",)))
    given = a.assign(GroupSpec({**group.members, "b": alone}, group.topics))
    assert U0 in given["a"].partitions
    assert given["b"].partitions <= {T0, T1}


def test_stateless_topics_need_no_copy() -> None:
    a, b = TasksAssignor(stateless=["t"]), TasksAssignor()
    given = a.assign(spec(a, b, owned={"a": frozenset({T0, T1})}, t=2))
    assert given["a"].partitions == {T0}
    assert a.probing_ms(given["a"]) is None


@pytest.mark.parametrize("bad", [{"threads": 0}, {"probing_rebalance_interval_ms": 59_999}, {"max_warmup_replicas": 0}])
def test_settings_out_of_range_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        TasksAssignor(**bad)


def test_stateless_topics_are_a_list() -> None:
    with pytest.raises(TypeError, match="expected a list"):
        TasksAssignor(stateless="clicks")


def test_user_data_is_read_back() -> None:
    copies = Copies(4, frozenset({T0}), {T1: 12, U0: -3})
    assert decode_copies(encode_copies(copies)) == copies


@given(st.binary())
def test_bytes_of_others_are_no_copies_and_never_raise(data: bytes) -> None:
    assert decode_copies(data).threads >= 1
    decode_assigned_copies(data)
    for end in range(len(whole := encode_copies(Copies(4, frozenset({T0}), {T1: 12})))):
        assert decode_copies(whole[:end]) == Copies()
