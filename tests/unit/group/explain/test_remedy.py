"""What would have avoided the cost of a rebalance; each command is one that kohort parses."""

from __future__ import annotations

import pytest

from kohort.cli.main import parser_for
from kohort.group.explain.explain_text import Names
from kohort.group.explain.partition_ownership import Gap
from kohort.group.explain.rebalance_report import GroupEpoch, Rebalance, ReportedCause, Round
from kohort.group.explain.remedy import Remedy, remedies
from kohort.model.ids import TopicPartition

NAMES = Names({})
CAUSE = ReportedCause("member_joined", "c")


def rebalance(kind: str = "classic", **more: object) -> Rebalance:
    shares = {"a": 1, "b": 1}
    return Rebalance(1, 0, 1, CAUSE, ended_ms=9_000, from_type=kind, to_type=kind, shares=shares, **more)  # type: ignore[arg-type]


def gap(number: int, until_ms: int, before: str | None, after: str | None) -> Gap:
    return Gap(TopicPartition("t", number), 0, until_ms, before, after)


def found(of: Rebalance) -> list[Remedy]:
    shown = remedies(of, NAMES)
    for each in shown:
        words = [*each.verb, "billing", *each.options]
        assert parser_for(words).parse_args(words).group == "billing"
        assert each.text.endswith((".", ":"))
    return shown


def test_what_cost_little_needs_no_remedy() -> None:
    assert found(rebalance(gaps=[gap(0, 400, "a", "a"), gap(1, 500, "b", "c")])) == []


def test_eager_members_that_gave_up_what_they_got_back_are_to_move_to_another_protocol() -> None:
    first, *_ = found(rebalance(gaps=[gap(0, 4_000, "a", "a"), gap(1, 4_000, "b", "b"), gap(2, 4_000, "b", "c")]))
    assert first.text.startswith("2 partitions stood still and went back to the owner they had")
    assert (first.verb, first.options) == (("migrate", "plan"), ("--to", "consumer"))


def test_a_member_that_joins_late_is_named_and_the_forecast_has_its_time() -> None:
    slow = Round(0, CAUSE, rejoin_ms={"a": 30, "b": 4_200})
    first, *_ = found(rebalance(gaps=[gap(0, 4_200, "a", "c")], rounds=[slow]))
    assert first.text.startswith("All members waited 4.2 s for b: ")
    assert first.options == ("--bounce", "rolling", "--poll-ms", "4200", "--compare")


def test_the_partitions_of_a_dead_member_wait_for_its_session() -> None:
    classic, *_ = found(rebalance(gaps=[gap(0, 10, "c", "a")], silences=[gap(0, 45_000, "c", None)]))
    assert "c sent no heartbeat for 45.0 s" in classic.text
    assert classic.options == ("--kill=a", "--session", "10s")
    native, *_ = found(rebalance("consumer", silences=[gap(0, 45_000, "c", None)]))
    assert "consumer.session.timeout.ms" in native.text


def test_a_slow_revocation_of_a_consumer_group_is_named() -> None:
    epoch = GroupEpoch(0, CAUSE, 2, revoke_ms={"a": 3_000})
    first, *_ = found(rebalance("consumer", gaps=[gap(0, 3_000, "a", "c")], epochs=[epoch]))
    assert first.text.startswith("The next owners waited 3.0 s for a to revoke partitions")


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_what_costs_for_any_other_reason_is_compared_with_static_members(kind: str) -> None:
    first, *_ = found(rebalance(kind, gaps=[gap(0, 4_000, "c", "a")]))
    assert first.options == ("--bounce", "rolling", "--compare")


def test_the_id_of_a_member_is_no_option() -> None:
    of = rebalance(silences=[gap(0, 45_000, "c", None)])
    of.shares = {"--all": 2}
    first, *_ = found(of)
    assert first.options[0] == "--kill=--all"
