"""How long callbacks took, from the events of a group."""

from __future__ import annotations

from tests.unit.group.consumer_story import ConsumerStory
from tests.unit.group.story import Story

from kohort.cli.what_if.what_if_inputs import CallbackTime, EventTimes

HEARTBEAT_MS = 3_000


def measured(story: Story, network_ms: float = 0.0) -> CallbackTime:
    measuring = EventTimes("g")
    for event in story.events:
        measuring.fold(event)
    return measuring.measured(network_ms, HEARTBEAT_MS)


def eager() -> Story:
    """`b` joins long after the first rebalance; `a` takes 250 ms until it has joined again."""
    story = Story()
    story.stable(a={0, 1}).after(60_000).joined("b").opened("member_joined", "b").after(250).rejoined("a")
    return story.formed().stored(a={0}, b={1})


def test_eager_member_runs_its_callback_between_the_opening_of_a_round_and_its_join() -> None:
    assert measured(eager()) == CallbackTime(250, 1)
    assert measured(eager(), network_ms=10) == CallbackTime(230, 1)


def test_member_that_may_have_waited_for_its_heartbeat_says_nothing_of_its_callback() -> None:
    story = eager()
    story.after(1_000).joined("c").opened("member_joined", "c").after(40).rejoined("a").after(1_500).rejoined("b")
    story.formed().stored(a={0}, b={1}, c=set())
    assert measured(story) == CallbackTime(250, 1)


def test_time_that_members_waited_to_learn_of_a_round_together_is_not_of_their_callbacks() -> None:
    story = Story()
    story.stable(a={0, 1}).after(60_000).joined("b").opened("member_joined", "b").after(900)
    story.put("round_announced", "members_reached", waited_ms=900).after(250).rejoined("a")
    assert measured(story.formed().stored(a={0}, b={1})) == CallbackTime(250, 1)


def test_native_member_runs_both_callbacks_between_a_target_and_its_acknowledgement() -> None:
    story = ConsumerStory().settled(a={0, 1}, b={2, 3})
    story.subscribe("c").bump("member_joined", "c").target(a={0}, b={2, 3}, c={1})
    story.step("c", set(), "UNRELEASED_PARTITIONS").step("a", {0}, "UNREVOKED_PARTITIONS", asked={1}, epoch=2)
    story.wait(600).step("a", {0}).step("b", {2, 3}).step("c", {1})
    assert measured(story) == CallbackTime(300, 1)


def test_each_members_shortest_time_counts() -> None:
    story = eager()
    story.after(60_000).joined("c").opened("member_joined", "c").after(100).rejoined("a").after(300).rejoined("b")
    story.formed().stored(a={0}, b={1}, c=set())
    assert measured(story) == CallbackTime(250, 2), "a in 100, b in 400"


def test_session_and_offers_are_those_that_members_sent() -> None:
    measuring = EventTimes("g")
    joined = {"at_ms": 1, "group": "g", "event": "member_joined", "member": "a", "protocols": ["range", "sticky"]}
    measuring.fold({**joined, "generation": 0, "session_timeout_ms": 9_000, "rebalance_timeout_ms": 70_000})
    assert (measuring.session_timeout_ms, measuring.rebalance_timeout_ms) == (9_000, 70_000)
    assert measuring.offers == {"a": ("range", "sticky")}
