"""Capacity: shares in proportion to weights."""

from __future__ import annotations

import pytest
from tests.unit.assign.groups import group, member, rejoined, texts

from kohort.assign import CapacityAssignor, CooperativeStickyAssignor, GroupSpec
from kohort.assign.user_data import encode_weight, is_marked


def loads(spec: GroupSpec) -> dict[str, int]:
    return {name: len(each.partitions) for name, each in CapacityAssignor().assign(spec).items()}


def weight(of: float) -> bytes:
    return encode_weight(of)


def test_shares_are_in_proportion_to_weights() -> None:
    spec = group({"small": member("t", user_data=weight(2)), "large": member("t", user_data=weight(6))}, t=8)
    assert loads(spec) == {"small": 2, "large": 6}


def test_what_does_not_divide_goes_where_the_shares_stay_nearest() -> None:
    spec = group({"a": member("t", user_data=weight(1)), "b": member("t", user_data=weight(2.5))}, t=8)
    assert loads(spec) == {"a": 2, "b": 6}


def test_a_member_that_sends_no_weight_counts_as_one() -> None:
    spec = group({"a": member("t"), "b": member("t", user_data=weight(3))}, t=4)
    assert loads(spec) == {"a": 1, "b": 3}


def test_with_equal_weights_it_is_cooperative_sticky() -> None:
    spec = group({"a": member("t u", "t-0 t-1 t-2"), "b": member("u"), "c": member("t")}, t=4, u=2)
    assert CapacityAssignor().assign(spec) == CooperativeStickyAssignor().assign(spec)


def test_a_stronger_newcomer_takes_its_share_one_round_later_and_nothing_else_moves() -> None:
    spec = group(
        {"a": member("t", "t-0 t-1 t-2"), "b": member("t", "t-3 t-4 t-5"), "c": member("t", user_data=weight(4))}, t=6
    )
    first = CapacityAssignor().assign(spec)
    assert texts(first) == {"a": "t-0", "b": "t-3", "c": ""}
    second = CapacityAssignor().assign(rejoined(spec, first, 2))
    assert texts(second) == {"a": "t-0", "b": "t-3", "c": "t-1 t-2 t-4 t-5"}


def test_subscriptions_come_before_weights() -> None:
    spec = group({"a": member("t", user_data=weight(1)), "b": member("u", user_data=weight(99))}, t=3, u=1)
    assert loads(spec) == {"a": 3, "b": 1}


@pytest.mark.parametrize("bad", [0, -1, float("inf"), float("nan")])
def test_a_weight_is_a_number_above_0(bad: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CapacityAssignor(bad)


def test_a_member_sends_its_weight_with_our_mark() -> None:
    user_data = CapacityAssignor(4).user_data(["t"], frozenset(), 1)
    assert user_data.startswith(weight(4))
    assert is_marked(user_data)
