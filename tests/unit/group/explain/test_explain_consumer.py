"""What the events of a consumer group explain: epochs, causes, who gave up and who waited, conversions, cost."""

from __future__ import annotations

import pytest
from tests.unit.group.consumer_story import ConsumerStory
from tests.unit.group.story import START, Story

from kohort.group.explain.explain_text import Names, chain, sentence
from kohort.group.explain.rebalance_report import Outcome


def last_sentence(story: Story) -> str:
    report = story.report()
    return sentence(report.rebalances[-1], Names(report.identities))


def links(story: Story) -> list[tuple[int, str]]:
    report = story.report()
    last = report.rebalances[-1]
    return [(link.at_ms - last.started_ms, link.text) for link in chain(last, Names(report.identities))]


def newcomer() -> ConsumerStory:
    """`c` joins two members; `a` takes a second to give up 2, `b` three to give up 5."""
    story = ConsumerStory().settled(a={0, 1, 2}, b={3, 4, 5})
    story.subscribe("c").bump("member_joined", "c").target(a={0, 1}, b={3, 4}, c={2, 5})
    story.step("c", set(), "UNRELEASED_PARTITIONS")
    story.wait(500).step("a", {0, 1}, "UNREVOKED_PARTITIONS", asked={2}, epoch=2)
    story.wait(500).step("a", {0, 1})
    story.wait(100).step("c", {2}, "UNRELEASED_PARTITIONS")
    story.wait(400).step("b", {3, 4}, "UNREVOKED_PARTITIONS", asked={5}, epoch=2)
    story.wait(1_500).step("b", {3, 4})
    return story.wait(20).step("c", {2, 5})


# -- epochs


def test_first_members_count_every_partition_from_the_first_of_them_on() -> None:
    story = ConsumerStory().subscribe("a").bump("member_joined", "a").target(a={0, 1, 2, 3}).wait(40)
    story.step("a", {0, 1, 2, 3})
    (first,) = story.report().rebalances
    assert (first.from_generation, first.to_generation, first.outcome) == (1, 2, Outcome.STABLE)
    assert (first.from_type, first.to_type, first.is_partial) == ("consumer", "consumer", False)
    assert first.unowned_partition_s == 4 * 0.04
    assert story.report().group_type == "consumer"


def test_newcomer_costs_only_what_changes_hands_from_the_heartbeat_that_gave_it_up() -> None:
    story = newcomer()
    last = story.last()
    assert {(gap.partition.partition, gap.duration_ms) for gap in last.gaps} == {(2, 100), (5, 20)}
    assert last_sentence(story) == (
        "group epoch 2→3: c joined; 2 of 6 partitions unowned for up to 100 ms (0.120 partition-seconds); "
        "slowest to give up b (3.0 s)"
    )
    assert [each.to_json()["revoke_ms"] for each in last.epochs] == [{"a": 1_000, "b": 3_000}]


def test_chain_reports_each_revocation_and_each_wait_of_a_member() -> None:
    assert links(newcomer()) == [
        (0, "group epoch 3: c joined"),
        (0, "target computed: 1 from a to c, 1 from b to c"),
        (0, "c waits for 2 of a and b"),
        (500, "a is to give up 1"),
        (1_000, "a gave up 1"),
        (1_100, "c got 1, waits for 1 of b"),
        (1_500, "b is to give up 1"),
        (3_000, "b gave up 1"),
        (3_020, "c got 1"),
        (3_020, "over after 3.0 s: 4 of 6 partitions stayed, 1 from a to c, 1 from b to c"),
    ]


def test_rebalance_that_runs_names_who_must_give_up_and_then_whose_heartbeat_is_awaited() -> None:
    story = ConsumerStory().settled(a={0, 1}, b={2, 3})
    story.subscribe("c").bump("member_joined", "c")
    running = story.report().running
    assert running is not None
    assert running.waits_for is not None
    assert running.waits_for.what == "a target"
    story.target(a={0}, b={2, 3}, c={1}).step("c", set(), "UNRELEASED_PARTITIONS").step("b", {2, 3})
    story.step("a", {0}, "UNREVOKED_PARTITIONS", asked={1}, epoch=2)
    running = story.report().running
    assert running is not None
    assert running.waits_for is not None
    assert (running.waits_for.what, running.waits_for.member_ids) == ("revocation", ("a",))
    story.step("a", {0})
    report = story.report(story.at_ms + 700)
    running = report.running
    assert running is not None
    assert running.waits_for is not None
    assert (running.waits_for.what, running.waits_for.member_ids) == ("heartbeat", ("c",))
    assert sentence(running, Names(report.identities), story.at_ms + 700) == (
        "group epoch 2→…: c joined; 1 of 4 partitions unowned for 700 ms (0.700 partition-seconds); "
        "still running after 700 ms, waiting for heartbeats of c"
    )


