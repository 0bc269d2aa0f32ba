"""ApiVersions: the software that it names decides whether its client is parked (KIP-511)."""

from __future__ import annotations

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


def test_a_client_that_names_its_software_on_another_connection_is_parked_by_it() -> None:
    for named_at, is_parked in (("c", True), ("elsewhere", False)):
        gateway = Gateway(GroupSettings(), lambda *_: None, policies=EVERYTHING_PARKED)
        member = group("c", gateway=gateway, software="")["c"]
        other = gateway.open(named_at, lambda _: None, lambda _: None)
        versions = ApiVersionsRequest(client_software_name="platformatic-kafka", client_software_version="1.35.0")
        other.from_client(encode_request(versions, 3, 1, "c1"), 0)
        member.heartbeat(3_000)
        assert bool(gateway.parked_heartbeats(GroupProtocol.CLASSIC)) is is_parked
