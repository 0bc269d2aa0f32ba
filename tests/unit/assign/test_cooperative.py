"""The two-step rule: what a leader may give away in a round, and what it must hold back."""

from __future__ import annotations

import pytest
from tests.unit.assign.groups import group, member, partitions, texts

from kohort.assign import AssignmentRefused
from kohort.assign.cooperative import (
    broken_rules,
    members_of_old_versions,
    refuse_broken_rules,
    two_step,
    with_errors,
)
from kohort.assign.user_data import assignment_error, marked
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode


def intended(**members: str) -> dict[str, Assignment]:
    return {name: Assignment(frozenset(partitions(text))) for name, text in members.items()}


def test_a_partition_is_withheld_until_its_owner_has_revoked_it() -> None:
    spec = group({"a": member("t", "t-0 t-1"), "b": member("t")}, t=2)
    assert texts(two_step(spec, intended(a="t-0", b="t-1"))) == {"a": "t-0", "b": ""}


def test_an_unowned_partition_is_assigned_at_once() -> None:
    spec = group({"a": member("t", "t-0"), "b": member("t")}, t=2)
    assert texts(two_step(spec, intended(a="t-0", b="t-1"))) == {"a": "t-0", "b": "t-1"}


def test_a_member_that_revoked_everything_has_nothing_withheld_from_others() -> None:
    spec = group({"eager": member("t"), "b": member("t")}, t=2)
    assert texts(two_step(spec, intended(eager="t-0", b="t-1"))) == {"eager": "t-0", "b": "t-1"}


def test_what_no_intended_assignment_knows_goes_back_to_its_owner() -> None:
    spec = group({"a": member("gone t", "gone-0 gone-1"), "b": member("t")}, t=1)
    assert texts(two_step(spec, intended(a="", b="t-0"))) == {"a": "gone-0 gone-1", "b": "t-0"}


def test_an_owner_that_no_longer_subscribes_does_not_get_its_partition_back() -> None:
    spec = group({"a": member("t", "gone-0")}, t=1)
    assert texts(two_step(spec, intended(a="t-0"))) == {"a": "t-0"}


def test_of_two_claims_the_higher_generation_s_owns() -> None:
    spec = group({"a": member("t", "t-0", generation=4), "b": member("t", "t-0", generation=5)}, t=1)
    assert texts(two_step(spec, intended(a="t-0"))) == {"a": "", "b": ""}
    assert texts(two_step(spec, intended(b="t-0"))) == {"a": "", "b": "t-0"}


def test_what_two_members_own_in_one_generation_is_given_to_neither() -> None:
    spec = group({"a": member("t", "t-0"), "b": member("t", "t-0"), "c": member("t")}, t=1)
    for taker in "abc":
        assert texts(two_step(spec, intended(**{taker: "t-0"}))) == {"a": "", "b": "", "c": ""}


def test_a_member_that_was_left_out_gets_an_empty_assignment_and_user_data_stays() -> None:
    spec = group({"a": member("t"), "b": member("t", "t-1")}, t=2)
    found = two_step(spec, {"a": Assignment(frozenset(partitions("t-0 t-1")), b"mine")})
    assert found == {
        "a": Assignment(frozenset(partitions("t-0")), b"mine"),
        "b": Assignment(),
    }


def test_a_broken_rule_names_partition_owner_and_taker() -> None:
    spec = group({"a": member("t", "t-0 t-1"), "b": member("t", "t-2"), "c": member("t")}, t=3)
    broken = broken_rules(spec, intended(a="", b="t-0", c="t-1 t-2"))
    assert list(map(str, broken)) == [
        "t-0 is owned by a and given to b",
        "t-1 is owned by a and given to c",
        "t-2 is owned by b and given to c",
    ]


def test_an_assignment_that_breaks_the_rule_is_refused_with_every_partition() -> None:
    spec = group({"a": member("t", "t-0 t-1"), "b": member("t")}, t=2)
    with pytest.raises(
        AssignmentRefused, match=r"mine .*t-0 is owned by a and given to b; t-1 is owned by a and given"
    ):
        refuse_broken_rules(spec, intended(b="t-0 t-1"), "mine")


def test_keeping_and_revoking_break_no_rule() -> None:
    spec = group({"a": member("t", "t-0 t-1"), "b": member("t")}, t=3)
    refuse_broken_rules(spec, intended(a="t-0", b="t-2"), "mine")


def test_only_a_version_without_owned_partitions_is_old() -> None:
    spec = group({"a": member("t"), "b": member("t", version=1), "c": member("t", version=0)}, t=1)
    assert members_of_old_versions(spec) == ("c",)


def test_an_old_member_brings_an_error_to_ours_alone() -> None:
    spec = group(
        {
            "java": member("t", user_data=b"\0\0\0\1"),
            "old": member("t", version=0),
            "ours": member("t", user_data=marked(b"")),
        },
        t=3,
    )
    found = with_errors(spec, intended(java="t-0", old="t-1", ours="t-2"))
    assert texts(found) == {"java": "t-0", "old": "t-1", "ours": "t-2"}
    assert found["java"].user_data is found["old"].user_data is None
    assert assignment_error(found["ours"].user_data) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_without_an_old_member_there_is_no_error() -> None:
    spec = group({"ours": member("t", user_data=marked(b""))}, t=1)
    assert with_errors(spec, intended(ours="t-0"))["ours"].user_data is None
