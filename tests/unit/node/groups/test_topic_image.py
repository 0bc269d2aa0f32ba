"""The topics of a node as its groups see them, and which of them an expression matches."""

from __future__ import annotations

import pytest
from tests.unit.node.desk import Desk

from kohort.group.coordinator_settings import ImageTopic
from kohort.node.groups import topic_image
from kohort.node.groups.topic_image import NodeTopics


def image_of(desk: Desk) -> NodeTopics:
    return NodeTopics(desk.node.topics, desk.node.config.broker_rack)


def drop(desk: Desk, name: str) -> None:
    topic = desk.node.topics.get(name)
    assert topic is not None
    desk.node.topics.delete(topic, desk.clock.now_ms())


def test_topic_is_found_by_name_and_by_id_with_its_racks() -> None:
    desk = Desk(broker_rack="r1")
    topic_id = desk.create("orders", 2)
    image = image_of(desk)
    expected = ImageTopic("orders", topic_id, 2, (frozenset({"r1"}), frozenset({"r1"})))
    assert image.topic("orders") == image.topic_by_id(topic_id) == expected
    assert image.topic("other") is None
    assert image.topic_by_id(b"\1" * 16) is None


def test_topic_that_grows_or_is_made_anew_is_seen_as_it_is() -> None:
    desk = Desk()
    first_id = desk.create("orders", 1)
    image = image_of(desk)
    assert image.topic("orders") == ImageTopic("orders", first_id, 1)
    topic = desk.node.topics.get("orders")
    assert topic is not None
    desk.node.topics.grow(topic, 3, desk.clock.now_ms())
    assert image.topic("orders") == ImageTopic("orders", first_id, 3)
    drop(desk, "orders")
    assert image.topic("orders") is None
    assert image.topic_by_id(first_id) is None
    second_id = desk.create("orders", 1)
    assert image.topic_by_id(second_id) == ImageTopic("orders", second_id, 1)


def test_expression_matches_whole_names() -> None:
    desk = Desk()
    for name in ("orders", "orders-eu", "old.orders"):
        desk.create(name)
    image = image_of(desk)
    assert image.matching("orders", "g") == {"orders"}
    assert image.matching("orders.*", "g") == {"orders", "orders-eu"}
    assert image.matching("(?i)ORDERS|old.+", "g") == {"orders", "old.orders"}
    assert image.matching("x", "g") == frozenset()


def test_set_of_an_expression_follows_topics_that_come_and_go() -> None:
    desk = Desk()
    desk.create("orders-1")
    image = image_of(desk)
    assert image.matching("orders-.", "g") == {"orders-1"}
    desk.create("orders-2")
    desk.create("invoices")
    assert image.matching("orders-.", "g") == {"orders-1", "orders-2"}
    drop(desk, "orders-1")
    assert image.matching("orders-.", "g") == {"orders-2"}


def test_change_of_a_topic_is_matched_and_not_the_other_topics_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    for number in range(50):
        desk.create(f"orders-{number}")
    image = image_of(desk)
    asked: list[str] = []
    matches_really = topic_image.Expression.matches

    def matches(expression: topic_image.Expression, name: str) -> bool:
        asked.append(name)
        return matches_really(expression, name)

    monkeypatch.setattr(topic_image.Expression, "matches", matches)
    assert len(image.matching("orders-.*", "g") or ()) == len(asked) == 50
    asked.clear()
    desk.create("orders-50")
    assert len(image.matching("orders-.*", "g") or ()) == 51
    assert asked == ["orders-50"]
    drop(desk, "orders-50")
    assert len(image.matching("orders-.*", "g") or ()) == 50
    assert asked == ["orders-50"]


def test_expression_matches_internal_topics_as_on_kafka_but_not_the_topic_of_events() -> None:
    desk = Desk()
    desk.create("orders")
    desk.create("__consumer_offsets", 2)
    image = image_of(desk)
    assert image.matching(".*", "g") == {"orders", "__consumer_offsets"}
    assert image.is_matched(".*", "__consumer_offsets")
    desk.create("__kohort_group_events")
    assert image.matching(".*", "g") == {"orders", "__consumer_offsets"}
    assert not image.is_matched(".*", "__kohort_group_events")


def test_expression_is_asked_of_one_name_without_a_walk() -> None:
    desk = Desk()
    image = image_of(desk)
    assert image.is_matched("orders-.*", "orders-9")
    assert not image.is_matched("orders-.*", "invoices")
    assert not image.is_matched("(", "orders")


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing ): ("),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(?=a)", "invalid perl operator: (?="),
        (r"\1", r"invalid escape sequence: \1"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_invalid_expression_is_refused_with_the_reason(regex: str, reason: str) -> None:
    image = image_of(Desk())
    assert reason in (image.regex_error(regex) or "")
    assert image.matching(regex, "g") == frozenset()


@pytest.mark.parametrize("regex", ["", ".*", r"\pL+", "(a+)+b", "[[:alpha:]]+", "x" * 32_767])
def test_valid_expression_has_no_error(regex: str) -> None:
    assert image_of(Desk()).regex_error(regex) is None


def test_expression_that_would_take_ruinously_long_is_refused_and_a_small_one_never() -> None:
    desk = Desk()
    image = image_of(desk)
    large = "(.{0,30}a){20}"
    assert image.regex_error(large) is None
    image._matchable = {"x" * 1_000_000}
    assert "is too large for the topics of this cluster" in (image.regex_error(large) or "")
    assert image.regex_error("orders-[a-z0-9]{1,20}") is None


def test_expression_too_long_to_be_stored_is_refused() -> None:
    assert "32768 characters" in (image_of(Desk()).regex_error("x" * 32_768) or "")


def test_least_recently_used_regexes_are_evicted_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_image, "EXPRESSIONS", 2)
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.create(name)
    image = image_of(desk)
    for regex in ("a", "b", "a", "c"):
        assert image.matching(regex, "g") == {regex}
    assert list(image._matched) == ["a", "c"]
    assert image._matched_names == 2
    drop(desk, "b")
    assert image.matching("b", "g") == frozenset()


def test_names_that_expressions_match_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_image, "NAMES", 5)
    desk = Desk()
    for number in range(4):
        desk.create(f"t{number}")
    image = image_of(desk)
    for regex in ("t.", "t..?", "t.+"):
        assert len(image.matching(regex, "g") or ()) == 4
    assert (list(image._matched), image._matched_names) == (["t.+"], 4)


def test_steps_of_expressions_are_bounded_each_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    image = image_of(Desk())
    assert "pattern too large" in (image.regex_error("x{900}" * 100) or ""), "4.8 MB of memory"
    monkeypatch.setattr(topic_image, "STEPS", 1_000)
    for regex in ("x{400}", "y{400}", "z{400}"):
        assert image.matching(regex, "g") == frozenset()
    assert list(image._matched) == ["y{400}", "z{400}"]
    assert 800 <= image._steps <= 1_000


def test_without_google_re2_an_expression_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_image, "re2", None)
    image = image_of(Desk())
    assert image.regex_error(".*") == topic_image.MISSING
    assert image.matching(".*", "g") == frozenset()
