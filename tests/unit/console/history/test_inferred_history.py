"""Rebalances inferred from the differences between two looks."""

from __future__ import annotations

from tests.unit.console.looks import consumer_look, look, member, partitions

from kohort.client.admin.group_descriptions import GroupDescription
from kohort.console.history.inferred_history import InferredHistory
from kohort.group.explain.explain_text import Names, cost, why
from kohort.group.explain.rebalance_report import Outcome, Rebalance
from kohort.model.ids import TopicPartition


def folded(*looks: GroupDescription | None) -> tuple[InferredHistory, list[Rebalance]]:
    """Fold looks a second apart, from 1 s on."""
    history = InferredHistory("billing", last=10)
    ended = [history.fold(1000 * (place + 1), each) for place, each in enumerate(looks)]
    return history, [each for each in ended if each is not None]


def cause(history: InferredHistory, rebalance: Rebalance) -> str:
    return why(rebalance, Names(history.report(0).identities))


def test_the_first_look_at_a_stable_group_is_no_rebalance() -> None:
    history, ended = folded(look("Stable", member("a-1", 0, 1)), look("Stable", member("a-1", 0, 1)))
    assert ended == []
    report = history.report(5000)
    assert (report.running, report.members, report.partitions) == (None, 1, 2)


def test_a_member_that_joined_between_two_looks_is_the_cause() -> None:
    history, [rebalance] = folded(
        look("Stable", member("a-1", 0, 1)), look("Stable", member("a-1", 0), member("b-1", 1))
    )
    assert cause(history, rebalance) == "b joined"
    assert rebalance.joined == ["b-1"]
    assert [(each.partition.partition, each.giver, each.taker) for each in rebalance.moves] == [(1, "a-1", "b-1")]
    assert rebalance.stayed() == 1


def test_of_a_member_that_is_missing_it_is_unknown_whether_it_left() -> None:
    history, [rebalance] = folded(
        look("Stable", member("a-1", 0), member("b-1", 1)), look("Stable", member("a-1", 0, 1))
    )
    assert cause(history, rebalance) == "b is gone: it left or was evicted"


def test_an_eager_round_leaves_every_partition_without_an_owner() -> None:
    """DescribeGroups shows no assignment while a round runs."""
    history, [rebalance] = folded(
        look("Stable", member("a-1", 0, 1)),
        look("PreparingRebalance", member("a-1"), member("b-1")),
        look("CompletingRebalance", member("a-1"), member("b-1")),
        look("Stable", member("a-1", 0), member("b-1", 1)),
    )
    assert (rebalance.started_ms, rebalance.ended_ms) == (2000, 4000)
    assert rebalance.unowned_partition_s == 4.0
    assert cost(rebalance, Names({})) == "2 of 2 partitions unowned for 2.0 s (4.0 partition-seconds)"
    assert cause(history, rebalance) == "b joined"


def test_a_cooperative_round_leaves_partitions_with_members_that_are_there() -> None:
    _, [rebalance] = folded(
        look("Stable", member("a-1", 0, 1), member("c-1", 2), protocol="cooperative-sticky"),
        look("PreparingRebalance", member("a-1"), member("b-1"), protocol="cooperative-sticky"),
        look("Stable", member("a-1", 0, 1), member("b-1", 2), protocol="cooperative-sticky"),
    )
    assert {gap.partition.partition: gap.duration_ms for gap in rebalance.gaps} == {2: 1000}


def test_a_running_rebalance_has_its_cost_so_far() -> None:
    history, ended = folded(look("Stable", member("a-1", 0, 1)), look("PreparingRebalance", member("a-1")))
    running = history.report(4500).running
    assert ended == []
    assert running is not None
    assert running.unowned_partition_s == 5.0


def test_a_static_member_under_a_new_id_is_no_departure() -> None:
    history, [rebalance] = folded(
        look("Stable", member("a-1", 0, instance="rack-7")), look("Stable", member("a-2", 0, instance="rack-7"))
    )
    assert cause(history, rebalance) == "rack-7 came back under a new member id"
    assert (rebalance.departures, rebalance.moves) == ([], [])


def test_another_subscription_is_the_cause() -> None:
    history, [rebalance] = folded(
        look("Stable", member("a-1", 0)), look("Stable", member("a-1", 0, 1, topics=("orders", "refunds")))
    )
    assert cause(history, rebalance) == "a joined again with another subscription (+refunds)"


def test_a_consumer_group_shows_which_members_it_waits_for() -> None:
    history, _ = folded(
        consumer_look("Stable", 1, member("a-1", 0, 1)),
        consumer_look("Reconciling", 2, member("a-1", 0, 1, phase="Reconciling"), member("b-1", phase="Stable")),
    )
    running = history.report(3000).running
    assert running is not None
    assert running.waits_for is not None
    assert running.waits_for.member_ids == ("a-1",)


def test_a_group_without_members_has_no_partition_that_lacks_an_owner() -> None:
    history, [rebalance] = folded(look("Stable", member("a-1", 0, 1)), look("Empty"), look("Empty"))
    assert rebalance.outcome is Outcome.EMPTY
    assert rebalance.unowned_partition_s == 0
    assert history.report(60_000).running is None


def test_a_group_that_is_deleted_and_comes_again_continues() -> None:
    history, ended = folded(look("Stable", member("a-1", 0)), None, look("Stable", member("b-1", 0)))
    assert [each.outcome for each in ended] == [Outcome.DELETED, Outcome.STABLE]
    assert history.report(9000).owners == {TopicPartition("orders", 0): "b-1"}


def test_a_first_look_within_a_round_is_partial() -> None:
    _, [rebalance] = folded(look("PreparingRebalance", member("a-1")), look("Stable", member("a-1", 0)))
    assert rebalance.is_partial
    assert rebalance.unowned_partition_s == 0, "nothing is known of before"


def test_flapping_members_are_forgotten() -> None:
    history = InferredHistory("billing", last=10)
    for number in range(3000):
        history.fold(1000 * number, look("Stable", member(f"a{number}-1", 0)))
    report = history.report(0)
    assert len(report.rebalances) == 10
    assert report.total == 2999
    assert len(report.identities) < 600


def test_what_no_member_is_assigned_any_more_is_not_unowned_for_ever() -> None:
    history, ended = folded(look("Stable", member("a-1", 0, 1)), look("Stable", member("a-1", 0)))
    assert len(ended) == 1
    assert history.report(99_000).running is None
    assert history.report(99_000).owners.keys() == partitions(0)


def test_a_later_epoch_is_a_rebalance_that_no_look_has_seen() -> None:
    """A member came and left between the looks: members and partitions are the same again."""
    history, [rebalance] = folded(
        consumer_look("Stable", 7, member("a-1", 0, 1)), consumer_look("Stable", 9, member("a-1", 0, 1))
    )
    assert (rebalance.from_generation, rebalance.to_generation, rebalance.outcome) == (7, 9, Outcome.STABLE)
    assert rebalance.moves == []
    assert history.report(5000).running is None
