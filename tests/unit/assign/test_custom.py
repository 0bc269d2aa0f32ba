"""An assignor of one's own from one function."""

from __future__ import annotations

import pytest
from tests.unit.assign.groups import group, member, partitions, texts

from kohort.assign import GroupSpec, RebalanceProtocol, assignor
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
