"""The coordinator's `range`: Kafka's RangeAssignorTest of 4.3, in our words."""

from __future__ import annotations

from tests.unit.assign.server_groups import group, member, texts

from kohort.assign.quality import measure_target
from kohort.assign.server.range import ServerRangeAssignor
from kohort.assign.server.spec import ServerGroup


def ranges(given: ServerGroup) -> dict[str, str]:
    """Assign, and see that the target is valid and complete."""
    target = ServerRangeAssignor().assign(given)
    quality = measure_target(given, target)
    assert (quality.faults, quality.unassigned) == ((), frozenset())
    return texts(target)


def test_a_member_without_topics_gets_nothing() -> None:
    assert ranges(group({"a": member("")}, t=3)) == {"a": ""}
    assert ranges(group({"a": member("gone"), "b": member("t")}, t=1)) == {"a": "", "b": "t-0"}
    assert ServerRangeAssignor().assign(group({}, t=3)) == {}


def test_each_topic_is_cut_into_blocks_the_first_members_get_one_more() -> None:
    given = group({"a": member("t u"), "b": member("t u")}, t=3, u=2)
    assert ranges(given) == {"a": "t-0 t-1 u-0", "b": "t-2 u-1"}


def test_each_topic_goes_to_its_own_subscribers() -> None:
    given = group({"a": member("t u"), "b": member("v"), "c": member("u v")}, t=3, u=3, v=2)
    assert ranges(given) == {"a": "t-0 t-1 t-2 u-0 u-1", "b": "v-0", "c": "u-2 v-1"}


def test_with_more_members_than_partitions_the_last_get_nothing() -> None:
    given = group({name: member("t u") for name in "abc"}, t=3, u=2)
    assert ranges(given) == {"a": "t-0 u-0", "b": "t-1 u-1", "c": "t-2"}


def test_topics_of_one_size_line_up() -> None:
    given = group({name: member("t u") for name in "abc"}, t=7, u=7)
    for each in ranges(given).values():
        numbers = [word.split("-") for word in each.split()]
        assert [n for topic, n in numbers if topic == "t"] == [n for topic, n in numbers if topic == "u"]


def test_previous_targets_and_racks_make_no_difference() -> None:
    given = group({"a": member("t", "t-2", rack="r2"), "b": member("t", "t-0 t-1", rack="r1")}, t="r1 r1 r2")
    assert ranges(given) == {"a": "t-0 t-1", "b": "t-2"}


def test_members_go_by_instance_id_and_static_ones_first() -> None:
    given = group({"a": member("t"), "z": member("t", instance="1"), "y": member("t", instance="2")}, t=3)
    assert ranges(given) == {"z": "t-0", "y": "t-1", "a": "t-2"}


def test_a_static_member_under_a_new_id_gets_the_same_blocks() -> None:
    before = group({"m": member("t", instance="i"), "n": member("t", instance="j")}, t=4)
    after = group({"x": member("t", instance="i"), "n": member("t", instance="j")}, t=4)
    assert ranges(before)["m"] == ranges(after)["x"] == "t-0 t-1"


def test_static_and_dynamic_subscribers_differ_and_still_line_up() -> None:
    given = group({"a": member("t u"), "b": member("u", instance="i"), "c": member("t u")}, t=4, u=4)
    assert ranges(given) == {"b": "u-0 u-1", "a": "t-0 t-1 u-2", "c": "t-2 t-3 u-3"}
