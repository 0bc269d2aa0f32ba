"""Connections: order of replies, versions, authentication, and what garbage does."""

from __future__ import annotations

import logging
from struct import pack

import pytest
from tests.unit.node.desk import Desk, batch, fetch, only, produce

from kohort.model.errors import ErrorCode
from kohort.node.apis.routes import served
from kohort.node.client_connection import BACKLOG_FRAMES
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.frames import decode_response
from kohort.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


# -- ApiVersions


@pytest.mark.parametrize("version", range(6))
def test_api_versions_names_exactly_what_has_a_handler(version: int) -> None:
    desk = Desk()
    message = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
    answer = desk.connect().call(message, version)
    named = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert named == {api: (VERSIONS[api].lowest, VERSIONS[api].highest) for api in served()} | {Api.PRODUCE: (0, 13)}
    assert named[Api.PRODUCE] == (0, 13)
    assert named[Api.FETCH] == (4, 18)
    assert Api.SHARE_FETCH not in named


def test_an_api_versions_request_from_the_future_is_answered_in_v0() -> None:
    peer = Desk().connect()
    chunks: list[bytes] = []
    peer.connection.send = lambda buffers: chunks.extend(map(bytes, buffers))
    peer.feed(framed(pack(">hhih", 18, 99, 77, 2) + b"me" + b"\x00whatever"))
    number, answer = decode_response(ApiVersionsResponse, 0, b"".join(chunks)[4:])
    assert (number, answer.error_code) == (77, ErrorCode.UNSUPPORTED_VERSION)
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 5)]
    assert peer.closed is None


def test_a_client_with_another_cluster_or_node_id_gets_rebootstrap_required() -> None:
    desk = Desk()
    peer = desk.connect()
    known = {"client_software_name": "tester", "client_software_version": "1.0"}
    right = ApiVersionsRequest(cluster_id=desk.node.state.cluster_id, node_id=1, **known)
    assert peer.call(right, 5).error_code == 0
    for wrong in ({"cluster_id": "elsewhere"}, {"node_id": 9}):
        assert peer.call(ApiVersionsRequest(**wrong, **known), 5).error_code == ErrorCode.REBOOTSTRAP_REQUIRED


def test_a_client_software_name_that_is_none_is_refused() -> None:
    message = ApiVersionsRequest(client_software_name="-", client_software_version="1.0")
    assert Desk().connect().call(message, 3).error_code == ErrorCode.INVALID_REQUEST


# -- order


def test_replies_leave_in_request_order_behind_a_waiting_fetch() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    numbers = [
        peer.send(fetch("orders", max_wait_ms=500), 11),
        peer.send(MetadataRequest(topics=[]), 9),
        peer.send(fetch("orders", max_wait_ms=300), 11),
        peer.send(MetadataRequest(topics=[]), 9),
    ]
    assert peer.replies == []
    desk.advance(500)
    assert [number for number, _ in peer.replies] == numbers[:2]
    desk.advance(300)
    assert [number for number, _ in peer.replies] == numbers


def test_a_waiting_connection_does_not_delay_another() -> None:
    desk = Desk()
    desk.create("orders")
    waiting, other = desk.connect(), desk.connect()
    waiting.send(fetch("orders", max_wait_ms=500), 11)
    assert only(other.call(produce("orders", batch(b"x")), 9)).error_code == 0
    assert len(waiting.answers()) == 1


def test_all_requests_of_one_chunk_are_answered_by_one_send() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    frames = [peer.frame(MetadataRequest(topics=[]), 9)[0] for _ in range(10)]
    peer.feed(b"".join(frames))
    assert len(peer.answers()) == 10
    assert peer.sends == 1


def test_requests_may_arrive_byte_by_byte() -> None:
    peer = Desk().connect()
    frame, _ = peer.frame(MetadataRequest(topics=[]), 9)
    for at in range(len(frame)):
        assert peer.answers() == []
        peer.feed(frame[at : at + 1])
    assert len(peer.answers()) == 1


def test_reading_stops_while_too_many_requests_wait() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    peer.send(fetch("orders", max_wait_ms=500), 11)
    for _ in range(BACKLOG_FRAMES + 1):
        peer.send(MetadataRequest(topics=[]), 9)
    assert peer.throttled == [True]
    desk.advance(500)
    assert peer.throttled == [True, False]
    assert len(peer.answers()) == BACKLOG_FRAMES + 2


def test_reading_stops_while_too_many_bytes_wait() -> None:
    desk = Desk()
    desk.create("orders", 2)
    peer = desk.connect()
    peer.send(fetch("orders", max_wait_ms=500), 11)
    for _ in range(3):
        peer.send(produce("orders", batch(b"x" * 500_000), partition=1), 9)
    assert peer.throttled == [True]
    desk.advance(500)
    assert peer.throttled == [True, False]
    assert len(peer.answers()) == 4


def test_a_client_that_does_not_read_is_not_served_until_it_does() -> None:
    desk = Desk()
    peer = desk.connect()
    desk.node.connections.pause(peer.connection)
    peer.send(MetadataRequest(topics=[]), 9)
    assert peer.answers() == []
    desk.node.connections.resume(peer.connection, desk.clock.now_ms())
    assert len(peer.answers()) == 1


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    desk = Desk(connections_max_idle_ms=4000)
    desk.create("orders")
    idle, waiting = desk.connect(), desk.connect()
    waiting.send(fetch("orders", max_wait_ms=60_000), 11)
    desk.advance(6000)
    assert idle.closed == "idle"
    assert waiting.closed is None