def test_epochs_before_every_member_has_reached_its_target_are_one_rebalance() -> None:
    story = ConsumerStory().settled(a={0, 1, 2, 3})
    story.subscribe("b").bump("member_joined", "b").target(a={0, 1}, b={2, 3})
    story.step("b", set(), "UNRELEASED_PARTITIONS").subscribe("c").bump("member_joined", "c")
    story.target(a={0, 1}, b={2}, c={3}).step("c", set(), "UNRELEASED_PARTITIONS")
    story.wait(10).step("a", {0, 1}, "UNREVOKED_PARTITIONS", asked={2, 3}, epoch=2).wait(10).step("a", {0, 1})
    story.wait(5).step("b", {2}).step("c", {3})
    last = story.last()
    assert (len(story.report().rebalances), len(last.epochs), last.from_generation, last.to_generation) == (2, 2, 2, 4)
    assert last_sentence(story).startswith(
        "group epoch 2→4: b and c joined; 2 group epochs; 2 of 4 partitions unowned for 5 ms"
    )


def test_member_that_leaves_costs_until_others_are_answered_with_its_partitions() -> None:
    story = ConsumerStory().settled(a={0, 1}, b={2, 3}).leave("b", detail="the consumer is being closed")
    story.bump("member_left", "b", "the consumer is being closed").target(a={0, 1, 2, 3}).wait(30).step(
        "a", {0, 1, 2, 3}
    )
    assert last_sentence(story) == (
        "group epoch 2→3: b left (the consumer is being closed); 2 of 4 partitions unowned for 30 ms "
        "(0.060 partition-seconds); slowest to reconcile a (30 ms)"
    )


def test_eviction_reports_the_silence_whichever_event_comes_first() -> None:
    for is_note_first in (False, True):
        story = ConsumerStory().settled(a={0, 1}, b={2, 3})
        story.leave("b", "session_timeout", "no heartbeat for 45.0 s", 45_000)
        if is_note_first:
            story.events[-3:] = [story.events[-1], *story.events[-3:-1]]
        story.bump("session_timeout", "b", "no heartbeat for 45.0 s").target(a={0, 1, 2, 3}).wait(10)
        story.step("a", {0, 1, 2, 3})
        last = story.last()
        assert (last.silent_partition_s, last.unowned_partition_s) == (90.0, 0.02)
        assert [each.silent_ms for each in last.departures] == [45_000]


def test_last_member_that_leaves_ends_the_rebalance_empty() -> None:
    story = ConsumerStory().settled(a={0, 1}).leave("a").bump("member_left", "a")
    report = story.report()
    assert (report.rebalances[-1].outcome, report.running, report.members, report.generation) == (
        Outcome.EMPTY,
        None,
        0,
        3,
    )


def test_failed_assignor_keeps_the_old_target_and_is_reported() -> None:
    story = ConsumerStory().settled(a={0, 1})
    story.subscribe("b").bump("member_joined", "b")
    story.say("target_failed", "member_joined", "b", assignor="mine", message="ValueError: no")
    story.wait(1_000).target(a={0}, b={1}).step("b", set(), "UNRELEASED_PARTITIONS")
    story.step("a", {0}, "UNREVOKED_PARTITIONS", asked={1}, epoch=2).step("a", {0}).step("b", {1})
    assert story.last().to_json()["epochs"][0]["failure"] is None, "it succeeded in the end"
    waiting = ConsumerStory().settled(a={0}).subscribe("b").bump("member_joined", "b")
    waiting.say("target_failed", "member_joined", "b", assignor="mine", message="ValueError: no")
    running = waiting.report().running
    assert running is not None
    texts = [link.text for link in chain(running, Names(waiting.report().identities))]
    assert "no target for epoch 3, the old one stands: mine: ValueError: no" in texts


