"""Which topics a consumer wants: names, expressions, and what of the cluster matches."""

from __future__ import annotations

import re

import pytest

from kohort.client.cluster.metadata import ClusterView, PartitionView, TopicView
from kohort.client.consumer.topic_subscription import SubscriptionPattern, TopicSubscription

ONE = {0: PartitionView(0, 1, 0, (1,), (1,))}


def cluster(*topics: str) -> ClusterView:
    """A cluster with these topics; those that begin with __ are the brokers' own."""
    return ClusterView(topics={name: TopicView(name, b"", name.startswith("__"), partitions=ONE) for name in topics})


def test_names_are_wanted_whether_they_exist_or_not() -> None:
    assert TopicSubscription.of(["b", "a", "b"]).topics(cluster("a")) == ("b", "a")
    assert TopicSubscription.of("t").topics(cluster()) == ("t",), "one name is one topic, not its letters"


@pytest.mark.parametrize("expression", ["^fl.*", re.compile("fl.*")])
def test_an_expression_stands_for_what_matches_now(expression: str | re.Pattern[str]) -> None:
    flights = TopicSubscription.of(expression)
    assert flights.topics(cluster("flights", "planes")) == ("flights",)
    assert flights.topics(cluster("fleets", "flights")) == ("fleets", "flights")
    assert flights.topics(cluster()) == ()


def test_an_expression_matches_the_whole_name_as_in_java() -> None:
    assert TopicSubscription.of("^flights").topics(cluster("flights", "flights-2")) == ("flights",)
    assert TopicSubscription.of(re.compile("flights")).topics(cluster("my-flights", "flights")) == ("flights",)


def test_names_and_expressions_go_together() -> None:
    assert TopicSubscription.of(["planes", "^fl.*"]).topics(cluster("flights", "planes")) == ("planes", "flights")


def test_brokers_own_topics_match_only_when_asked_for() -> None:
    view = cluster("__consumer_offsets", "t")
    assert TopicSubscription.of("^.*").topics(view) == ("t",)
    assert TopicSubscription.of("^.*", internal=True).topics(view) == ("__consumer_offsets", "t")
    assert TopicSubscription.of("__consumer_offsets").topics(view) == ("__consumer_offsets",)


def test_a_topic_without_partitions_does_not_exist_yet() -> None:
    view = ClusterView(topics={"t": TopicView("t")})
    assert TopicSubscription.of("^t").topics(view) == ()


def test_an_empty_subscription_is_false_and_a_caret_makes_a_pattern() -> None:
    assert not TopicSubscription.of(())
    assert TopicSubscription.of("t").in_group(ClusterView()).matches is None
    assert TopicSubscription.of("^t").in_group(ClusterView()).matches is not None


def test_what_is_no_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        TopicSubscription.of("^(")
    with pytest.raises(TypeError, match="not bytes"):
        TopicSubscription.of([b"t"])  # type: ignore[list-item]


def test_an_expression_for_the_broker_is_its_own_business_and_the_clients_where_that_must() -> None:
    both = TopicSubscription.of(["a", SubscriptionPattern("fl.*"), re.compile("p.*")])
    assert both.regex == "fl.*"
    subscribed = both.in_group(cluster("flights", "planes"))
    assert subscribed.names == ("a", "planes"), "these are subscribed to by name"
    assert subscribed.topics == ("a", "flights", "planes")


def test_several_expressions_for_the_broker_are_one() -> None:
    assert TopicSubscription.of([SubscriptionPattern("a|b"), SubscriptionPattern("c")]).regex == "(?:a|b)|(?:c)"
    assert TopicSubscription.of("a").regex is None


def test_an_expression_that_python_cannot_read_matches_nothing_here() -> None:
    odd = TopicSubscription.of(SubscriptionPattern(r"\pL+"))
    assert odd.unreadable() == r"\pL+"
    assert odd.topics(cluster("t")) == ()
