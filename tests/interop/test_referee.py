"""What the referee of a group would say: each of its complaints, by reports made up for it."""

from __future__ import annotations

import pytest
from interop.account import Account
from interop.ownership import check_repeats, check_single_owner, kept, longest_pause_s


def account(name: str, *events: tuple[float, str, object]) -> Account:
    """Return a member that has reported these; `gives` and `loses` name what it holds after that."""
    member = Account(name)
    for at_s, event, what in events:
        match event:
            case "owns" | "gives" | "loses":
                why = {"owns": "assigned", "gives": "revoked", "loses": "lost"}[event]
                member.take({"event": "owns", "at_s": at_s, "partitions": what, "why": why})
            case "read":
                assert isinstance(what, list)
                member.take({"event": "read", "at_s": at_s, "records": [(*place, "key", "value") for place in what]})
            case "committed":
                member.take({"event": "committed", "at_s": at_s, "offsets": what})
            case _:
                member.take({"event": event, "at_s": at_s})
    return member


def test_two_members_that_hold_a_partition_at_once_are_seen() -> None:
    first = account("first", (1.0, "owns", [0, 1]), (5.0, "gives", [0]))
    second = account("second", (4.5, "owns", [1]))
    with pytest.raises(AssertionError, match=r"first and second both held 1 for 0\.500 s"):
        check_single_owner([first, second])


def test_partition_handed_over_has_one_holder_at_any_time() -> None:
    first = account("first", (1.0, "owns", [0, 1]), (5.0, "gives", [0]))
    check_single_owner([first, account("second", (5.0, "owns", [1]))])


def test_loss_that_is_not_allowed_is_found() -> None:
    member = account("first", (1.0, "owns", [0]), (5.0, "loses", []))
    with pytest.raises(AssertionError, match="first reported as lost 0"):
        check_single_owner([member])
    check_single_owner([member], may_lose=[member])


def test_member_that_leaves_in_the_middle_of_a_round_may_report_a_loss() -> None:
    check_single_owner([account("first", (1.0, "owns", [0]), (5.0, "leaving", None), (5.1, "loses", []))])


def test_member_that_turns_without_a_callback_held_until_it_stopped_polling() -> None:
    first = account("first", (1.0, "owns", [0]), (5.0, "turning", None), (6.0, "turned", None))
    assert first.is_native
    check_single_owner([first, account("second", (5.5, "owns", [0]))])


def test_record_read_again_after_its_commit_is_seen() -> None:
    first = account("first", (1.0, "owns", [0]), (2.0, "read", [(0, 0), (0, 1)]), (3.0, "committed", {"0": 1}))
    first.take({"event": "owns", "partitions": [], "why": "revoked", "at_s": 4.0})
    assert check_repeats([first, account("second", (5.0, "owns", [0]), (6.0, "read", [(0, 1)]))]) == 1
    with pytest.raises(AssertionError, match="second read 0@0 again, committed was 1"):
        check_repeats([first, account("second", (5.0, "owns", [0]), (6.0, "read", [(0, 0)]))])


def test_commit_confirmed_after_the_next_holder_began_excuses_what_it_read() -> None:
    first = account("first", (1.0, "owns", [0]), (2.0, "read", [(0, 0)]), (5.5, "committed", {"0": 1}))
    assert check_repeats([first, account("second", (5.0, "owns", [0]), (6.0, "read", [(0, 0)]))]) == 1


def test_partition_given_up_and_got_back_was_not_kept() -> None:
    member = account("first", (1.0, "owns", [0, 1]), (2.0, "gives", [1]), (3.0, "owns", [0, 1]))
    assert kept(member, {0, 1}, 1) == {1}


def test_pause_is_the_longest_time_without_a_record_of_the_partition() -> None:
    member = account("first", (1.0, "read", [(0, 0)]), (2.0, "read", [(1, 0)]), (4.0, "read", [(0, 1)]))
    assert longest_pause_s(member, 0, 0.0, 5.0) == 3.0
