"""SaslAuthenticate: nothing is parked beyond the time for which its answer admits the client (KIP-368)."""

from __future__ import annotations

from tests.unit.gateway.epoch_members import Member, gateway
from tests.unit.wire.responses import encode_response

from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse


def test_nothing_is_parked_that_could_arrive_when_its_sender_is_no_longer_authenticated() -> None:
    member = Member(gateway(EVERYTHING_PARKED))
    now_ms = member.steady()
    member.relay.release(now_ms)
    member.answered(now_ms + 1)

    def authenticate(lifetime_ms: int) -> None:
        member.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2, now_ms + 2)
        answer = SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
        member.relay.from_broker(b"".join(encode_response(answer, 2, member.sent)), now_ms + 2)

    authenticate(3_000)
    assert member.heartbeat(1, now_ms + 1_000)
    member.answered(now_ms + 1_001)
    authenticate(600_000)
    assert not member.heartbeat(1, now_ms + 2_000)
