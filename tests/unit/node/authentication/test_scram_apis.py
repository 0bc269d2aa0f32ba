"""SCRAM on the broker: logins by our own client, credentials by APIs 50 and 51, and what the disk keeps of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer

from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.sasl import Sasl, authenticate
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.message import Request
from kohort.wire.messages import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kohort.wire.scram import salted_password

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
Deletion, Upsertion = AlterUserScramCredentialsRequest.Deletion, AlterUserScramCredentialsRequest.Upsertion
SECURED = {"listeners": "SASL_PLAINTEXT://h:1", "kohort_sasl_scram_users": "ann=bc:secret"}


class Caller:
    """A peer as our client's side of SASL uses a connection."""

    address = "h:1"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.peer = desk.connect()

    async def call(self, request: Request[Any], *, highest: int | None = None) -> Any:
        version = min(VERSIONS[Api(request.API_KEY)].highest, highest or 99)
        self.peer.send(request, version)
        self.desk.advance(1000)
        (answer,) = self.peer.answers()
        return answer


def log_in(desk: Desk, sasl: Sasl) -> Peer:
    """Log in. Raises KafkaError."""
    caller = Caller(desk)
    asyncio.run(authenticate(caller, sasl))
    return caller.peer


def set_password(user: str, password: str, mechanism: str, iterations: int = 4096) -> Upsertion:
    salt = b"salt of " + user.encode()
    salted = salted_password(mechanism, password, salt, iterations)
    return Upsertion(
        name=user, mechanism=MECHANISMS[mechanism], iterations=iterations, salt=salt, salted_password=salted
    )


def alter(peer: Peer, *changes: Any) -> dict[str, int]:
    message = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, Deletion)],
        upsertions=[each for each in changes if isinstance(each, Upsertion)],
    )
    return {result.user: result.error_code for result in peer.call(message, 0).results}