def test_lag_of_standby_copies_is_a_cause_that_reads_as_one() -> None:
    for reason, words in (
        ("standby_caught_up", "b's standby copies have caught up"),
        ("standby_falling_behind", "b's standby copies fall behind"),
    ):
        story = ConsumerStory().settled(a={0, 1}, b={2})
        story.bump("standby_lag", "b", reason).target(a={0}, b={1, 2})
        story.step("a", {0}, "UNREVOKED_PARTITIONS", asked={1}, epoch=2).step("b", {2}, "UNRELEASED_PARTITIONS")
        story.wait(3).step("a", {0}).wait(4).step("b", {1, 2})
        assert last_sentence(story).startswith(f"group epoch 2→3: {words}; 1 of 3 partitions unowned for 4 ms")


def test_static_member_that_pauses_costs_until_it_is_back() -> None:
    story = ConsumerStory()
    story.subscribe("a", instance="rack-7").subscribe("b").bump("member_joined", "a").target(a={0, 1}, b={2})
    story.step("a", {0, 1}).step("b", {2}).wait(1_000)
    story.step("a", {0, 1}, epoch=-2, kind="static_member_left").wait(2_000)
    story.members.discard("a")
    story.say("member_deleted", "static_member_replaced", "a2", member="a")
    story.subscribe("a2", "static_member_replaced", instance="rack-7")
    story.say("member_targeted", "static_member_replaced", "a2", member="a2", target={"t": [0, 1]})
    story.step("a2", {0, 1})
    last = story.last()
    assert (last.unowned_partition_s, last.from_generation, last.to_generation, last.stayed()) == (4.0, 2, 2, 3)
    assert [(each.old_id, each.new_id, each.instance_id) for each in last.replacements] == [("a", "a2", "rack-7")]
    assert (last.joined, last.departures) == ([], [])


def test_rejoin_that_changes_nothing_is_no_rebalance() -> None:
    story = ConsumerStory().settled(a={0, 1}).step("a", {0, 1})
    assert (len(story.report().rebalances), story.report().running) == (1, None)


def test_duplicate_events_are_counted_once() -> None:
    story = newcomer()
    story.events = [each for event in story.events for each in (event, event)]
    assert last_sentence(story) == last_sentence(newcomer())


def test_failover_in_the_middle_goes_on_with_what_the_log_knows() -> None:
    story = ConsumerStory().settled(a={0, 1}, b={2, 3})
    story.subscribe("c").bump("member_joined", "c").target(a={0, 1}, b={2}, c={3})
    story.step("a", {0, 1}).step("b", {2}, "UNREVOKED_PARTITIONS", asked={3}, epoch=2)
    story.say(
        "group_loaded",
        "coordinator_loaded",
        members=["a", "b", "c"],
        assignments={"a": {"t": [0, 1]}, "b": {"t": [2]}, "c": {}},
        pending={"b": {"t": [3]}},
        targets={"a": {"t": [0, 1]}, "b": {"t": [2]}, "c": {"t": [3]}},
        target_epoch=3,
        member_states={"a": [3, "STABLE"], "b": [2, "UNREVOKED_PARTITIONS"], "c": [0, "STABLE"]},
        phases={},
    )
    story.wait(40).step("b", {2}).wait(2).step("c", {3})
    last = story.last()
    assert (last.restarts, last.outcome, last.unowned_partition_s) == (1, Outcome.STABLE, 0.002)
    assert not last.is_partial


# -- conversions


def converted() -> ConsumerStory:
    """A classic group of the eager members `a` and `b` becomes a consumer group when the native `c` joins."""
    story = ConsumerStory()
    story.stable(a={0, 1}, b={2, 3})
    story.epoch = story.generation
    story.put("group_deleted", "group_converted", "c", to="consumer")
    story.say("group_epoch_bumped", "group_converted", "c")
    for member, held in (("a", {0, 1}), ("b", {2, 3})):
        story.subscribe(member, "group_converted", claims=set())
        story.say("member_targeted", "group_converted", "c", member=member, target={"t": sorted(held)})
        story.step(member, held, kind="group_converted")
    story.say("target_computed", "group_converted", "c", target_epoch=story.epoch, targets={})
    story.say("group_converted", "group_converted", "c", to="consumer")
    return story.subscribe("c").bump("member_joined", "c").target(a={0, 1}, b={2}, c={3})


