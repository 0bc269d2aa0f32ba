"""By which names a member can be drained."""

from __future__ import annotations

import pytest

from kohort.gateway.assigning.orders import names_of


@pytest.mark.parametrize(
    ("name", "is_meant"),
    [
        ("m-1", True),
        ("instance-0", True),
        ("billing-0-consumer-1", True),
        ("billing-0", True),
        ("billing-0-consumer", True),
        ("192.0.2.7", True),
        ("/192.0.2.7", True),
        ("billing-0-consum", False),
        ("billing-01", False),
        ("192.0.2", False),
        ("", False),
    ],
)
def test_a_member_is_named_by_its_ids_its_host_and_the_beginning_of_its_client_id(name: str, is_meant: bool) -> None:
    assert (name in names_of("m-1", "instance-0", "billing-0-consumer-1", "/192.0.2.7")) is is_meant


def test_names_of_a_hostile_client_id_are_bounded() -> None:
    assert len(names_of("m", None, "-" * 32_767, "/192.0.2.7")) < 300