def described(peer: Peer, *users: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    names = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in users] or None
    results = peer.call(DescribeUserScramCredentialsRequest(users=names), 0).results
    return {
        each.user: (each.error_code, [(one.mechanism, one.iterations) for one in each.credential_infos])
        for each in results
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_of_the_settings_logs_in_by_both_mechanisms(mechanism: str) -> None:
    desk = Desk(**SECURED)
    peer = log_in(desk, Sasl(mechanism, "ann=bc", "secret"))
    assert str(peer.connection.principal) == "User:ann=bc"
    assert peer.call(MetadataRequest(topics=[]), 9).brokers
    for wrong in (Sasl(mechanism, "ann=bc", "wrong"), Sasl(mechanism, "bob", "secret")):
        with pytest.raises(KafkaError) as refused:
            log_in(desk, wrong)
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_unknown_user_gets_a_challenge_as_constant_as_a_known_one() -> None:
    desk = Desk(**SECURED)

    def challenge(user: str) -> str:
        peer = desk.connect()
        peer.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        answer = peer.call(SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=nonce".encode()), 2)
        return bytes(answer.auth_bytes).decode().split(",", 1)[1]

    assert challenge("eve") == challenge("eve") != challenge("eva")
    assert len(challenge("eve")) == len(challenge("ann=3Dbc"))


@pytest.mark.parametrize(
    "tokens",
    [
        [b""],
        [b"\xff,,n=a,r=b"],
        [b"p=tls-unique,,n=ann=3Dbc,r=x"],
        [b"n,a=bob,n=ann=3Dbc,r=x"],
        [b"n,,m=ext,n=ann=3Dbc,r=x"],
        [b"n,,n=ann=bc,r=x"],
        [b"n,,n=ann=3Dbc,r="],
        [b"n,,n=ann=3Dbc,r=x", b""],
        [b"n,,n=ann=3Dbc,r=x", b"c=biws,r=x,p=AAAA"],
        [b"n,,n=ann=3Dbc,r=x", b"\xff"],
        [b"n,,n=ann=3Dbc,r=x", b",p=not base64"],
    ],
)
def test_a_malformed_exchange_is_refused(tokens: list[bytes]) -> None:
    desk = Desk(**SECURED)
    peer = desk.connect()
    peer.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
    for token in tokens:
        peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    desk.advance(1000)
    assert peer.answers()[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "SASL authentication by SCRAM-SHA-512 failed" in str(peer.closed)


def test_a_password_that_was_altered_is_in_force_at_once_and_after_a_restart() -> None:
    desk = Desk(**SECURED)
    peer = log_in(desk, Sasl("SCRAM-SHA-256", "ann=bc", "secret"))
    changes = [
        set_password("ann=bc", "newer", "SCRAM-SHA-256"),
        set_password("bob", "b", "SCRAM-SHA-512", 16_384),
        Deletion(name="ann=bc", mechanism=2),
    ]
    assert alter(peer, *changes) == {"ann=bc": 0, "bob": 0}
    again = desk.restart(kohort_sasl_scram_users="")
    for each in (desk, again):
        log_in(each, Sasl("SCRAM-SHA-256", "ann=bc", "newer"))
        peer = log_in(each, Sasl("SCRAM-SHA-512", "bob", "b"))
        assert described(peer) == {"ann=bc": (0, [(1, 4096)]), "bob": (0, [(2, 16_384)])}
        with pytest.raises(KafkaError):
            log_in(each, Sasl("SCRAM-SHA-256", "ann=bc", "secret"))


def test_a_shortened_metadata_log_retains_the_credentials() -> None:
    desk = Desk(**SECURED)
    state = desk.node.state
    before = list(state.scram_credentials.entries())
    for _ in range(600):
        state.alter_broker([("num.partitions", "3")], desk.clock.now_ms())
        state.alter_broker([("num.partitions", "4")], desk.clock.now_ms())
    state.shorten(desk.clock.now_ms())
    assert state._log.length < 50
    assert list(desk.restart().node.state.scram_credentials.entries()) == before


def test_a_stored_password_stays_where_the_settings_have_another(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(**SECURED).restart(kohort_sasl_scram_users="ann=bc:other,bob:b")
    log_in(desk, Sasl("SCRAM-SHA-256", "ann=bc", "secret"))
    log_in(desk, Sasl("SCRAM-SHA-256", "bob", "b"))
    assert "user ann=bc has another password for SCRAM-SHA-512 than kohort.sasl.scram.users has" in caplog.text
    assert "other" not in caplog.text.replace("another", "")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([Upsertion(name="", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")], 93),
        ([Upsertion(name="u", mechanism=3, iterations=4096, salt=b"s", salted_password=b"p")], 33),
        ([Upsertion(name="u", mechanism=1, iterations=4095, salt=b"s", salted_password=b"p")], 93),
        ([Upsertion(name="u", mechanism=1, iterations=16_385, salt=b"s", salted_password=b"p")], 93),
        ([Upsertion(name="u", mechanism=1, iterations=4096, salt=b"", salted_password=b"p")], 93),
        ([Deletion(name="u", mechanism=1)], 91),
        ([Deletion(name="ann=bc", mechanism=1), set_password("ann=bc", "x", "SCRAM-SHA-256")], 92),
        ([Deletion(name="ann=bc", mechanism=1), Deletion(name="ann=bc", mechanism=9)], 33),
    ],
)
def test_a_change_that_is_refused_changes_nothing(changes: list[Any], code: int) -> None:
    desk = Desk(**SECURED)
    peer = log_in(desk, Sasl("SCRAM-SHA-256", "ann=bc", "secret"))
    assert alter(peer, *changes) == {changes[0].name: code}
    assert described(peer) == {"ann=bc": (0, [(1, 8192), (2, 8192)])}


def test_users_that_are_named_twice_or_do_not_exist_are_refused() -> None:
    peer = log_in(Desk(**SECURED), Sasl("SCRAM-SHA-256", "ann=bc", "secret"))
    assert described(peer, "ann=bc", "bob", "eve", "eve") == {
        "ann=bc": (0, [(1, 8192), (2, 8192)]),
        "bob": (ErrorCode.RESOURCE_NOT_FOUND, []),
        "eve": (ErrorCode.DUPLICATE_RESOURCE, []),
    }