def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    desk = Desk(max_connections=2)
    peers = [desk.connect() for _ in range(3)]
    assert [peer.closed is None for peer in peers] == [True, True, False]
    peers[0].leave()
    assert desk.connect().closed is None


def test_a_reached_limit_of_connections_is_logged_once_a_minute_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    desk = Desk()
    desk.node.connections.limit.derive(2, 64)
    peers = [desk.connect() for _ in range(50)]
    assert caplog.messages == [
        "max.connections (2, which the limit of 64 open files leaves) is reached: closed the connection from 192.0.2.1,"
        " 1 refused so far; new ones are taken when others end; a higher `ulimit -n` allows more"
    ]
    desk.clock.advance(60_000)
    desk.advance(0)
    desk.connect()
    assert "49 refused so far" in caplog.messages[1]
    peers[0].leave()
    assert caplog.messages[2:] == ["connections are taken again: 1 of 2 are open, 49 were refused"]


# -- garbage


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS handshake"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH client"),
        (pack(">i", 104857601), "over the limit"),
        (pack(">i", -1), "-1"),
        (framed(b""), "malformed request"),
        (framed(b"\x00\x03"), "malformed request"),
        (framed(pack(">hhih", 999, 0, 1, -1)), "API key 999 version 0 is not served here"),
        (framed(pack(">hhih", -5, 0, 1, -1)), "API key -5 version 0 is not served here"),
        (framed(pack(">hhih", 3, 14, 1, -1)), "API key 3 version 14 is not served here"),
        (framed(pack(">hhih", 0, 2, 1, -1)), "API key 0 version 2 is not served here"),
        (framed(pack(">hhih", 78, 1, 1, -1)), "API key 78 version 1 is not served here"),
        (framed(pack(">hhih", 3, 1, 1, 500) + b"short"), "malformed request"),
        (framed(pack(">hhih", 3, 1, 1, 2) + b"me" + b"\xff"), "malformed request"),
        (framed(pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + b"\xff\xff\xff\xff"), "malformed request"),
        (framed(pack(">hhih", 3, 1, 1, 2) + b"me" + pack(">i", 0x7FFFFFFF)), "malformed request"),
    ],
)
def test_garbage_closes_its_own_connection_with_one_log_line(
    chunk: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    desk = Desk()
    desk.create("orders")
    peer, other = desk.connect(host="203.0.113.9"), desk.connect()
    peer.feed(chunk)
    assert reason in str(peer.closed)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("closed connection from 203.0.113.9: ")
    peer.feed(b"more")
    assert len(caplog.records) == 1
    assert peer.connection not in desk.node.connections
    assert only(other.call(produce("orders", batch(b"x")), 9)).error_code == 0


def test_what_came_before_the_garbage_is_still_answered() -> None:
    peer = Desk().connect()
    frame, _ = peer.frame(MetadataRequest(topics=[]), 9)
    peer.feed(frame + framed(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
    assert len(peer.answers()) == 1
    assert peer.closed is not None


def test_a_handler_that_fails_answers_unknown_server_error_and_logs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk()
    peer = desk.connect()
    monkeypatch.setattr(desk.node.context.listener, "advertised", None)
    answer = peer.call(MetadataRequest(topics=[]), 13)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert peer.closed is None
    assert "METADATA v13 from 192.0.2.1 failed" in caplog.text


# -- SASL


def test_without_users_sasl_is_not_expected() -> None:
    peer = Desk().connect()
    assert peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.call(SaslAuthenticateRequest(auth_bytes=b""), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_with_users_only_the_right_password_opens_the_connection() -> None:
    desk = Desk(kohort_sasl_plain_users="alice:secret", sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-512")
    peer = desk.connect()
    assert peer.call(ApiVersionsRequest(), 0).error_code == 0
    assert peer.call(SaslAuthenticateRequest(auth_bytes=b"x"), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE
    refused = peer.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refused.mechanisms == ["PLAIN", "SCRAM-SHA-512"]
    assert peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert peer.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2).error_code == 0
    assert peer.connection.is_authenticated
    assert len(peer.call(MetadataRequest(topics=[]), 9).brokers) == 1


@pytest.mark.parametrize(
    "token", [b"\0alice\0wrong", b"\0bob\0secret", b"bob\0alice\0secret", b"alice", b"", b"\xff\0\xff\0\xff"]
)
def test_a_wrong_token_is_answered_and_the_connection_closed(token: bytes) -> None:
    desk = Desk(kohort_sasl_plain_users="alice:secret")
    peer = desk.connect()
    peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    desk.advance(99)
    assert peer.answers() == []
    desk.advance(1)
    (answer,) = peer.answers()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "SASL authentication by PLAIN failed on listener PLAINTEXT" in str(peer.closed)


def test_a_client_that_does_not_log_in_is_disconnected() -> None:
    desk = Desk(kohort_sasl_plain_users="alice:secret", kohort_authentication_timeout_ms=5000)
    silent, known = desk.connect(), desk.connect()
    known.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    known.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
    desk.advance(4999)
    silent.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert silent.closed is None
    desk.advance(1)
    assert silent.closed == "no login on listener PLAINTEXT within 5000 ms"
    assert known.closed is None


def test_a_request_before_authentication_closes_the_connection() -> None:
    peer = Desk(kohort_sasl_plain_users="alice:secret").connect()
    peer.send(MetadataRequest(topics=[]), 9)
    assert peer.answers() == []
    assert "before SASL authentication" in str(peer.closed)