def test_conversion_alone_revokes_nothing_and_is_reported_with_the_member_that_caused_it() -> None:
    story = converted()
    story.step("c", set(), "UNRELEASED_PARTITIONS")
    report = story.report()
    assert set(report.owners.values()) == {"a", "b"}
    assert report.running is not None
    assert report.running.unowned_partition_s == 0
    # An eager member gives everything up in its JoinGroup, and has its own again with the answer to SyncGroup.
    for member, held, pause in (("a", {0, 1}, 5), ("b", {2}, 7)):
        story.wait(1_000).step(member, held, phase="PREPARE_REBALANCE", epoch=1)
        story.wait(10).step(member, held, phase="COMPLETING_REBALANCE").wait(pause).step(member, held)
    story.wait(2).step("c", {3})
    last = story.last()
    gaps = {gap.partition.partition: gap.duration_ms for gap in last.gaps}
    assert gaps == {0: 5, 1: 5, 2: 7, 3: 9}
    assert (last.from_type, last.to_type, len(story.report().rebalances)) == ("classic", "consumer", 2)
    assert last_sentence(story) == (
        "generation 1→group epoch 2: c joined; converted to the consumer protocol by c; "
        "the conversion itself revoked nothing; "
        "4 of 4 partitions unowned for up to 9 ms (0.026 partition-seconds); slowest to give up b (2.0 s)"
    )


def test_cooperative_classic_member_keeps_what_its_join_claims() -> None:
    story = ConsumerStory().settled(a={0, 1})
    story.subscribe("b", claims=set()).bump("member_joined", "b").target(a={0}, b={1})
    story.step("b", set(), "UNRELEASED_PARTITIONS", phase="COMPLETING_REBALANCE").step(
        "b", set(), "UNRELEASED_PARTITIONS"
    )
    story.step("a", {0}, "UNREVOKED_PARTITIONS", asked={1}, epoch=2).wait(10).step("a", {0}).wait(10)
    story.subscribe("b", "member_rejoined", claims=set()).step("b", {1}, phase="COMPLETING_REBALANCE")
    story.wait(5).step("b", {1})
    assert story.last().unowned_partition_s == 0.015, (
        "from the heartbeat that gave it up to the SyncGroup that gives it"
    )
    story.wait(1_000).subscribe("c").bump("member_joined", "c").target(a={0}, b=set(), c={1}).step("a", {0})
    story.step("c", set(), "UNRELEASED_PARTITIONS")
    story.step("b", {1}, phase="PREPARE_REBALANCE", epoch=3).wait(10).subscribe("b", "member_rejoined", claims={1})
    story.step("b", set(), "UNREVOKED_PARTITIONS", asked={1}, epoch=3, phase="COMPLETING_REBALANCE").wait(5)
    story.step("b", set(), "UNREVOKED_PARTITIONS", asked={1}, epoch=3).wait(5)
    assert story.report().running is not None
    assert "b" in story.report().owners.values(), "what it was asked for it still has"
    story.subscribe("b", "member_rejoined", claims=set()).step("b", set(), phase="COMPLETING_REBALANCE")
    story.step("b", set()).wait(30).step("c", {1})
    assert story.last().unowned_partition_s == 0.03


