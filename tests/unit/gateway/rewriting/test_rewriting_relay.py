"""Groups and addresses on one connection: what is held is held, what is shown is the gateway's."""

from __future__ import annotations

from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, GroupProtocol
from kohort.gateway.rewriting.address_relay import RewritingRelay
from kohort.group.coordinator_settings import GroupSettings
from kohort.wire.frames import encode_request
from kohort.wire.message import Message
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


class Connection:
    """A member of a group whose heartbeats are held, behind other addresses."""

    def __init__(self) -> None:
        self.gateway = Gateway(GroupSettings(), lambda *_: None, policies=EVERYTHING_PARKED)
        self.client, self.broker = bytearray(), bytearray()
        self.reasons: list[str] = []
        self.relay = RewritingRelay(
            lambda to_client, to_broker: self.gateway.open("host", to_client, to_broker),
            lambda node_id, _host, _port: ("gateway", 9000 + node_id),
            self.client.extend,
            self.broker.extend,
            self.reasons.append,
        )

    def send(self, request: bytes, now_ms: int) -> bytes:
        """Send a request; return what the broker gets."""
        self.broker.clear()
        self.gateway.tick(now_ms)
        self.relay.from_client(request, now_ms)
        return bytes(self.broker)

    def answer(self, message: Message, version: int, number: int, now_ms: int) -> bytes:
        """Send an answer; return what the client gets."""
        self.client.clear()
        self.relay.from_broker(b"".join(encode_response(message, version, number)), now_ms)
        return bytes(self.client)

    def hold_a_heartbeat(self) -> bytes:
        """Join, and return the heartbeat that is held then."""
        named = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4")
        self.send(encode_request(named, 3, 1, "c"), 0)
        join = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        self.send(encode_request(join, 1, 2, "c"), 0)
        alive = ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=1, heartbeat_interval_ms=5000, assignment=None
        )
        self.answer(alive, 1, 2, 1)
        quiet = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
        for number in range(3, 10):
            frame = encode_request(quiet, 1, number, "c")
            if not self.send(frame, number * 1000):
                return frame
            self.answer(alive, 1, number, number * 1000 + 1)
        raise AssertionError("no heartbeat is held")


def test_authentication_passes_again_while_a_heartbeat_is_parked() -> None:
    connection = Connection()
    held = connection.hold_a_heartbeat()
    handshake = encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, 10, "c")
    assert connection.send(handshake, 20_000) == held + handshake, "the heartbeat goes before what is behind it"
    heartbeat = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1, heartbeat_interval_ms=5000)
    assert connection.answer(heartbeat, 1, int.from_bytes(held[8:12], "big"), 20_000)
    offered = SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"])
    assert connection.answer(offered, 1, 10, 20_000) == b"".join(encode_response(offered, 1, 10))
    token = encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=nonce"), 2, 11, "c")
    assert connection.send(token, 20_001) == token
    reply = SaslAuthenticateResponse(auth_bytes=b"r=nonce,s=salt", session_lifetime_ms=4000)
    assert connection.answer(reply, 2, 11, 20_001) == b"".join(encode_response(reply, 2, 11))
    assert not connection.reasons


def test_metadata_behind_a_parked_heartbeat_shows_the_gateway() -> None:
    connection = Connection()
    held = connection.hold_a_heartbeat()
    asked = encode_request(MetadataRequest(topics=[]), 12, 10, "c")
    assert connection.send(asked, 20_000) == held + asked
    heartbeat = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1, heartbeat_interval_ms=5000)
    connection.answer(heartbeat, 1, int.from_bytes(held[8:12], "big"), 20_000)

    def metadata(host: str, port: int) -> MetadataResponse:
        return MetadataResponse(brokers=[MetadataResponse.Broker(node_id=1, host=host, port=port)])

    seen = connection.answer(metadata("real-host", 9092), 12, 10, 20_000)
    assert seen == b"".join(encode_response(metadata("gateway", 9001), 12, 10))


def test_nothing_is_buffered_of_a_connection_that_has_ended() -> None:
    connection = Connection()
    connection.hold_a_heartbeat()
    connection.relay.closed(20_000, is_by_client=True)
    assert connection.gateway.parked_heartbeats(GroupProtocol.CONSUMER) == 0
    assert connection.answer(MetadataResponse(), 12, 99, 20_000) == b""
