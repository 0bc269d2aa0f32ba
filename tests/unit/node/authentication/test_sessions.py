"""Sessions that end (KIP-368): a client that stays longer must log in again, as the same user by the same mechanism."""

from __future__ import annotations

import pytest
from tests.unit.node.desk import Desk, Peer

from kohort.model.errors import ErrorCode
from kohort.wire.messages import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest

LIMIT_MS = 10_000


@pytest.fixture
def desk() -> Desk:
    return Desk(
        kohort_sasl_plain_users="ann:a,bob:b",
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256",
        connections_max_reauth_ms=LIMIT_MS,
    )


def log_in(peer: Peer, token: bytes) -> int:
    """Log in and return for how long."""
    assert peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    answer = peer.call(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert answer.error_code == 0
    lifetime: int = answer.session_lifetime_ms
    return lifetime


def test_a_client_that_does_not_log_in_again_is_closed_at_its_next_request(desk: Desk) -> None:
    peer = desk.connect()
    assert log_in(peer, b"\0ann\0a") == LIMIT_MS
    desk.advance(LIMIT_MS - 1)
    assert peer.call(MetadataRequest(topics=[]), 9).brokers
    desk.advance(1)
    peer.send(MetadataRequest(topics=[]), 9)
    assert peer.answers() == []
    assert peer.closed == "METADATA after the session ended, without another SASL authentication"


def test_a_client_that_logs_in_again_before_or_after_the_end_continues(desk: Desk) -> None:
    peer = desk.connect()
    for _ in range(3):
        log_in(peer, b"\0ann\0a")
        desk.advance(LIMIT_MS - 1)
    log_in(peer, b"\0ann\0a")
    desk.advance(LIMIT_MS)
    log_in(peer, b"\0ann\0a")
    assert peer.call(MetadataRequest(topics=[]), 9).brokers


def test_a_client_cannot_become_another_user_or_change_the_mechanism(desk: Desk) -> None:
    peer = desk.connect()
    log_in(peer, b"\0ann\0a")
    assert peer.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    peer.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0b"), 2)
    desk.advance(1000)
    (answer,) = peer.answers()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "User:ann cannot become User:bob" in str(peer.closed)


def test_a_session_without_a_limit_is_not_renewed() -> None:
    peer = Desk(kohort_sasl_plain_users="ann:a").connect()
    assert log_in(peer, b"\0ann\0a") == 0
    assert peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_connections_that_end_leave_no_timers(desk: Desk) -> None:
    before = len(desk.node.timers)
    peer, unknown, failed = desk.connect(), desk.connect(), desk.connect()
    log_in(peer, b"\0ann\0a")
    failed.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    failed.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
    for each in (peer, unknown, failed):
        desk.node.connections.drop(each.connection, desk.clock.now_ms())
    assert len(desk.node.timers) == before