@pytest.mark.parametrize("has_committed", [True, False])
def test_group_goes_back_to_classic_with_its_last_native_member_in_one_rebalance(has_committed: bool) -> None:
    story = ConsumerStory().settled(a={0, 1})
    story.subscribe("b", claims=set()).bump("member_joined", "b").target(a={0}, b={1})
    story.step("a", {0}, "UNREVOKED_PARTITIONS", asked={1}, epoch=2).step("a", {0})
    story.step("b", {1}, phase="COMPLETING_REBALANCE").step("b", {1}).wait(1_000)
    story.leave("a").bump("member_left", "a").put("group_deleted", "group_converted", "a", to="classic")
    if not has_committed:
        # Nothing is left of the group for a moment, so its event has no clock.
        del story.events[-1]["generation"]
    story.generation = 4
    story.stored("group_converted", b={1}).put("member_recognized", "group_converted", "a", member="b")
    story.put("group_converted", "group_converted", "a", to="classic").opened("group_converted", "a").after(100)
    story.rejoined("b").formed().after(20)
    story.stored(b={0, 1})
    last = story.last()
    assert (last.from_type, last.to_type, last.outcome) == ("consumer", "classic", Outcome.STABLE)
    assert last_sentence(story) == (
        "group epoch 3→generation 5: a left; converted to the classic protocol, a was its last member; "
        "the conversion itself revoked nothing; 2 of 2 partitions unowned for up to 120 ms (0.140 partition-seconds); "
        "slowest to rejoin b (100 ms)"
    )
    assert story.report().group_type == "classic"


def test_conversion_of_an_empty_group_is_no_rebalance() -> None:
    story = ConsumerStory()
    story.stable(a={0})
    story.left("a").emptied()
    before = len(story.report().rebalances)
    story.put("group_deleted", "group_converted", "c", to="consumer")
    story.subscribe("c").bump("member_joined", "c").target(c={0}).wait(5).step("c", {0})
    report = story.report()
    assert (len(report.rebalances), report.rebalances[-1].started_ms > START) == (before + 1, True)
    assert (report.rebalances[-1].from_type, report.rebalances[-1].cause.kind) == ("consumer", "member_joined")


def test_conversion_during_a_round_does_not_return_partitions_revoked_for_the_round() -> None:
    story = ConsumerStory()
    story.stable(a={0, 1}, b={2, 3}).joined("d").opened("member_joined", "d").after(100).rejoined("a").after(50)
    story.epoch = story.generation
    story.put("group_deleted", "group_converted", "c", to="consumer")
    for member, held in (("a", {0, 1}), ("b", {2, 3}), ("d", set[int]())):
        story.subscribe(member, "group_converted", claims=set())
        story.step(member, held, phase="PREPARE_REBALANCE", kind="group_converted")
    story.say("group_epoch_bumped", "group_converted", "c").say("target_computed", "group_converted", "c", targets={})
    story.say("group_converted", "group_converted", "c", to="consumer")
    assert story.report().owners.keys() == {("t", 2), ("t", 3)}, "a has revoked; b has not joined yet"
    story.subscribe("c").bump("member_joined", "c").target(a={0}, b={2}, c={1}, d={3})
    for member, held in (("a", {0}), ("b", {2}), ("d", {3})):
        story.wait(10).subscribe(member, "member_rejoined", claims=set())
        story.step(member, held, phase="COMPLETING_REBALANCE").wait(5).step(member, held)
    story.step("c", {1})
    last = story.last()
    assert (last.from_type, last.to_type, last.outcome) == ("classic", "consumer", Outcome.STABLE)
    gaps = {gap.partition.partition: gap.duration_ms for gap in last.gaps}
    # Of a from its JoinGroup of the round on, of b from the one after the conversion.
    assert gaps == {0: 50 + 15, 1: 50 + 45, 2: 5, 3: 5 + 15}
    assert last.rounds[-1].failure is not None
    assert last.rounds[-1].failure.kind == "group_converted"
    assert [each.taken for each in last.conversions] == [0]


# -- static members, and partitions that are free


def static_pair() -> ConsumerStory:
    """The instance `rack-7` (a) has three partitions, `b` one."""
    story = ConsumerStory().subscribe("a", instance="rack-7").subscribe("b")
    story.bump("member_joined", "a").target(a={0, 1, 2}, b={3}).step("a", {0, 1, 2}).step("b", {3})
    return story.wait(60_000)


def test_static_member_that_owns_its_partitions_again_before_its_target_event_has_kept_them() -> None:
    story = static_pair().step("a", {0, 1, 2}, epoch=-2, kind="static_member_left").wait(2_000)
    story.members.discard("a")
    story.say("member_deleted", "static_member_replaced", "a2", member="a")
    story.subscribe("a2", "static_member_replaced", instance="rack-7").step("a2", {0, 1, 2})
    story.say("member_targeted", "static_member_replaced", "a2", member="a2", target={"t": [0, 1, 2]})
    assert links(story)[-1][1] == "over after 2.0 s: 4 of 4 partitions stayed"
    assert story.last().shares == {"a2": 3, "b": 1}


