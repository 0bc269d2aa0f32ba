"""Groups that fall back to being observed: for which harm, and for how long."""

from __future__ import annotations

from kohort.gateway.policies.fallbacks import HOSTS, MOST_REMEMBERED, RETURN_MS, WITHIN_MS, Fallbacks


class Harms:
    """The falls of some groups."""

    def __init__(self) -> None:
        self.fallen: list[tuple[str, str]] = []
        self.fallbacks = Fallbacks(lambda group_id, harm: self.fallen.append((group_id, harm)), 1_000)


def test_a_member_that_comes_back_by_another_connection_has_given_up() -> None:
    harms = Harms()
    harms.fallbacks.disconnected("g", "m1", "h", 0)
    harms.fallbacks.seen("g", "m2", 10)
    assert not harms.fallbacks.is_fallen("g", 10)
    harms.fallbacks.seen("g", "m1", 20)
    assert harms.fallen == [("g", "member m1 abandoned its connection while its heartbeat was parked")]
    assert harms.fallbacks.is_fallen("g", 20)
    assert not harms.fallbacks.is_fallen("other", 20)


def test_a_process_that_ends_without_a_word_is_no_harm() -> None:
    harms = Harms()
    harms.fallbacks.disconnected("g", "m1", "h", 0)
    harms.fallbacks.seen("g", "m1", RETURN_MS + 1)
    assert harms.fallen == []


def test_disconnects_of_several_hosts_in_a_short_time_are_harm() -> None:
    harms = Harms()
    for number in range(HOSTS):
        harms.fallbacks.disconnected("g", f"m{number}", f"h{number}", number * WITHIN_MS)
    assert harms.fallen == []
    for number in range(HOSTS):
        harms.fallbacks.disconnected("g", f"n{number}", f"h{number}", HOSTS * WITHIN_MS)
    assert [group_id for group_id, _ in harms.fallen] == ["g"]


def test_all_members_of_one_host_that_disconnect_are_no_harm() -> None:
    harms = Harms()
    for number in range(HOSTS + 5):
        harms.fallbacks.disconnected("g", f"m{number}", "h", number)
    assert harms.fallen == []


def test_a_group_comes_back_after_the_stated_time_and_falls_once() -> None:
    harms = Harms()
    harms.fallbacks.evicted("g", "m1", 0)
    harms.fallbacks.evicted("g", "m2", 500)
    assert len(harms.fallen) == 1
    assert harms.fallbacks.fallen(1_000) == 1
    assert harms.fallbacks.is_fallen("g", 1_499)
    assert not harms.fallbacks.is_fallen("g", 1_500)
    assert harms.fallbacks.fallen(1_500) == 0


def test_what_is_remembered_is_bounded() -> None:
    harms = Harms()
    for number in range(MOST_REMEMBERED + 10):
        harms.fallbacks.disconnected(f"g{number}", "m", "h", 0)
    harms.fallbacks.seen("g0", "m", 1)
    assert harms.fallen == []
    harms.fallbacks.seen(f"g{MOST_REMEMBERED}", "m", 1)
    assert [group_id for group_id, _ in harms.fallen] == [f"g{MOST_REMEMBERED}"]
