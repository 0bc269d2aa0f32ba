"""An assignor of one's own from one function."""

from __future__ import annotations

import pytest
from tests.unit.assign.groups import group, member, partitions, rejoined, texts

from kohort.assign import CapacityAssignor, CooperativeStickyAssignor, GroupSpec, RebalanceProtocol, assignor
from kohort.assign.user_data import encode_weight, is_marked
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition


def to_the_first(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    every = [TopicPartition(topic, number) for topic, each in spec.topics.items() for number in range(each.partitions)]
    return {min(spec.members): every}


def test_a_function_becomes_an_assignor_by_decoration_or_by_call() -> None:
    @assignor(name="first")
    def decorated(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
        return to_the_first(spec)

    called = assignor(to_the_first, name="first")
    spec = group({"a": member("t"), "b": member("t")}, t=2)
    for each in (decorated, called):
        assert (each.name, each.protocols) == ("first", (RebalanceProtocol.EAGER,))
        assert texts(each.assign(spec)) == {"a": "t-0 t-1", "b": ""}


def test_the_function_is_given_owned_partitions_racks_and_user_data() -> None:
    seen = []

    @assignor(name="curious")
    def curious(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
        held = spec.members["a"].subscription
        seen.append((held.owned, held.generation, held.rack, held.user_data, spec.topics["t"].racks))
        return {}

    curious.assign(group({"a": member("t", "t-0", generation=3, rack="r", user_data=b"u")}, t="r"))
    assert seen == [(partitions("t-0"), 3, "r", b"u", (frozenset({"r"}),))]


def test_a_cooperative_one_may_ask_for_what_changes_hands_to_be_withheld() -> None:
    spec = group({"a": member("t"), "b": member("t", "t-0")}, t=2)
    careful = assignor(to_the_first, name="first", cooperative=True, withhold=True)
    careless = assignor(to_the_first, name="first", cooperative=True)
    assert careful.protocols == (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)
    assert texts(careful.assign(spec)) == {"a": "t-1", "b": ""}
    assert texts(careless.assign(spec)) == {"a": "t-0 t-1", "b": ""}


def test_withholding_is_for_cooperative_assignors() -> None:
    with pytest.raises(ValueError, match="cooperative"):
        assignor(to_the_first, name="first", withhold=True)


def test_an_assignment_may_carry_bytes_for_the_member() -> None:
    one = assignor(lambda _: {"a": Assignment(frozenset(), b"hello")}, name="one")
    assert one.assign(group({"a": member("t")}, t=1))["a"].user_data == b"hello"


def test_user_data_is_bytes_or_a_function() -> None:
    fixed = assignor(to_the_first, name="first", user_data=b"u")
    asked = assignor(to_the_first, name="first", user_data=lambda *arguments: b"%d" % arguments[2])
    assert fixed.user_data(["t"], frozenset(), 4) == b"u"
    assert asked.user_data(["t"], frozenset(), 4) == b"4"
    assert assignor(to_the_first, name="first").user_data(["t"], frozenset(), 4) is None


def test_a_partition_for_two_members_is_an_error_that_names_all_three() -> None:
    both = assignor(lambda _: dict.fromkeys("ab", partitions("t-0")), name="both")
    with pytest.raises(ValueError, match="both assigned t-0 to both a and b"):
        both.assign(group({"a": member("t"), "b": member("t")}, t=1))


def test_an_unknown_member_is_an_error() -> None:
    wrong = assignor(lambda _: {"z": []}, name="wrong")
    with pytest.raises(ValueError, match="z: no such member"):
        wrong.assign(group({"a": member("t")}, t=1))


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
