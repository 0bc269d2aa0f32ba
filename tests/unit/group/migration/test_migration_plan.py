"""Plans of rolling migrations: what stands against one, which restarts it takes, and what they move and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kohort.assign.server.catalog import server_assignors
from kohort.group.migration.migration_plan import (
    Cost,
    Goal,
    Limits,
    LiveGroup,
    LiveMember,
    MemberKind,
    MigrationPlan,
    Restart,
    make_plan,
)
from kohort.model.ids import TopicPartition

UNIFORM = server_assignors(["uniform"])["uniform"]
LIMITS = Limits(True, UNIFORM, "bidirectional", 3, 100, 100)
TOPICS = {"t": (b"t" * 16, 6)}


def owned(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


def member(name: str, *numbers: int, is_native: bool = False, **fields: object) -> LiveMember:
    made = LiveMember(name, name, is_native, frozenset({"t"}), owned(*numbers), version=None if is_native else 3)
    return replace(made, **fields)  # type: ignore[arg-type]


def classic(*members: LiveMember, assignor: str = "range", state: str = "Stable") -> LiveGroup:
    return LiveGroup("g", "classic", state, "consumer", assignor, members, TOPICS)


def consumer(*members: LiveMember) -> LiveGroup:
    return LiveGroup("g", "consumer", "Stable", "consumer", "uniform", members, TOPICS)


def plan(group: LiveGroup, goal: Goal, limits: Limits = LIMITS, **options: str) -> MigrationPlan:
    return make_plan(group, limits, goal, options.get("assignor"), costs=one_move_each, assumed=["one move each"])


def one_move_each(group: LiveGroup, restarts: Sequence[Restart]) -> list[Cost]:
    """Say that each restart moves one partition."""
    del group
    return [Cost(1, 0.5, 2.0) for _ in restarts]


THREE = (member("a", 0, 1), member("b", 2, 3), member("c", 4, 5))
NATIVES = tuple(replace(each, is_native=True, version=None) for each in THREE)


# -- the ways


def test_to_consumer_each_classic_member_is_restarted_once_and_the_first_converts() -> None:
    found = plan(classic(*THREE), Goal.CONSUMER)
    assert found.is_safe
    assert [(each.member_id, each.settings, each.effect) for each in found.restarts] == [
        ("a", "group.protocol=consumer", "converts the group"),
        ("b", "group.protocol=consumer", ""),
        ("c", "group.protocol=consumer", ""),
    ]


def test_mixed_group_needs_only_its_classic_members_restarted_and_nothing_converts() -> None:
    found = plan(consumer(member("a", 0, 1, is_native=True), member("b", 2, 3), member("c", 4, 5)), Goal.CONSUMER)
    assert [(each.member_id, each.effect) for each in found.restarts] == [("b", ""), ("c", "")]


def test_back_to_classic_the_last_native_member_converts_the_group() -> None:
    found = plan(consumer(*NATIVES), Goal.CLASSIC)
    assert [each.effect for each in found.restarts] == ["", "", "its leaving converts the group back"]
    assert found.restarts[0].settings == "group.protocol=classic partition.assignment.strategy=range"


def test_to_cooperative_every_member_is_restarted_twice_and_offers_both_assignors_in_between() -> None:
    found = plan(classic(*THREE), Goal.COOPERATIVE)
    assert [(each.round, each.member_id) for each in found.restarts] == [
        (1, "a"),
        (1, "b"),
        (1, "c"),
        (2, "a"),
        (2, "b"),
        (2, "c"),
    ]
    assert found.restarts[0].settings == "partition.assignment.strategy=cooperative-sticky,range"
    assert found.restarts[3].settings == "partition.assignment.strategy=cooperative-sticky"


def test_members_that_offer_both_already_are_restarted_once() -> None:
    both = tuple(replace(each, offers=("range", "cooperative-sticky")) for each in THREE)
    assert [each.member_id for each in plan(classic(*both), Goal.COOPERATIVE).restarts] == ["a", "b", "c"]


def test_consumer_group_goes_to_cooperative_with_its_native_members() -> None:
    found = plan(consumer(NATIVES[0], *THREE[1:]), Goal.COOPERATIVE)
    assert [(each.member_id, each.settings) for each in found.restarts] == [
        ("a", "group.protocol=classic partition.assignment.strategy=cooperative-sticky")
    ]


@pytest.mark.parametrize(
    ("group", "goal", "remark"),
    [
        (classic(), Goal.CONSUMER, "it has no members: start them with the new settings, in any order"),
        (consumer(*NATIVES), Goal.CONSUMER, "every member speaks the consumer protocol already"),
        (classic(*THREE), Goal.CLASSIC, "every member speaks the classic protocol already"),
        (
            classic(*THREE, assignor="cooperative-sticky"),
            Goal.COOPERATIVE,
            "it is cooperative already, with cooperative-sticky",
        ),
    ],
)
def test_group_that_is_there_already_has_nothing_to_do(group: LiveGroup, goal: Goal, remark: str) -> None:
    found = plan(group, goal)
    assert (found.is_safe, found.restarts, found.remark) == (True, (), remark)


# -- the rules


REFUSED: Mapping[str, tuple[LiveGroup, Goal, Limits, tuple[str, ...], str]] = {
    "embedded_version": (
        classic(member("a", 0, version=1), member("b", 1), member("c", 2, version=0)), Goal.CONSUMER, LIMITS,
        ("a", "c"), "their metadata has version 0, 1, a conversion takes 3 or newer",
    ),
    "assignor_data": (
        classic(member("a", 0, has_assignor_data=True), member("b", 1)), Goal.CONSUMER, LIMITS,
        ("a",), "assignor range sent user data along with their assignments, which would be lost; if it is only what"
        " the members sent themselves (librdkafka's leaders send that back), set"
        " kohort.group.migration.ignore.echoed.data=true",
    ),
    "unreadable": (
        classic(member("a", is_readable=False)), Goal.CONSUMER, LIMITS, ("a",), "their metadata cannot be read",
    ),
    "policy": (
        classic(*THREE), Goal.CONSUMER, replace(LIMITS, policy="downgrade"), (),
        "group.consumer.migration.policy is downgrade: it may not become a consumer group",
    ),
    "policy ": (
        consumer(*NATIVES), Goal.CLASSIC, replace(LIMITS, policy="upgrade"), (),
        "group.consumer.migration.policy is upgrade: it may not become a classic group",
    ),
    "size": (
        classic(*THREE), Goal.CONSUMER, replace(LIMITS, max_consumer_size=2), (),
        "it has 3 members; group.consumer.max.size is 2",
    ),
    "size ": (
        consumer(*NATIVES), Goal.CLASSIC, replace(LIMITS, max_classic_size=2), (),
        "it has 3 members; group.max.size is 2",
    ),
    "protocol_not_offered": (
        classic(*THREE), Goal.CONSUMER, replace(LIMITS, has_consumer_protocol=False), (),
        "its coordinator does not offer the consumer protocol",
    ),
    "group_state": (
        classic(*THREE, state="PreparingRebalance"), Goal.CONSUMER, LIMITS, (),
        "it is PreparingRebalance: who owns what can be read once it is Stable; ask again",
    ),
    "group_type": (
        LiveGroup("g", "classic", "Stable", "connect", "x", THREE, TOPICS), Goal.CONSUMER, LIMITS, (),
        "it is a group of type connect, not one of consumers",
    ),
    "owned_partitions": (
        classic(member("a", 0, version=0), member("b", 1)), Goal.COOPERATIVE, LIMITS, ("a",),
        "their metadata has version 0, which cannot say what a member owns: in a cooperative group that is revoked",
    ),
    "common_assignor": (
        classic(member("a", 0, offers=("roundrobin",)), member("b", 1)), Goal.COOPERATIVE, LIMITS, ("a",),
        "they do not offer range, which must be offered by all until every member offers cooperative-sticky",
    ),
    "common_assignor ": (
        consumer(NATIVES[0], member("b", 1, offers=("roundrobin",))), Goal.CLASSIC, LIMITS, ("b",),
        "they do not offer range: classic members must have an assignor in common",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_unsafe_way_is_refused_by_the_rule_it_breaks_and_names_who_breaks_it(rule: str) -> None:
    group, goal, limits, members, text = REFUSED[rule]
    found = plan(group, goal, limits)
    assert [(each.rule, each.member_ids, each.text) for each in found.refusals] == [(rule.strip(), members, text)]
    assert (found.is_safe, found.restarts) == (False, ())


def test_every_rule_that_is_broken_is_named_at_once() -> None:
    group = classic(member("a", 0, version=1), member("b", 1, has_assignor_data=True))
    found = plan(group, Goal.CONSUMER, replace(LIMITS, policy="disabled"))
    assert [each.rule for each in found.refusals] == ["policy", "embedded_version", "assignor_data"]
    blocked = found.blocked("b")
    assert blocked is not None
    assert blocked.rule == "assignor_data"


def test_plan_notes_that_kafka_accepts_any_version_of_metadata() -> None:
    limits = replace(LIMITS, policy=None, min_embedded_version=None)
    found = plan(classic(member("a", 0, version=0), member("b", 1)), Goal.CONSUMER, limits)
    assert found.is_safe
    assert (
        "this coordinator does not ask for a version of embedded metadata (Apache Kafka takes any)" in found.assumptions
    )
    assert any("could not be read: it is taken for bidirectional" in each for each in found.assumptions)


# -- what is expected


def test_each_restart_has_its_cost_and_the_plan_lists_the_assumptions() -> None:
    found = plan(classic(*THREE), Goal.CONSUMER)
    assert found.costs == (Cost(1, 0.5, 2.0),) * 3
    assert found.assumptions[-1] == "one move each"


def test_restart_has_the_kind_and_the_offers_of_its_member() -> None:
    first, *_, last = plan(classic(*THREE), Goal.COOPERATIVE).restarts
    assert (first.kind, first.offers) == (MemberKind.EAGER, ("cooperative-sticky", "range"))
    assert (last.kind, last.offers) == (MemberKind.COOPERATIVE, ("cooperative-sticky",))
    assert {(each.kind, each.offers) for each in plan(classic(*THREE), Goal.CONSUMER).restarts} == {
        (MemberKind.CONSUMER, ())
    }
    assert {each.kind for each in plan(consumer(*NATIVES), Goal.CLASSIC).restarts} == {MemberKind.EAGER}


@pytest.mark.parametrize(
    ("group", "goal", "options", "assignor"),
    [
        (classic(*THREE, assignor="ours"), Goal.CONSUMER, {}, "ours"),
        (consumer(*NATIVES), Goal.CLASSIC, {"assignor": "ours"}, "ours"),
    ],
)
def test_nothing_is_predicted_for_an_assignor_that_is_not_known(
    group: LiveGroup, goal: Goal, options: dict[str, str], assignor: str
) -> None:
    found = plan(group, goal, **options)
    assert found.is_safe
    assert (len(found.restarts), found.costs) == (3, ())
    assert (
        f"assignor {assignor} is not one that kohort knows: what its rounds move is not predicted" in found.assumptions
    )


def test_plan_is_the_same_however_its_members_are_listed() -> None:
    assert plan(classic(*THREE), Goal.CONSUMER).restarts == plan(classic(*reversed(THREE)), Goal.CONSUMER).restarts
