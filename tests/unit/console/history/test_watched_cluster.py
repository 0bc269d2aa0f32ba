"""All groups of a cluster: found, sorted, bounded."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.console.looks import listed, look, member

from kohort.console.history.lag_samples import SAMPLES, LagSample, LagSamples
from kohort.console.history.watched_cluster import FEED, MISSING_MS, ROWS, UNLISTED, GroupQuery, WatchedCluster
from kohort.gateway.server.order_topic import Order, OrderKind
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag

ZERO = TopicPartition("orders", 0)


def cluster(*group_ids: str) -> WatchedCluster:
    watched = WatchedCluster()
    watched.fold_listing([listed(group_id) for group_id in group_ids])
    return watched


def event(group_id: str, at_ms: int = 1000, **fields: object) -> dict[str, object]:
    cause = {"kind": "member_joined", "member": "a-1"}
    return {
        "group": group_id,
        "event": "member_joined",
        "member": "a-1",
        "client": "a",
        "at_ms": at_ms,
        "cause": cause,
        **fields,
    }


def test_only_groups_that_are_new_or_changed_are_to_be_described() -> None:
    watched = cluster("a", "b")
    assert watched.fold_listing([listed("a"), listed("b", "Empty"), listed("c")]) == ["b", "c"]
    assert watched.fold_listing([listed("a"), listed("b", "Empty"), listed("c")]) == []


def test_a_group_whose_coordinator_moves_keeps_its_history_and_a_deleted_one_is_gone() -> None:
    watched = cluster("moving", "deleted", "lost")
    group = watched.groups["moving"]
    assert watched.fold_listing([], 1000) == ["moving", "deleted", "lost"]
    watched.fold_description(1000, "deleted", None)
    assert watched.fold_listing([listed("moving")], 1000 + MISSING_MS - 1) == ["moving", "lost"]
    assert watched.groups["moving"] is group
    assert group.missing_ms is None
    watched.fold_listing([listed("moving")], 1000 + MISSING_MS)
    assert list(watched.groups) == ["moving"]


def test_the_most_unwell_groups_come_first() -> None:
    watched = cluster("calm", "lagging", "moving")
    for group_id in watched.groups:
        watched.fold_description(1000, group_id, look("Stable", member("a-1", 0), group_id=group_id))
    watched.fold_offsets(1000, "lagging", {ZERO: 5}, {ZERO: 30})
    watched.fold_description(2000, "moving", look("PreparingRebalance", member("a-1"), group_id="moving"))
    rows = watched.page(GroupQuery(), 4000).rows
    assert [row.group_id for row in rows] == ["moving", "lagging", "calm"]
    assert rows[0].running.startswith("rebalancing for 2.0 s")
    assert rows[0].unowned_s == 2.0
    assert rows[1].lag == 25


def test_words_and_filters_select_groups() -> None:
    watched = cluster(*(f"team-{number}" for number in range(120)))
    page = watched.page(GroupQuery("TEAM 11", order="name"), 0)
    assert [row.group_id for row in page.rows][:2] == ["team-11", "team-110"]
    assert (page.found, page.total) == (11, 120)
    assert watched.page(GroupQuery(state="rebalancing"), 0).rows == []


def test_a_page_beyond_the_end_is_the_last_one() -> None:
    watched = cluster(*(f"g{number:03}" for number in range(120)))
    assert len(watched.page(GroupQuery(order="name", page=99), 0).rows) == 120 - 2 * ROWS
    assert watched.page(GroupQuery(order="no such order", state="no such state", page=1), 0).found == 120


def test_events_of_a_group_that_is_not_listed_yet_are_folded_when_it_is() -> None:
    watched = cluster()
    assert watched.fold_event(event("new")) is None
    watched.fold_listing([listed("new")])
    assert not watched.groups["new"].is_inferred
    assert watched.groups["new"].summary(1000).cause == "a joined"


def test_an_event_of_another_program_changes_nothing_when_its_group_is_listed() -> None:
    watched = cluster()
    watched.fold_event(event("new", event="round_opened", generation="x"))
    watched.fold_event(event("new", event="assignment_stored", synced=["a-1"]))
    watched.fold_event(event("new", 2000))
    watched.fold_listing([listed("new")])
    assert watched.groups["new"].summary(2000).cause == "a joined"


def test_events_of_groups_that_are_never_listed_do_not_grow() -> None:
    watched = cluster()
    for number in range(UNLISTED + 100):
        watched.fold_event(event(f"gone-{number}"))
    assert len(watched._unlisted) == UNLISTED


def test_the_feed_is_bounded_and_has_the_last_ones() -> None:
    watched = cluster("a")
    for number in range(FEED + 50):
        watched.fold_description(1000 * number, "a", look("Stable", member(f"m{number}-1", 0), group_id="a"))
    assert len(watched.feed) == FEED
    assert f"m{FEED + 49} joined" in watched.feed[-1].text


def test_a_cluster_that_does_not_answer_is_a_problem_since_the_first_failure() -> None:
    watched = cluster("a")
    watched.fail(1000, "no broker answers")
    watched.fail(9000, "no broker answers")
    assert watched.problem is not None
    assert watched.problem.since_ms == 1000
    watched.succeed([])
    assert watched.problem is None
    assert list(watched.groups) == ["a"]


def test_a_lag_without_committed_offsets_or_ends_is_unknown() -> None:
    watched = cluster("a")
    assert watched.groups["a"].lag is None
    watched.fold_offsets(1000, "a", {ZERO: 5}, {})
    assert watched.groups["a"].lag is None
    watched.fold_offsets(2000, "a", {ZERO: 50}, {ZERO: 10})
    assert watched.groups["a"].lag == 0, "a log that was cut is no negative lag"


def test_a_lag_is_no_zero_where_an_assigned_partition_has_no_committed_offset() -> None:
    watched = cluster("a")
    watched.fold_description(1000, "a", look("Stable", member("a-1", 0, 1, 2), group_id="a"))
    one, two = TopicPartition("orders", 1), TopicPartition("orders", 2)
    watched.fold_offsets(1000, "a", {ZERO: 30}, {ZERO: 30, one: 7, two: 0})
    row = watched.groups["a"].summary(1000)
    assert (row.lag, row.is_least) == (None, True)
    assert [line.lag for line in watched.groups["a"].partitions(9000)] == [0, None, 0], "an empty log has no lag"
    watched.fold_offsets(2000, "a", {ZERO: 5}, {ZERO: 30, one: 7, two: 0})
    row = watched.groups["a"].summary(2000)
    assert (row.lag, row.is_least) == (25, True)
    watched.fold_offsets(3000, "a", {ZERO: 5, one: 7}, {ZERO: 30, one: 7, two: 0})
    row = watched.groups["a"].summary(3000)
    assert (row.lag, row.is_least) == (25, False)


def test_commit_rates_are_those_between_the_last_two_looks() -> None:
    watched = cluster("a")
    watched.fold_offsets(1000, "a", {ZERO: 5}, {ZERO: 30})
    watched.fold_offsets(3000, "a", {ZERO: 25}, {ZERO: 30})
    [line] = watched.groups["a"].partitions(9000)
    assert (line.rate, line.lag) == (10.0, 5)
    assert watched.groups["a"].samples.commit_rate() == 10.0


def test_what_is_the_same_at_the_next_look_is_no_change_and_gets_older() -> None:
    watched = cluster("a")
    group, age = watched.groups["a"], {ZERO: Lag(25, 4.0, None)}
    watched.fold_offsets(1000, "a", {ZERO: 5}, {ZERO: 30})
    watched.fold_lags(1000, "a", age)
    watched.fold_offsets(2000, "a", {ZERO: 5}, {ZERO: 30})  # its rate is known now
    version = watched.version
    watched.fold_offsets(3000, "a", {ZERO: 5}, {ZERO: 30})
    watched.fold_lags(1000, "a", dict(age))
    assert watched.version == version
    assert group.has_lags(1000)
    assert not group.has_lags(1001), "they were read before"
    assert (group.summary(3000).age_s, group.partitions(4000)[0].age_s) == (6.0, 7.0)
    watched.fold_offsets(4000, "a", {ZERO: 6}, {ZERO: 30})
    assert not group.has_lags(1000), "another record is the oldest"
    assert group.summary(4000).age_s == 4.0


def test_samples_are_a_ring() -> None:
    samples = LagSamples()
    for number in range(2 * SAMPLES + 3):
        samples.add(LagSample(number, number, number))
    assert [each.at_ms for each in samples] == list(range(SAMPLES + 3, 2 * SAMPLES + 3))


def test_drained_members_are_those_that_orders_name() -> None:
    watched = cluster("a")
    watched.fold_description(
        1000, "a", look("Stable", member("x-1", 0, instance="rack-7"), member("y-1"), group_id="a")
    )
    watched.orders.fold(Order(OrderKind.DRAINED, "a", "rack-7"))
    assert watched.drained("a") == {"x-1"}
    watched.orders.fold(Order(OrderKind.DRAINED, "a", "rack-7", is_over=True))
    assert watched.drained("a") == set()
    assert watched.drained("no such group") == set()


def test_a_share_group_has_members_that_come_and_go_and_no_owners() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("queue", group_type="share")])
    group = watched.groups["queue"]
    for at_ms, members in ((1000, [member("a-1", 0, 1)]), (2000, [member("a-1", 0, 1), member("b-1", 0, 1)])):
        watched.fold_description(
            at_ms, "queue", replace(look("Stable", *members, group_id="queue"), group_type="share")
        )
    assert group.summary(3000).cause == "b joined"
    assert [(line.partition.partition, line.owner) for line in group.partitions(9000)] == [(0, None), (1, None)]
    assert group.report(3000).rebalances[0].moves == []
    assert [row.group_id for row in watched.page(GroupQuery(state="share"), 3000).rows] == ["queue"]


def test_a_streams_group_without_its_topics_does_not_rebalance_for_ever() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("app", "NotReady", "streams")])
    watched.fold_description(
        1000, "app", replace(look("NotReady", member("a-1"), group_id="app"), group_type="streams")
    )
    assert watched.groups["app"].is_settled
    assert watched.groups["app"].summary(9000).running == ""


def test_a_type_of_a_later_kafka_is_listed_and_its_members_are_unknown() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("later", group_type="quantum")])
    assert watched.groups["later"].summary(1000).state == "Stable"
    assert not watched.groups["later"].is_describable


def test_a_coordinator_whose_clock_is_ahead_gives_no_negative_time() -> None:
    watched = cluster("a")
    ahead_ms = 3_600_000
    watched.fold_event(event("a", ahead_ms))
    watched.fold_event(
        event("a", ahead_ms, event="round_opened", members=["a-1"], generation=1, state="PreparingRebalance")
    )
    summary = watched.groups["a"].summary(1000)
    assert summary.running.startswith("rebalancing for 0")
    assert summary.unowned_s == 0
    assert watched.page(GroupQuery(order="recent"), 1000).rows == [summary]


def test_a_console_whose_clock_is_set_back_continues() -> None:
    watched = cluster("a")
    for at_ms, lag in ((9000, 5), (1000, 6), (2000, 7)):
        watched.fold_offsets(at_ms, "a", {ZERO: 0}, {ZERO: lag})
        [row] = watched.page(GroupQuery(), at_ms).rows
        assert row.lag == lag
    assert watched.groups["a"].partitions(9000)[0].rate == 0
