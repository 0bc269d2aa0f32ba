"""`share_evenly`: all members have about as many names, and the fewest move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client import MemberMetadata, share_evenly


def members(*owned: frozenset[str]) -> list[MemberMetadata[None]]:
    return [MemberMetadata(f"m{number}", None, None, names) for number, names in enumerate(owned)]


@given(
    st.sets(st.integers(0, 40), max_size=30),
    st.lists(st.sets(st.integers(0, 40)), min_size=1, max_size=8),
)
def test_every_name_has_one_owner_all_have_as_many_and_no_more_move_than_must(
    wanted: set[int], claims: list[set[int]]
) -> None:
    names = {f"n{number}" for number in wanted}
    owned: list[frozenset[str]] = []
    for claim in claims:
        taken = frozenset[str]().union(*owned)
        owned.append(frozenset(f"n{number}" for number in claim) - taken)
    assigned = share_evenly(names)(members(*owned))
    counts = [len(each) for each in assigned.values()]
    assert Counter(name for each in assigned.values() for name in each) == Counter(names)
    assert max(counts) - min(counts) <= 1
    least, more = divmod(len(names), len(claims))
    kept = sum(len(assigned[f"m{number}"] & each) for number, each in enumerate(owned))
    held = sorted((len(each & names) for each in owned), reverse=True)
    assert kept == sum(min(count, least + (place < more)) for place, count in enumerate(held))


def test_names_are_read_in_each_round() -> None:
    names = ["a"]
    assign = share_evenly(names)
    assert assign(members(frozenset())) == {"m0": frozenset({"a"})}
    names.append("b")
    assert assign(members(frozenset())) == {"m0": frozenset({"a", "b"})}


@pytest.mark.parametrize("count", [1, 7])
def test_without_names_all_members_have_none(count: int) -> None:
    assert set(share_evenly([])(members(*[frozenset[str]()] * count)).values()) == {frozenset()}
