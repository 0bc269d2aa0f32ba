from __future__ import annotations

import pytest

from kohort.cli.keda_scaler.drain_orders import leaving
from kohort.client.admin.group_descriptions import MemberDescription


def members(*clients: str, instances: bool = False) -> list[MemberDescription]:
    return [
        MemberDescription(
            f"m{number}", client if instances else None, "rdkafka" if instances else client, "/h", frozenset()
        )
        for number, client in enumerate(clients)
    ]


def test_members_of_the_highest_ordinals_leave() -> None:
    found = members(*(f"billing-{number}" for number in (2, 0, 10, 9, 1, 3, 4, 5, 6, 8, 7)))
    assert leaving(found, 9, 1) == {"m2", "m3"}
    assert leaving(found, 11, 1) == frozenset()
    assert leaving([], 0, 1) == frozenset()


def test_static_member_is_named_by_its_instance() -> None:
    assert leaving(members("billing-0", "billing-1", instances=True), 1, 1) == {"m1"}


def test_pod_of_several_members_leaves_with_all_of_them() -> None:
    assert leaving(members("billing-0", "billing-0", "billing-1", "billing-1"), 1, 2) == {"m2", "m3"}


@pytest.mark.parametrize(
    ("names", "each"),
    [
        (["billing-0", "billing-x7k2p"], 1),
        (["rdkafka", "rdkafka"], 1),
        (["consumer-billing-1", "consumer-billing-1"], 1),
        (["consumer-billing-1", "consumer-billing-2", "consumer-billing-1", "consumer-billing-2"], 2),
        (["billing-0", "billing-0"], 1),
        (["billing-0", "billing-2"], 1),
    ],
)
def test_names_that_are_not_ordinals_of_pods_name_no_member(names: list[str], each: int) -> None:
    assert leaving(members(*names), 1, each) is None
