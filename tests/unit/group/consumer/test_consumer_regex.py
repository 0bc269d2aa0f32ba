"""Subscriptions by regular expression: resolved at once, kept up to date, forgotten with their last subscriber.

Where they are not resolved at once (Apache Kafka 4.3), that follows a response, ten seconds after the last at least.
"""

from __future__ import annotations

from typing import Any

from tests.unit.group.consumer_world import ConsumerWorld, parts

from kohort.group.events import RegexDeleted, RegexStored
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

FOOS = {"subscribed_topic_names": None, "subscribed_topic_regex": "foo.*"}


def with_regex(*member_ids: str, **settings: Any) -> ConsumerWorld:
    world = ConsumerWorld(**settings)
    for member_id in member_ids:
        world.enters(member_id, **FOOS)
    return world


def regex_records(world: ConsumerWorld, start: int = 0) -> list[RegexStored | RegexDeleted]:
    return [record for record in world.records_since(start) if isinstance(record, RegexStored | RegexDeleted)]


def test_new_expression_is_resolved_in_the_answer_to_the_join() -> None:
    world = ConsumerWorld()
    assert world.enters("A", **FOOS).assignment == parts("foo-0,1,2,3,4,5")
    (record,) = regex_records(world)
    assert isinstance(record, RegexStored)
    assert (record.regex, record.topics) == ("foo.*", ("foo",))


def test_known_regex_is_not_resolved_again() -> None:
    world = with_regex("A")
    before = len(world.log)
    world.enters("B", **FOOS)
    assert not regex_records(world, before)
    assert world.consumer_group().regex_subscribers == {"foo.*": 2}


def test_invalid_expression_is_refused_and_no_group_appears() -> None:
    world = ConsumerWorld()
    answer = world.comes("A", subscribed_topic_regex="foo(")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "foo(" in answer.result.error_message
    assert not world.shard.groups
    world.enters("A")
    assert world.tries("A", subscribed_topic_regex="(").error is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_another_regex_bumps_the_epoch_and_the_old_one_is_dropped() -> None:
    world = with_regex("A")
    before = len(world.log)
    result = world.beats("A", "foo-0,1,2,3,4,5", subscribed_topic_regex="bar|foo")
    assert (result.member_epoch, result.assignment) == (3, parts("foo-0,1,2,3,4,5 bar-0,1,2"))
    assert [(type(record), record.regex) for record in regex_records(world, before)] == [
        (RegexStored, "bar|foo"),
        (RegexDeleted, "foo.*"),
    ]


def test_expression_that_another_member_uses_stays() -> None:
    world = with_regex("A", "B")
    before = len(world.log)
    world.beats("A", subscribed_topic_regex="bar")
    assert [record.regex for record in regex_records(world, before)] == ["bar"]
    assert world.consumer_group().regexes.keys() == {"foo.*", "bar"}


def test_empty_expression_clears_the_subscription() -> None:
    world = with_regex("A")
    world.beats("A", subscribed_topic_regex="")
    assert world.state("A")[0] == 2
    assert world.beats("A", "").member_epoch == 3
    assert world.assigned("A") == ()
    assert not world.consumer_group().regexes
    assert world.consumer_group().metadata_hash == 0


def test_names_and_an_expression_add_up() -> None:
    world = ConsumerWorld()
    result = world.enters("A", "bar", subscribed_topic_regex="foo.*")
    assert result.assignment == parts("foo-0,1,2,3,4,5 bar-0,1,2")


def test_topic_that_matches_is_assigned_as_soon_as_it_is_created() -> None:
    world = with_regex("A")
    before = len(world.log)
    world.topic_changes("foo2", 1)
    assert world.woken == ["A"]
    assert world.beats("A", "foo-0,1,2,3,4,5").assignment == parts("foo-0,1,2,3,4,5 foo2-0")
    (record,) = regex_records(world, before)
    assert isinstance(record, RegexStored)
    assert (record.topics, record.version) == (("foo", "foo2"), 1)
    cause = world.consumer_group().epoch_cause
    assert cause is not None
    assert (cause.kind, cause.detail) == (CauseKind.TOPIC_METADATA_CHANGED, "foo2")


def test_topic_that_matches_nothing_changes_nothing() -> None:
    world = with_regex("A")
    before = len(world.log)
    world.topic_changes("other", 1)
    assert len(world.log) == before


def test_deleted_topic_leaves_the_expression() -> None:
    world = with_regex("A")
    world.topic_changes("foo", 0)
    assert world.consumer_group().regexes["foo.*"].topics == ()
    assert world.beats("A").assignment == ()


