"""What a group's events explain: where a rebalance begins and ends, what set it off, who waited, what it cost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.group.story import START, Story

from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, chain, sentence
from kohort.group.explain.rebalance_report import Identity, Outcome, ReportedCause
from kohort.model.errors import KafkaError

NINE = {"a": {0, 1, 2}, "b": {3, 4, 5}, "c": {6, 7, 8}}


def last_sentence(story: Story) -> str:
    report = story.report()
    return sentence(report.rebalances[-1], Names(report.identities))


def links(story: Story) -> list[tuple[int, str]]:
    """The chain of the last rebalance, times counted from its start."""
    report = story.report()
    last = report.rebalances[-1]
    return [(link.at_ms - last.started_ms, link.text) for link in chain(last, Names(report.identities))]


# -- events of other programs


def test_an_event_with_fields_that_kohort_does_not_write_is_named() -> None:
    explanation = Explanation("g")
    explanation.fold({"group": "g", "at_ms": 1, "event": "member_joined", "member": "a", "cause": ["text"]})
    explanation.fold({"group": "g", "at_ms": 2, "event": "round_opened", "cause": {"kind": "member_joined"}})
    with pytest.raises(KafkaError, match=r"'assignment_stored' of group 'g' at 3 ms .* another program wrote it"):
        explanation.fold({"group": "g", "at_ms": 3, "event": "assignment_stored", "synced": ["a"]})


# -- what a rebalance is


def test_first_start_counts_every_partition_from_the_first_member_on() -> None:
    story = Story().stable(a={0, 1}, b={2, 3})
    (first,) = story.report().rebalances
    assert (first.from_generation, first.to_generation, first.outcome) == (0, 1, Outcome.STABLE)
    assert (first.started_ms, first.ended_ms) == (START, START + 3_000)
    assert first.unowned_partition_s == 4 * 3.0
    assert last_sentence(story) == (
        "generation 0→1: a and b joined; 4 of 4 partitions unowned for 3.0 s (12.0 partition-seconds)"
    )


def test_a_thread_of_kafka_streams_is_named_by_its_process_and_number() -> None:
    process = "f3d5a4de-669a-418a-ac9b-d2899b5b1989"
    threads = {
        f"{number}": Identity(f"counting-words-{process}-StreamThread-{number}-consumer", None) for number in (1, 2)
    }
    names = Names(threads)
    assert [names("1"), names("2")] == ["f3d5a4de-StreamThread-1", "f3d5a4de-StreamThread-2"]
    again = Names({f"{threads['1'].client_id}-{tail}": threads["1"] for tail in ("aaaaa1", "aaaab1")})
    assert again(f"{threads['1'].client_id}-aaaab1") == "f3d5a4de-StreamThread-1-aaaab"


def test_names_and_reasons_of_clients_print_on_one_line_without_control_characters() -> None:
    story = Story().stable(**{"a\x1b[2J\nb": {0, 1}, "c": {2, 3}})
    story.after(9_000).left("c", "gone\x1b]0;x\x07\nforged").formed().stored(**{"a\x1b[2J\nb": {0, 1, 2, 3}})
    text = " ".join([last_sentence(story), *(text for _, text in links(story))])
    assert text.isprintable()
    assert r"a\x1b[2J\nb" in text


def test_eviction_reports_the_silence_and_the_slowest_member_to_rejoin() -> None:
    story = Story().stable(**NINE).evicted("c", 45_000).opened("session_timeout", "c", "no heartbeat for 45.0 s")
    story.after(1_100).rejoined("b").after(2_000).rejoined("a").formed()
    story.after(1_100).stored(a={0, 1, 2, 6, 7}, b={3, 4, 5, 8})
    assert last_sentence(story) == (
        "generation 1→2: c evicted, no heartbeat for 45.0 s; 9 of 9 partitions unowned for up to 4.2 s "
        "(25.2 partition-seconds), after 135.0 partition-seconds with c silent; slowest to rejoin a (3.1 s)"
    )
    last = story.last()
    # Those of c from its eviction on, those of a and b from their JoinGroup on.
    assert sorted(gap.duration_ms for gap in last.gaps) == 3 * [1_100] + 3 * [3_100] + 3 * [4_200]
    assert (last.stayed(), len(last.moved())) == (6, 3)
    assert links(story) == [
        (0, "round opened for 2 members: c evicted, no heartbeat for 45.0 s"),
        (3_100, "generation 2 formed with range, led by a: all members have joined, a last after 3.1 s"),
        (4_200, "assignment stored"),
        (4_200, "over after 4.2 s: 6 of 9 partitions stayed, 2 from c to a, 1 from c to b"),
    ]


def test_silence_counts_only_while_the_member_owned_the_partition() -> None:
    story = Story().stable(a={0}, b={1})
    story.joined("c").opened("member_joined", "c").rejoined("a").rejoined("b").formed().stored(a={0}, b={1}, c={2})
    story.after(4_000).evicted("c", 10_000)
    running = story.report().running
    assert running is not None
    assert running.silent_partition_s == 4.0


def test_member_that_leaves_gave_its_partitions_up_before() -> None:
    story = Story().stable(a={0, 1}, b={2, 3}).left("b", "the consumer is being closed").opened("member_left", "b")
    story.after(500).rejoined("a").formed().after(100).stored(a={0, 1, 2, 3})
    assert story.last().silent_partition_s == 0
    assert last_sentence(story) == (
        "generation 1→2: b left (the consumer is being closed); 4 of 4 partitions unowned for up to 600 ms "
        "(1.4 partition-seconds); slowest to rejoin a (500 ms)"
    )


def test_two_rounds_of_a_cooperative_move_are_one_rebalance_that_costs_only_what_changes_hands() -> None:
    story = Story().stable(a={0, 1, 2}, b={3, 4, 5})
    story.joined("c").opened("member_joined", "c").after(1_000).kept("a").after(500).kept("b").formed()
    story.stored(a={0, 1}, b={3, 4})
    assert story.report().running is not None, "a and b must still give up 2 and 5"
    story.after(40).rejoined("a", {0, 1}).opened("partitions_to_revoke", "a").after(20).rejoined("b", {3, 4})
    story.rejoined("c").formed().after(10).stored(a={0, 1}, b={3, 4}, c={2, 5})
    report = story.report()
    assert (report.running, len(report.rebalances)) == (None, 2)
    last = report.rebalances[-1]
    assert (last.from_generation, last.to_generation, len(last.rounds)) == (1, 3, 2)
    assert last.cause == ReportedCause("member_joined", "c")
    assert last.unowned_partition_s == (30 + 10) / 1000
    assert {gap.partition.partition for gap in last.gaps} == {2, 5}
    assert last_sentence(story) == (
        "generation 1→3: c joined; 2 rounds; 2 of 6 partitions unowned for up to 30 ms (0.040 partition-seconds); "
        "slowest to rejoin b (1.5 s)"
    )


def test_cooperative_move_that_takes_nothing_away_is_over_after_one_round() -> None:
    story = Story().stable(a={0, 1}, b={2, 3}).evicted("b", 6_000).opened("session_timeout", "b")
    story.after(10).kept("a").formed().after(5).stored(a={0, 1, 2, 3})
    last = story.last()
    assert (last.outcome, len(last.rounds), last.unowned_partition_s) == (Outcome.STABLE, 1, 2 * 0.015)


def test_held_sync_responses_grant_no_partition_before_they_are_sent() -> None:
    story = Story().stable(a={0, 1, 2, 3}, b={4})
    story.joined("c").opened("member_joined", "c").kept("a").kept("b").formed().stored(a={0, 1}, b={4, 5})
    fields = {"revoking": ["a"], "is_holding": True, "held": ["b", "c"]}
    story.put("revocations_awaited", "partitions_to_revoke", "a", **fields)
    story.after(1_000).put("syncs_released", "sync_hold_over", released=["b", "c"])
    running = story.report().running
    assert running is not None
    new = next(gap for gap in running.gaps if gap.partition.partition == 5)
    assert (new.after, new.duration_ms) == ("b", 1_000)


def test_member_that_revokes_later_owns_what_it_was_assigned_when_it_is_answered() -> None:
    story = Story().stable(a={0, 1, 2, 3}, b={4})
    story.joined("c").opened("member_joined", "c").kept("a").kept("b").formed().stored(a={0, 1, 5}, b={4})
    fields = {"revoking": ["a"], "is_holding": True, "is_delayed": True, "held": ["a", "b", "c"]}
    story.put("revocations_awaited", "partitions_to_revoke", "a", **fields)
    story.after(400).put("syncs_released", "partitions_to_revoke", "a", released=["a"], is_holding=True).after(1_000)
    running = story.report().running
    assert running is not None
    assert [(gap.partition.partition, gap.after, gap.duration_ms) for gap in running.gaps] == [(5, "a", 400)]


def test_member_that_was_held_and_sent_back_to_join_never_owned_what_it_was_assigned() -> None:
    story = Story().stable(a={0, 1, 2, 3}, b={4})
    story.joined("c").opened("member_joined", "c").kept("a").kept("b").formed().stored(a={0, 1}, b={4}, c={5})
    fields = {"revoking": ["a"], "is_holding": True, "held": ["b"]}
    story.put("revocations_awaited", "partitions_to_revoke", "a", **fields)
    story.after(30).rejoined("a", {0, 1}).opened("partitions_to_revoke", "a").rejoined("b", {4}).rejoined("c", {5})
    story.formed().stored(a={0, 1}, b={4, 2}, c={5, 3})
    last = story.last()
    assert sorted((gap.partition.partition, gap.duration_ms) for gap in last.gaps) == []
    assert [(move.giver, move.taker) for move in last.moves] == [("a", "b"), ("a", "c"), (None, "c")]


def test_evictions_on_the_way_belong_to_the_rebalance_that_runs() -> None:
    story = Story().stable(**NINE).left("a").opened("member_left", "a").after(6_000).evicted("b", 6_000)
    story.rejoined("c").formed().stored(c=set(range(9)))
    last = story.last()
    assert [each.member_id for each in last.departures] == ["a", "b"]
    assert len(story.report().rebalances) == 2
    assert last_sentence(story).startswith(
        "generation 1→2: a left, then b evicted, no heartbeat for 6.0 s; 3 of 9 partitions"
    )


def test_round_that_another_one_interrupts_is_reported_with_the_cause() -> None:
    story = Story().stable(a={0}, b={1}).joined("c").opened("member_joined", "c").rejoined("a").rejoined("b").formed()
    story.after(200).joined("d").opened("member_joined", "d").rejoined("a").rejoined("b").rejoined("c").formed()
    story.stored(a={0}, b={1}, c={2}, d={3})
    last = story.last()
    assert [each.failure for each in last.rounds] == [ReportedCause("member_joined", "d"), None]
    assert last.joined == ["c", "d"]
    assert (200, "round 1 came to no assignment: d joined") in links(story) or (
        0,
        "round 1 came to no assignment: d joined",
    ) in links(story)


def test_failed_assignment_and_the_one_that_succeeds_are_one_rebalance() -> None:
    story = Story().stable(a={0}, b={1}).joined("c").opened("member_joined", "c").rejoined("a").rejoined("b")
    story.formed(leader="a").after(100)
    story.put("assignment_failed", "assignment_failed", "a", "no racks", leader="a", message="…")
    story.opened("assignment_failed", "a", "no racks").after(100).rejoined("a").rejoined("b").rejoined("c")
    story.formed(leader="b").stored(a={0}, b={1}, c={2})
    last = story.last()
    assert (last.to_generation, len(last.rounds)) == (3, 2)
    assert last.rounds[0].failure == ReportedCause("assignment_failed", "a", "no racks")
    assert "generation 1→3: c joined, then leader a could not assign (no racks); 2 rounds" in last_sentence(story)
    assert any(
        "round 1 came to no assignment: leader a could not assign (no racks)" in text for _, text in links(story)
    )


def test_static_member_that_comes_back_to_a_stable_group_costs_nothing_and_no_round() -> None:
    story = Story().stable(a={0}, b={1})
    story.replaced("b", "b2", "worker-b").stored("static_member_replaced", a={0}, b2={1})
    last = story.last()
    assert (last.from_generation, last.to_generation, last.rounds, last.gaps, last.moves) == (1, 1, [], [], [])
    assert [(each.old_id, each.new_id) for each in last.replacements] == [("b", "b2")]
    assert last_sentence(story) == "generation 1: worker-b came back under a new member id; no partition was unowned"


def test_static_member_that_must_join_a_round_gives_up_what_the_old_one_owned() -> None:
    story = Story().stable(a={0}, b={1}).replaced("b", "b2", "w", awaits_join=True)
    story.opened("subscription_changed", "b2", "came back with other topics").after(700).rejoined("a").formed()
    story.stored(a={0}, b2={1})
    last = story.last()
    assert [(gap.before, gap.after, gap.duration_ms) for gap in last.gaps] == [("b", "b2", 700)]
    assert last.moves == [], "it is the same instance"


def test_leader_that_sees_topics_change_sets_off_a_rebalance_that_brings_new_partitions() -> None:
    story = (
        Story().stable(a={0}, b={1}).rejoined("a", {0}, "topic_metadata_changed").opened("topic_metadata_changed", "a")
    )
    story.after(50).kept("b").formed().stored(a={0, 2}, b={1, 3})
    last = story.last()
    assert last_sentence(story).startswith(
        "generation 1→2: a joined again because its topics changed; 2 of 4 partitions unowned for 50 ms"
    )
    assert [(move.giver, move.taker) for move in last.moves] == [(None, "a"), (None, "b")]


def test_partitions_of_a_deleted_topic_are_not_unowned() -> None:
    story = Story().stable(a={0, 1}, b={2, 3}).rejoined("a").opened("topic_metadata_changed", "a").after(50)
    story.rejoined("b").formed().stored(a={0}, b={2})
    last = story.last()
    assert {gap.partition.partition for gap in last.gaps} == {0}
    assert {move.partition.partition for move in last.moves if move.taker is None} == {1, 3}
    later = story.after(60_000).joined("c").opened("member_joined", "c").report(story.at_ms).running
    assert later is not None
    assert later.unowned_partition_s == 0


def test_rebalance_is_over_when_the_last_member_has_asked_for_its_assignment() -> None:
    story = Story().stable(a={0}, b={1}).left("b").opened("member_left", "b").joined("c").rejoined("a").formed()
    story.stored(a={0}, c={1}, awaiting=("c",))
    running = story.report().running
    assert running is not None
    assert running.waits_for is not None
    assert (running.waits_for.what, running.waits_for.member_ids) == ("SyncGroup", ("c",))
    last = story.after(2_000).synced("c").last()
    assert last.duration_ms() == 2_000
    assert [(gap.partition.partition, gap.duration_ms) for gap in last.gaps] == [(1, 2_000)]
    assert last_sentence(story).endswith("slowest to sync c (2.0 s)")


def test_member_that_never_asks_for_its_assignment_is_part_of_the_same_story() -> None:
    story = Story().stable(a={0}, b={1}).joined("c").opened("member_joined", "c").rejoined("a").rejoined("b").formed()
    story.stored(a={0}, b={1}, c={2}, awaiting=("c",)).after(60_000)
    story.members.discard("c")
    detail = "no SyncGroup in generation 2 within 60000 ms"
    story.put("member_evicted", "sync_timeout", "c", detail, member="c").opened("sync_timeout", "c", detail)
    story.rejoined("a").rejoined("b").formed().stored(a={0}, b={1})
    assert len(story.report().rebalances) == 2
    assert f"c joined, then c evicted, {detail}" in last_sentence(story)


def test_group_that_loses_its_last_member_ends_its_rebalance_empty() -> None:
    story = Story().stable(a={0, 1}).left("a").opened("member_left", "a").after(5).emptied()
    last = story.last()
    assert (last.outcome, last.members, last.unowned_partition_s) == (Outcome.EMPTY, 0, 0.01)
    later = story.after(3_600_000).joined("b").opened("member_joined", "b", is_initial=True).after(3_000)
    later.formed("initial_delay_over").stored(b={0, 1})
    assert story.last().unowned_partition_s == 6.0, "an empty group has no unowned partitions"
    assert story.last().from_generation == 2


def test_group_that_is_deleted_and_made_again_starts_anew() -> None:
    story = Story().stable(a={0, 1}).left("a").opened("member_left", "a").emptied().deleted().after(1_000)
    story.stable(b={0, 1})
    last = story.last()
    assert (last.number, last.from_generation, last.to_generation) == (1, 0, 1)
    assert all(move.giver is None for move in last.moves)


def test_deletion_ends_what_runs() -> None:
    story = Story().stable(a={0}).joined("b").opened("member_joined", "b").deleted()
    assert story.last().outcome is Outcome.DELETED


def test_avoided_rebalances_are_counted_and_shown_with_the_next_one() -> None:
    story = Story().stable(a={0}, b={1})
    story.put("rebalance_avoided", "member_rejoined", "a", "blind", member="a").after(1)
    story.put("rebalance_avoided", "member_rejoined", "b", "blind", member="b")
    assert (story.report().avoided, story.report().running) == (2, None)
    story.joined("c").opened("member_joined", "c").rejoined("a").rejoined("b").formed().stored(a={0}, b={1}, c={2})
    assert story.last().avoided_before == 2


def test_only_the_last_ones_are_kept_if_so_asked_but_all_are_counted() -> None:
    story = Story().stable(a={0, 1}).left("a").opened("member_left", "a").emptied().joined("b")
    story.opened("member_joined", "b", is_initial=True).after(3_000).formed("initial_delay_over").stored(b={0, 1})
    explanation = Explanation("g", last=1, keeps_events=False)
    for event in story.events:
        explanation.fold(event)
    report = explanation.report(story.at_ms)
    assert [(each.cause.member_id, each.events) for each in report.rebalances] == [("b", [])]
    assert (report.total, report.unowned_partition_s) == (3, 12.0)


def test_other_protocols_have_rebalances_without_a_cost() -> None:
    story = Story().stable(a={0})
    for event in story.events:
        if event["event"] == "assignment_stored":
            event["assignments"] = None
    assert last_sentence(story) == "generation 0→1: a joined; what it assigns cannot be read"
    assert story.last().to_json()["unowned_partition_s"] is None


def with_work(story: Story, readable: bool, **work: Any) -> Story:
    for event in story.events:
        if event["event"] == "assignment_stored":
            event |= {"work": work} if readable else {"work": work, "assignments": None}
    return story


def test_workers_of_connect_are_explained_by_their_connectors_and_tasks() -> None:
    a = {"url": "http://a/", "runs": ["sink", "sink-0", *(f"sink-{number}" for number in range(1, 9))], "gives_up": []}
    b = {"url": "http://b/", "runs": ["source-1"], "gives_up": ["source-0"]}
    story = with_work(Story().stable(a={0}, b={1}, c={2}), False, members={"a": a, "b": b, "c": {}}, delay_ms=300_000)
    assert last_sentence(story) == "generation 0→1: a, b and c joined; connectors and tasks: 11, on 2 of 3 workers"
    (stored,) = (text for _, text in links(story) if text.startswith("assignment stored"))
    assert stored == (
        "assignment stored: a runs sink, sink-0, sink-1, sink-2, sink-3, sink-4, 4 more; "
        "b runs source-1 and gives up source-0; c runs nothing; "
        "what a worker that is gone ran waits 5 min 0 s for its return"
    )
    assert story.last().to_json()["rounds"][-1]["work"]["members"]["b"] == b


@pytest.mark.parametrize(
    ("next_ms", "follows"),
    [(None, ""), (0, "; a probing rebalance follows at once"), (7, "; a probing rebalance follows")],
)
def test_threads_of_streams_are_explained_by_their_tasks_and_copies(next_ms: int | None, follows: str) -> None:
    members = {"a": {"runs": ["0_0", "1_0"], "copies": ["1_1"]}, "b": {"runs": ["0_1", "1_1"], "copies": []}}
    story = with_work(Story().stable(a={0}, b={1}), True, members=members, next_rebalance_ms=next_ms)
    (stored,) = (text for _, text in links(story) if text.startswith("assignment stored"))
    assert stored == f"assignment stored: a runs 0_0, 1_0 and has copies of 1_1; b runs 0_1, 1_1{follows}"


# -- what runs now


def test_running_rebalance_reports_the_awaited_members_and_its_cost_so_far() -> None:
    story = Story().stable(**NINE).left("c").opened("member_left", "c").after(100).rejoined("a")
    running = story.report(story.at_ms + 900).running
    assert running is not None
    assert running.unowned_partition_s == 3 * 1.0 + 3 * 0.9
    assert sentence(running, Names({}), story.at_ms + 900) == (
        "generation 1→…: c left; 6 of 9 partitions unowned for up to 1.0 s (5.7 partition-seconds); "
        "slowest to rejoin a (100 ms); still running after 1.0 s, waiting for b to join again"
    )


def test_running_rebalance_waits_in_turn_for_ids_the_delay_the_leader_and_revocations() -> None:
    def waits(story: Story) -> tuple[str, tuple[str, ...]]:
        running = story.report().running
        assert running is not None
        assert running.waits_for is not None
        return running.waits_for.what, running.waits_for.member_ids

    story = Story().created().joined("a").opened("member_joined", "a", is_initial=True)
    assert waits(story) == ("the initial delay", ())
    story.put("member_id_issued", "member_id_issued", "b", member="b")
    assert waits(story) == ("JoinGroup of issued ids", ("b",))
    story.put("member_id_dropped", "session_timeout", "b", member="b").formed("initial_delay_over")
    assert waits(story) == ("the leader's assignment", ("a",))
    story.stored(a={0, 1}).after(10).joined("b").opened("member_joined", "b").kept("a").formed().stored(a={0})
    assert waits(story) == ("revocation", ("a",))


# -- when events are missing, late, or come twice


def test_restart_of_the_broker_in_a_round_does_not_end_the_story() -> None:
    story = Story().stable(a={0}, b={1}).joined("c").opened("member_joined", "c").after(10).rejoined("a")
    story.members.discard("c")
    story.after(3_000).loaded().after(500).rejoined("a").opened("member_rejoined", "a").rejoined("b").joined("c")
    story.formed().stored(a={0}, b={1}, c={2})
    last = story.last()
    assert (len(story.report().rebalances), last.restarts) == (2, 1)
    assert next(gap.duration_ms for gap in last.gaps if gap.partition.partition == 0) == 3_500
    assert "the coordinator was started anew" in last_sentence(story)


def test_a_group_that_a_gateway_looked_up_is_no_restart_of_its_coordinator() -> None:
    story = Story().stable(a={0}, b={1}).joined("c").opened("member_joined", "c").after(10).rejoined("a")
    story.loaded(kind="not_observed").after(500)
    story.rejoined("a").opened("member_rejoined", "a").rejoined("b").joined("c").formed().stored(a={0}, b={1}, c={2})
    assert "the coordinator was started anew" not in last_sentence(story)


def test_generation_that_a_restart_found_in_the_log_goes_on_without_a_new_round() -> None:
    story = Story().stable(a={0}, b={1}).joined("c").opened("member_joined", "c").rejoined("a").rejoined("b").formed()
    story.after(1_000).loaded("CompletingRebalance").stored(a={0}, b={1}, c={2})
    last = story.last()
    assert (len(last.rounds), last.restarts, last.outcome) == (1, 1, Outcome.STABLE)


def test_rebalance_without_its_first_events_is_reported_as_partial() -> None:
    whole = Story().stable(**NINE).evicted("c").opened("session_timeout", "c")
    whole.after(10).rejoined("a").rejoined("b").formed().stored(a={0, 1, 2, 6, 7, 8}, b={3, 4, 5})
    cut = Story()
    cut.at_ms = whole.at_ms
    cut.events = whole.events[next(at for at, event in enumerate(whole.events) if event["event"] == "member_evicted") :]
    last = cut.last()
    assert (last.is_partial, last.from_generation, last.to_generation) == (True, 1, 2)
    assert last.unowned_partition_s == 0, "the events do not show who owned what before"
    assert last_sentence(cut).endswith("some of its events are missing")


def test_event_of_a_loaded_group_has_the_owners_before_the_events_begin() -> None:
    story = Story().stable(**NINE)
    story.events.clear()
    story.loaded().after(60_000).evicted("c").opened("session_timeout", "c").after(20).rejoined("a").rejoined("b")
    story.formed().stored(a={0, 1, 2, 6, 7, 8}, b={3, 4, 5})
    last = story.last()
    assert (last.is_partial, last.unowned_partition_s) == (False, 3 * 0.02)


def test_missing_opening_and_forming_leave_a_rebalance_without_a_recorded_cause() -> None:
    story = Story().stable(a={0}, b={1})
    story.generation += 1
    story.stored(a={0, 1})
    last = story.last()
    assert (last.is_partial, last.outcome) == (True, Outcome.STABLE)


def test_events_that_the_coordinator_could_not_write_make_the_next_ones_doubtful() -> None:
    story = Story().stable(a={0}, b={1}).put("events_lost", "events_lost", count=3)
    story.joined("c").opened("member_joined", "c").rejoined("a").rejoined("b").formed().stored(a={0}, b={1}, c={2})
    assert story.last().is_partial


def test_copies_of_events_change_nothing() -> None:
    story = Story().stable(**NINE).evicted("c").opened("session_timeout", "c").after(10).rejoined("a").after(5)
    story.rejoined("b").formed().after(5).stored(a={0, 1, 2, 6, 7, 8}, b={3, 4, 5})
    once = story.report().rebalances
    story.events = [event for event in story.events for _ in range(2)]
    assert story.report().rebalances == once
    story.events += story.events
    assert len(story.report().rebalances) == len(once)


def test_clock_that_steps_back_makes_no_time_negative() -> None:
    story = Story().stable(a={0}, b={1}).left("b").opened("member_left", "b").after(-30_000).rejoined("a").formed()
    story.stored(a={0, 1})
    last = story.last()
    assert (last.duration_ms(), last.unowned_partition_s) == (0, 0)


def test_events_of_other_groups_are_passed_over() -> None:
    story = Story().stable(a={0})
    for event in story.events:
        event["group"] = "other"
    assert story.report().rebalances == []


# -- names


def test_members_are_called_by_instance_or_client_id_with_as_much_of_their_id_as_it_takes() -> None:
    story = Story().created()
    one, two = "app-11112222-0000-4000-8000-000000000000", "app-11113333-0000-4000-8000-000000000000"
    three = "db-7-99990000-0000-4000-8000-000000000000"
    for member, client in ((one, "app"), (two, "app"), (three, "app")):
        story.joined(member, instance="db-7" if member == three else None)
        story.events[-1]["client"] = client
    names = Names(story.report().identities)
    assert [names(each) for each in (one, two, three)] == ["app-11112", "app-11113", "db-7"]
    assert names("x-11112222-0000-4000-8000-000000000000") == "x", "an id that no event introduced begins with its name"
    assert names(None) == "a member"
    assert names.listed([one, two, three]) == "app-11112, app-11113 and db-7"
    assert names.listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 others"


# -- silence, and members that a round waits for in vain


def test_round_that_waited_for_a_dead_member_is_reported_with_that_member() -> None:
    story = Story().stable(**NINE).joined("d").opened("member_joined", "d")
    story.after(300).rejoined("a").rejoined("b").after(5_700).evicted("c", 6_000).formed().stored(
        a={0, 1, 2}, b={3, 4, 5}, d={6, 7, 8}
    )
    assert last_sentence(story).endswith("waited 6.0 s for c, which did not join")
    assert links(story)[-3] == (
        6_000,
        "generation 2 formed with range, led by a: all others have joined, b last after 300 ms, "
        "after 6.0 s of waiting for c",
    )
    assert story.last().to_json()["longest_missed"] == {"member": "c", "ms": 6_000}


def test_round_that_waited_for_an_unused_id_is_reported_with_that_id() -> None:
    story = Story().stable(a={0}, b={1}).left("b").opened("member_left", "b")
    story.put("member_id_issued", "member_id_issued", "c", member="c").rejoined("a").after(45_000)
    story.put("member_id_dropped", "session_timeout", "c", member="c").formed().stored(a={0, 1})
    assert last_sentence(story).endswith("waited 45.0 s for c, which did not join")


def test_round_that_waits_for_an_id_that_was_issued_before_the_last_round_says_so() -> None:
    story = Story().created().joined("a").opened("member_joined", "a", is_initial=True)
    story.put("member_id_issued", "member_id_issued", "c", member="c").formed("initial_delay_over").stored(a={0, 1})
    story.after(1_000).joined("b").opened("member_joined", "b").rejoined("a").after(36_000)
    running = story.report().running
    assert running is not None
    expected = "waiting for c to join, some for the first time with the id that they were sent"
    assert expected in sentence(running, Names({}), story.at_ms)
    story.put("member_id_dropped", "session_timeout", "c", member="c").formed().stored(a={0}, b={1})
    assert "waited 36.0 s for c, which did not join" in last_sentence(story)


def test_static_member_that_comes_back_was_silent_meanwhile() -> None:
    story = Story().stable(a={0}, b={1, 2}).replaced("b", "b2", "worker-b")
    story.events[-1]["silent_ms"] = 2_900
    story.stored("static_member_replaced", a={0}, b2={1, 2})
    assert last_sentence(story) == (
        "generation 1: worker-b came back under a new member id; no partition was unowned, "
        "after 5.8 partition-seconds with worker-b silent"
    )


def test_one_change_more_than_are_named_is_named_too() -> None:
    story = Story().stable(a={0}, b={1}, c={2}, d={3}, e={4}, f={5}).left("a").opened("member_left", "a")
    for member in "bcd":
        story.evicted(member)
    story.rejoined("e").rejoined("f").formed().stored(e={0, 1, 2}, f={3, 4, 5})
    assert "d evicted" in last_sentence(story).partition(";")[0]
    story = Story().stable(a={0}, b={1}, c={2}, d={3}, e={4}, f={5}).left("a").opened("member_left", "a")
    for member in "bcde":
        story.evicted(member)
    assert "then 2 more changes" in sentence_of_running(story)


def sentence_of_running(story: Story) -> str:
    report = story.report()
    assert report.running is not None
    return sentence(report.running, Names(report.identities))


def test_static_return_that_changes_the_protocol_is_reported() -> None:
    story = Story().stable(a={0}, b={1}).replaced("b", "b2", "w", awaits_join=True)
    story.opened("protocol_changed", "b2", "protocol range would become roundrobin").after(10).rejoined("a").formed()
    story.stored(a={0}, b2={1})
    assert last_sentence(story).startswith(
        "generation 1→2: w came back under a new member id, then w offers other assignors "
        "(protocol range would become roundrobin);"
    )


def test_member_that_joins_after_an_eviction_is_listed_after_it() -> None:
    story = Story().stable(a={0, 1}).joined("b").opened("member_joined", "b").rejoined("a").formed().after(5_000)
    story.evicted("a").after(10).joined("c").rejoined("b").opened("session_timeout", "a").formed()
    story.stored(b={0}, c={1})
    assert last_sentence(story).startswith(
        "generation 1→3: b joined, then a evicted, no heartbeat for 10.0 s, then c joined;"
    )