def test_static_member_that_returns_owns_nothing_of_a_topic_that_was_made_anew_meanwhile() -> None:
    story = static_pair().step("a", {0, 1, 2}, epoch=-2, kind="static_member_left").wait(2_000)
    story.bump("topic_metadata_changed").target(a=set(), b={0, 1, 2, 3}).step("b", {0, 1, 2, 3}).wait(1_000)
    story.members.discard("a")
    story.say("member_deleted", "static_member_replaced", "a2", member="a")
    story.subscribe("a2", "static_member_replaced", instance="rack-7")
    story.step("a2", {0, 1, 2}, epoch=0, kind="static_member_replaced").step("a2", set())
    assert [*story.report().owners.values()] == ["b"] * 4


def test_instance_that_joins_after_its_eviction_replaces_no_member() -> None:
    story = static_pair().leave("a", "session_timeout", "no heartbeat for 45.0 s", 45_000)
    story.bump("session_timeout", "a").target(b={0, 1, 2, 3}).wait(3_000)
    story.subscribe("a2", instance="rack-7").bump("member_joined", "a2").target(a2={0, 1, 2}, b={3})
    story.step("b", {3}).step("a2", {0, 1, 2})
    last = story.last()
    assert (last.replacements, last.joined, [each.member_id for each in last.departures]) == ([], ["a2"], ["a"])
    assert last_sentence(story).startswith(
        "group epoch 2→4: rack-7 evicted, no heartbeat for 45.0 s, then rack-7 joined;"
    )
    assert not any("fenced" in text for _, text in links(story))
    assert links(story)[-1][1] == "over after 3.0 s: 4 of 4 partitions stayed"


def test_pause_that_ends_in_an_eviction_counts_no_partition_twice() -> None:
    story = static_pair().step("a", {0, 1, 2}, epoch=-2, kind="static_member_left").wait(45_000)
    story.leave("a", "session_timeout", "it left for a while", 45_000).bump("session_timeout", "a")
    story.target(b={0, 1, 2, 3}).step("b", {0, 1, 2, 3})
    last = story.last()
    assert (last.unowned_partition_s, last.silent_partition_s) == (135.0, 0)


def test_silence_counts_only_while_a_native_member_owned_the_partition() -> None:
    story = ConsumerStory().settled(a={0, 1}).subscribe("b").bump("member_joined", "b").target(a={0}, b={1})
    story.step("a", {0}).step("b", {1}).wait(4_000).leave("b", "session_timeout", "no heartbeat for 45.0 s", 45_000)
    running = story.report().running
    assert running is not None
    assert running.silent_partition_s == 4.0


def test_classic_instance_that_comes_back_to_a_consumer_group_was_silent_meanwhile() -> None:
    story = ConsumerStory().subscribe("a", instance="rack-7", claims=set()).subscribe("b")
    story.bump("member_joined", "a").target(a={0, 1}, b={2}).step("a", {0, 1}).step("b", {2}).wait(60_000)
    cause = ("static_member_replaced", "a2", "instance rack-7 was a")
    story.say("member_assignment_deleted", *cause, member="a", silent_ms=3_000)
    story.members.discard("a")
    story.say("member_deleted", *cause, member="a")
    story.subscribe("a2", "static_member_replaced", instance="rack-7", claims=set())
    story.step("a2", {0, 1}, phase="COMPLETING_REBALANCE").wait(10).step("a2", {0, 1})
    last = story.last()
    assert (last.silent_partition_s, last.unowned_partition_s) == (6.0, 0.02)
    assert {gap.before for gap in last.silences} == {"a2"}


def test_member_waits_only_for_partitions_that_another_member_owns() -> None:
    story = ConsumerStory().settled(a={0}, b={1, 2}).leave("b").bump("member_left", "b")
    story.subscribe("c").bump("member_joined", "c").target(a=set(), c={0, 1, 2})
    story.step("c", set(), "UNRELEASED_PARTITIONS")
    running = story.report().running
    assert running is not None
    texts = [link.text for link in chain(running, Names(story.report().identities))]
    assert "c waits for 1 of a" in texts