def test_expression_goes_with_its_last_subscriber() -> None:
    world = with_regex("A", "B")
    world.goes("A")
    assert world.consumer_group().regexes.keys() == {"foo.*"}
    world.goes("B")
    assert not world.consumer_group().regexes
    assert not world.shard.regex_followers


def test_static_member_that_comes_back_keeps_the_expression() -> None:
    world = ConsumerWorld()
    world.enters("A", instance_id="a", **FOOS)
    world.goes("A", -2, instance_id="a")
    before = len(world.log)
    result = world.enters("A2", instance_id="a", **FOOS)
    assert result.assignment == parts("foo-0,1,2,3,4,5")
    assert not regex_records(world, before)
    assert world.consumer_group().epoch == 2


# -- not at once


def late(*member_ids: str) -> ConsumerWorld:
    return with_regex(*member_ids, resolves_at_once=False)


def test_late_expression_joins_at_the_epoch_of_the_group_and_is_assigned_with_the_next_heartbeat() -> None:
    world = ConsumerWorld(resolves_at_once=False)
    joined = world.enters("A", **FOOS)
    assert (joined.member_epoch, joined.assignment) == (1, ())
    assert world.consumer_group().epoch == 2
    (record,) = regex_records(world)
    assert isinstance(record, RegexStored)
    assert record.topics == ("foo",)
    beaten = world.beats("A", "")
    assert (beaten.member_epoch, beaten.assignment) == (2, parts("foo-0,1,2,3,4,5"))


def test_late_expression_that_matches_nothing_bumps_no_epoch() -> None:
    world = ConsumerWorld(resolves_at_once=False)
    world.enters("A", subscribed_topic_names=None, subscribed_topic_regex="nothing")
    assert world.consumer_group().regexes["nothing"].topics == ()
    assert world.consumer_group().epoch == 1


def test_known_expression_bumps_the_epoch_of_a_late_group_too() -> None:
    world = late("A")
    joined = world.enters("B", **FOOS)
    assert (joined.member_epoch, world.consumer_group().epoch) == (3, 3)


def test_late_expressions_are_resolved_with_the_first_heartbeat_ten_seconds_after_the_last_ones() -> None:
    world = late("A")
    world.beats("A", "")
    world.advance(10_000)
    assert world.enters("B", subscribed_topic_names=None, subscribed_topic_regex="bar").assignment == ()
    world.beats("A")
    assert world.consumer_group().regexes.keys() == {"foo.*"}
    world.advance(1)
    before = len(world.log)
    world.beats("A")
    assert [record.regex for record in regex_records(world, before)] == ["bar", "foo.*"]
    assert world.beats("B", "").assignment == parts("bar-0,1,2")


def test_member_of_a_late_group_revokes_what_its_next_expression_may_not_match() -> None:
    world = late("A")
    world.beats("A", "")
    result = world.beats("A", subscribed_topic_regex="bar")
    assert (result.member_epoch, result.assignment) == (2, ())
    assert not world.consumer_group().regexes
    world.beats("A", "")  # there is no last resolution any more
    assert world.beats("A", "").assignment == parts("bar-0,1,2")


def test_new_topic_reaches_a_late_group_at_once_but_for_expressions_that_are_not_resolved() -> None:
    world = late("A")
    world.beats("A", "")
    world.enters("B", subscribed_topic_names=None, subscribed_topic_regex="foo2")
    world.topic_changes("foo2", 1)
    assert world.consumer_group().regexes.keys() == {"foo.*"}
    assert world.consumer_group().regexes["foo.*"].topics == ("foo", "foo2")


def test_names_beside_a_late_expression_are_assigned_at_once() -> None:
    world = ConsumerWorld(resolves_at_once=False)
    assert world.enters("A", "bar", subscribed_topic_regex="foo.*").assignment == parts("bar-0,1,2")
    assert world.beats("A", "bar-0,1,2").assignment == parts("foo-0,1,2,3,4,5 bar-0,1,2")


def test_classic_member_has_the_expressions_of_others_resolved() -> None:
    world = ConsumerWorld(resolves_at_once=False, subscription_of=lambda _: Subscription(("foo",)))
    world.enters("A", **FOOS)
    world.enters("B", subscribed_topic_names=None, subscribed_topic_regex="bar")
    world.advance(10_001)
    world.join(member_id="C")
    assert world.consumer_group().regexes.keys() == {"foo.*", "bar"}
