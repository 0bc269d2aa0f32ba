"""`standby`: who has a copy that has caught up may take a partition over, and no other member while its owner lives."""

from __future__ import annotations

import pytest
from tests.unit.assign.server_groups import again, group, member, texts

from kohort.assign.quality import measure_target
from kohort.assign.server.spec import ServerGroup
from kohort.assign.server.standby import StandbyAssignor
from kohort.assign.server.uniform import UniformAssignor


def standby(given: ServerGroup, lag: int = 100) -> dict[str, str]:
    """Assign, and see that the target is valid and complete."""
    target = StandbyAssignor(lag).assign(given)
    quality = measure_target(given, target)
    assert (quality.faults, quality.unassigned) == ((), frozenset())
    return texts(target)


def test_a_partition_waits_for_the_copy_of_the_member_that_shall_have_it() -> None:
    warming = group({"a": member("t", "t-0 t-1"), "b": member("t", lags="t-0:5000 t-1:101")}, t=2)
    assert standby(warming) == {"a": "t-0 t-1", "b": ""}
    warm = group({"a": member("t", "t-0 t-1"), "b": member("t", lags="t-0:5000 t-1:100")}, t=2)
    assert standby(warm) == {"a": "t-0", "b": "t-1"}


def test_a_copy_has_caught_up_at_the_lag_that_its_own_member_accepts() -> None:
    copies = "t-0:5000 t-1:5000"
    for acceptable, target in ((None, ""), (4_999, ""), (5_000, "t-1")):
        bob = member("t", lags=copies)._replace(acceptable_recovery_lag=acceptable)
        assert standby(group({"a": member("t", "t-0 t-1"), "b": bob}, t=2))["b"] == target


def test_a_member_without_a_copy_is_given_nothing_that_has_one() -> None:
    given = group({"a": member("t", "t-0 t-1"), "b": member("t", lags="t-0:9999"), "c": member("t")}, t=2)
    # No member has a copy of t-1: it goes where uniform would send it.
    assert standby(given) == {"a": "t-0", "b": "t-1", "c": ""}


def test_partitions_without_copies_make_up_for_those_that_cannot_move() -> None:
    given = group(
        {"a": member("s f", "s-0 s-1 s-2 f-0 f-1 f-2"), "b": member("s f", lags="s-0:900 s-1:900 s-2:900")}, s=3, f=3
    )
    assert standby(given) == {"a": "s-0 s-1 s-2", "b": "f-0 f-1 f-2"}


def test_when_its_owner_is_gone_a_partition_goes_to_a_copy_that_has_caught_up() -> None:
    given = group({"a": member("t", lags="t-0:3 t-1:70000"), "b": member("t", lags="t-0:500 t-1:80")}, t=2)
    assert standby(given) == {"a": "t-0", "b": "t-1"}


def test_when_its_owner_is_gone_and_no_copy_has_caught_up_the_least_behind_takes_it() -> None:
    given = group({"a": member("t", lags="t-0:800"), "b": member("t", lags="t-0:700"), "c": member("t")}, t=1)
    assert standby(given) == {"a": "", "b": "t-0", "c": ""}


def test_an_unknown_lag_is_the_longest() -> None:
    given = group({"a": member("t", lags="t-0:-3"), "b": member("t", lags="t-0:999999")}, t=1)
    assert standby(given) == {"a": "", "b": "t-0"}


def test_of_several_copies_that_have_caught_up_the_emptiest_members_takes_over() -> None:
    given = group(
        {
            "a": member("t u", "t-0 t-1 t-2"),
            "b": member("t u", "u-0", lags="t-1:0"),
            "c": member("t u", lags="t-0:0 t-1:1"),
        },
        t=3,
        u=1,
    )
    target = standby(given)
    assert sorted(len(each.split()) for each in target.values()) == [1, 1, 2]
    assert target["b"] == "u-0"
    assert target["c"] in {"t-0", "t-1"}


def test_what_has_moved_to_a_copy_stays_there() -> None:
    given = group({"a": member("t", "t-0 t-1"), "b": member("t", lags="t-0:0 t-1:0")}, t=2)
    target = StandbyAssignor(100).assign(given)
    settled = again(given, target)
    assert all(mine is target[name] for name, mine in StandbyAssignor(100).assign(settled).items())


def test_lags_of_unknown_topics_and_of_topics_not_subscribed_to_say_nothing() -> None:
    given = group(
        {"a": member("t", "t-0 t-1"), "b": member("t u", lags="gone-0:0 t-9:0"), "c": member("u", lags="t-0:0")},
        t=2,
        u=2,
    )
    assert standby(given) == texts(UniformAssignor().assign(given))


def test_an_owner_that_no_longer_subscribes_has_no_claim() -> None:
    given = group({"a": member("u", "t-0"), "b": member("t", lags="t-0:5000")}, t=1, u=1)
    assert standby(given) == {"a": "u-0", "b": "t-0"}


def test_without_any_copies_it_is_uniform_racks_included() -> None:
    given = group({"a": member("t", rack="r1"), "b": member("t", rack="r2")}, t="r2 r1 r2 r1")
    assert standby(given) == {"a": "t-1 t-3", "b": "t-0 t-2"}


def test_the_acceptable_lag_is_a_number_of_records() -> None:
    with pytest.raises(ValueError, match=r"acceptable\.recovery\.lag"):
        StandbyAssignor(-1)
