"""ApiVersions: the software that it names decides whether its client is parked (KIP-511)."""

from __future__ import annotations

import pytest
from tests.unit.gateway.classic_members import group
from tests.unit.gateway.epoch_members import Member as EpochMember
from tests.unit.gateway.epoch_members import gateway as epoch_gateway

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, GroupProtocol
from kohort.group.coordinator_settings import GroupSettings
from kohort.wire.frames import encode_request
from kohort.wire.messages import ApiVersionsRequest


def test_a_client_without_a_name_is_observed_beside_one_that_is_parked() -> None:
    parking = epoch_gateway(EVERYTHING_PARKED)
    assert EpochMember(parking, software="").steady() == -1
    assert EpochMember(parking, member_id="m2").steady() > 0


@pytest.mark.parametrize(
    ("software", "version", "named_at", "is_parked"),
    [
        ("platformatic-kafka", "1.35.0", "c", True),
        ("platformatic-kafka", "1.35.0", "elsewhere", False),
        ("librdkafka", "2.9.0", "c", False),  # it names itself on each: here another program has its client id now
    ],
)
def test_a_client_that_names_its_software_on_another_connection_is_parked_by_it(
    software: str, version: str, named_at: str, *, is_parked: bool
) -> None:
    gateway = Gateway(GroupSettings(), lambda *_: None, policies=EVERYTHING_PARKED)
    member = group("c", gateway=gateway, software="")["c"]
    other = gateway.open(named_at, lambda _: None, lambda _: None)
    versions = ApiVersionsRequest(client_software_name=software, client_software_version=version)
    other.from_client(encode_request(versions, 3, 1, "c1"), 0)
    member.heartbeat(3_000)
    assert bool(gateway.parked_heartbeats(GroupProtocol.CLASSIC)) is is_parked
