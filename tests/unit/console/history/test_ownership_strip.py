"""Who owned what when, from the rebalances of a group."""

from __future__ import annotations

from tests.unit.console.looks import look, member

from kohort.client.admin.group_descriptions import GroupDescription
from kohort.console.history.inferred_history import InferredHistory
from kohort.console.history.ownership_strip import owned_spans, ownership_drawing
from kohort.drawing.ownership_drawing import inline_svg
from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import GroupReport
from kohort.model.ids import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def seen(*looks: GroupDescription) -> GroupReport:
    history = InferredHistory("billing", last=10)
    for place, each in enumerate(looks):
        history.fold(1000 * (place + 1), each)
    return history.report(10_000)


def test_spans_reach_from_owner_to_owner_with_the_gap_between_them() -> None:
    report = seen(
        look("Stable", member("a-1", 0, 1)),
        look("PreparingRebalance", member("a-1"), member("b-1")),
        look("Stable", member("a-1", 0), member("b-1", 1)),
    )
    spans, gaps = owned_spans(report, 0, 10_000)
    assert spans[ONE] == [("a-1", 0, 2000), ("b-1", 3000, 10_000)]
    assert spans[ZERO] == [("a-1", 0, 2000), ("a-1", 3000, 10_000)]
    assert gaps == {ZERO: [(2000, 3000)], ONE: [(2000, 3000)]}


def test_a_move_without_a_gap_is_at_the_end_of_its_rebalance() -> None:
    report = seen(
        look("Stable", member("a-1", 0, 1)),
        look("Stable", member("a-1", 0), member("b-1", 1)),
        look("Stable", member("b-1", 0, 1)),
    )
    spans, gaps = owned_spans(report, 0, 10_000)
    assert spans[ZERO] == [("a-1", 0, 3000), ("b-1", 3000, 10_000)]
    assert spans[ONE] == [("a-1", 0, 2000), ("b-1", 2000, 10_000)]
    assert gaps == {}


def test_what_was_before_the_drawing_is_cut() -> None:
    report = seen(look("Stable", member("a-1", 0)), look("Stable", member("b-1", 0)))
    spans, _ = owned_spans(report, 5000, 10_000)
    assert spans == {ZERO: [("b-1", 5000, 10_000)]}


def test_a_gap_that_is_open_reaches_until_now() -> None:
    report = seen(look("Stable", member("a-1", 0)), look("PreparingRebalance", member("a-1")))
    spans, gaps = owned_spans(report, 0, 10_000)
    assert spans == {ZERO: [("a-1", 0, 2000)]}
    assert gaps == {ZERO: [(2000, 10_000)]}


def test_a_time_without_members_is_neither_owned_nor_a_gap() -> None:
    report = seen(look("Stable", member("a-1", 0)), look("Empty"), look("Empty"), look("Stable", member("b-1", 0)))
    drawing = ownership_drawing(report, Names(report.identities), 0, 10_000)
    [lane] = drawing.groups[0].lanes
    assert [(span.owner, span.from_ms, span.until_ms) for span in lane.spans] == [("a", 0, 2000), ("b", 4000, 10_000)]
    assert (list(lane.gaps), lane.empty) == ([], [(2000, 4000)])


def test_a_name_that_is_a_script_is_only_a_name_in_the_drawing() -> None:
    report = seen(look("Stable", member("<script>x</script>-1", 0)), look("Stable", member("b-1", 0)))
    drawn = inline_svg(ownership_drawing(report, Names(report.identities), 0, 10_000))
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


def test_events_of_a_broker_give_the_same_strip() -> None:
    """One eager member, then none, as the broker writes it."""
    explanation = Explanation("billing", last=10)
    base = {"group": "billing", "generation": 1, "state": "Stable"}
    for event in (
        {"event": "member_joined", "member": "a-1", "client": "a", "at_ms": 1000, "cause": {"kind": "member_joined"}},
        {"event": "round_opened", "members": ["a-1"], "at_ms": 1000, "cause": {"kind": "member_joined"}},
        {"event": "generation_formed", "members": ["a-1"], "at_ms": 1500, "cause": {"kind": "joins_stopped"}},
        {
            "event": "assignment_stored", "members": ["a-1"], "at_ms": 1600,
            "assignments": {"a-1": {"orders": [0]}}, "cause": {"kind": "assignment"},
        },
        {"event": "member_left", "member": "a-1", "at_ms": 4000, "cause": {"kind": "member_left"}},
        {"event": "group_emptied", "at_ms": 4000, "cause": {"kind": "member_left"}},
    ):  # fmt: skip
        explanation.fold(base | event)
    spans, _ = owned_spans(explanation.report(9000), 0, 9000)
    assert spans[ZERO][0] == ("a-1", 1600, 4000)
