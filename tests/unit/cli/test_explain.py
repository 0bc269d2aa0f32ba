"""What `kohort explain` reads from its options and from lines that are no events."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

import pytest

from kohort.cli.explain import LAST, chosen, since_ms
from kohort.cli.group_state.group_events import GroupFilter, filed_events, parsed_event, stored_events
from kohort.cli.terminal.failure import CommandFailed
from kohort.group.explain.rebalance_report import UNTOLD, Rebalance


def test_since_is_a_moment_or_how_long_ago() -> None:
    assert since_ms("2026-01-31T12:00:00Z") == 1_769_860_800_000
    for text, seconds in (("90s", 90), ("30m", 1_800), ("1.5h", 5_400), ("2d", 172_800)):
        assert abs(time.time() - seconds - since_ms(text) / 1000) < 5
    for wrong in ("", "yesterday", "m", "2 weeks"):
        with pytest.raises(ArgumentTypeError, match="how long ago, such as 30m or 2h"):
            since_ms(wrong)


def test_the_latest_are_chosen_unless_a_time_is_given() -> None:
    rebalances = [Rebalance(number, 0, 0, UNTOLD, ended_ms=number) for number in range(LAST + 5)]

    def numbers(last: int | None, since: int | None) -> list[int]:
        return [each.number for each in chosen(Namespace(last=last, since=since), rebalances)]

    assert numbers(None, None) == list(range(5, LAST + 5))
    assert numbers(2, None) == [LAST + 3, LAST + 4]
    assert numbers(0, None) == []
    assert numbers(None, 3) == list(range(3, LAST + 5))
    assert numbers(1, 3) == [LAST + 4]


def test_what_is_no_event_is_passed_over() -> None:
    assert parsed_event(b"{") is None
    assert parsed_event(b"[" * 100_000) is None
    assert parsed_event(b"[1]") is None
    assert parsed_event(b'{"group": "g"}') is None
    assert parsed_event(b'{"at_ms": 1}') is None, "of the gateway itself, and no group's"
    picked = GroupFilter("g")
    assert picked.read(b"g", b'{"group": "g", "at_ms": 1}') == {"group": "g", "at_ms": 1}
    assert picked.read(b"other", b'{"group": "other", "at_ms": 1}') is None
    assert picked.read(None, b"") is None
    assert picked.others == {"other"}


def test_sources_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="cannot be read"):
        list(filed_events(tmp_path / "nothing", GroupFilter("g"), lambda _: None))
    with pytest.raises(CommandFailed, match="there is no directory"):
        list(stored_events(tmp_path / "nowhere", GroupFilter("g"), lambda _: None))
