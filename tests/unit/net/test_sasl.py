"""SASL as a client speaks it, against the exchange of RFC 7677 and a broker that lies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.sasl import Sasl, _scram, authenticate
from kohort.wire.message import Request
from kohort.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

USER = Sasl("SCRAM-SHA-256", "user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERDICT = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


class Broker:
    """A broker that sends the answers of the test."""

    address = "h:1"

    def __init__(self, *answers: str, mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256"), error: int = 0) -> None:
        self.answers = [line.encode("latin1") for line in answers]
        self.received: list[bytes] = []
        self.mechanisms = list(mechanisms)
        self.error = error

    async def call(self, request: Request[Any], *, highest: int | None = None) -> Any:
        assert highest in (None, 1)
        if isinstance(request, SaslHandshakeRequest):
            code = 0 if request.mechanism in self.mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)
        assert isinstance(request, SaslAuthenticateRequest)
        self.received.append(bytes(request.auth_bytes))
        if self.error:
            return SaslAuthenticateResponse(error_code=self.error, error_message="wrong password")
        return SaslAuthenticateResponse(auth_bytes=self.answers.pop(0) if self.answers else b"")


async def scripted(broker: Broker, sasl: Sasl) -> None:
    async def exchange(token: bytes) -> bytes:
        return bytes((await broker.call(SaslAuthenticateRequest(auth_bytes=token))).auth_bytes)

    await _scram(exchange, sasl, NONCE)


def test_scram_is_the_exchange_of_the_rfc() -> None:
    broker = Broker(CHALLENGE, VERDICT)
    asyncio.run(scripted(broker, USER))
    assert broker.received == [f"n,,n=user,r={NONCE}".encode(), PROOF.encode()]


@pytest.mark.parametrize(
    "answers",
    [
        (CHALLENGE, "v=AAAA"),
        (CHALLENGE.replace("rOpr", "xxxx"), VERDICT),
        (CHALLENGE.replace("4096", "1"), VERDICT),
        (CHALLENGE.replace("4096", "4096000000"), VERDICT),
        ("nonsense", VERDICT),
        ("\xff", VERDICT),
        (CHALLENGE, "v=\xff"),
    ],
    ids=[
        "does not know the password",
        "not our nonce",
        "too few iterations",
        "iterations without end",
        "no challenge",
        "no text",
        "a proof that is no text",
    ],
)
def test_a_broker_that_proves_nothing_is_refused(answers: tuple[str, str]) -> None:
    with pytest.raises(KafkaError) as refused:
        asyncio.run(scripted(Broker(*answers), USER))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_plain_sends_user_and_password() -> None:
    broker = Broker("")
    asyncio.run(authenticate(broker, Sasl("PLAIN", "user", "pencil")))
    assert broker.received == [b"\0user\0pencil"]


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(KafkaError, match="offers SASL PLAIN, not SCRAM-SHA-256"):
        asyncio.run(authenticate(Broker(mechanisms=("PLAIN",)), USER))


def test_a_refusal_names_the_user_and_the_reason() -> None:
    broker = Broker(error=ErrorCode.SASL_AUTHENTICATION_FAILED)
    with pytest.raises(KafkaError, match=r"refused user 'user' \(wrong password\): check"):
        asyncio.run(authenticate(broker, Sasl("PLAIN", "user", "pencil")))


def test_an_unknown_mechanism_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="SCRAM-SHA-512"):
        Sasl("GSSAPI", "user", "pencil")


def test_a_password_is_not_shown() -> None:
    assert "pencil" not in repr(USER)


def test_a_token_is_made_for_each_connection() -> None:
    tokens = iter(["one", "two"])
    sasl = Sasl("OAUTHBEARER", token=lambda: next(tokens))
    for token in ("one", "two"):
        broker = Broker("", mechanisms=("OAUTHBEARER",))
        asyncio.run(authenticate(broker, sasl))
        assert broker.received == [f"n,,\1auth=Bearer {token}\1\1".encode()]


def test_a_token_may_be_awaited() -> None:
    async def fetch() -> str:
        return "fetched"

    broker = Broker("", mechanisms=("OAUTHBEARER",))
    asyncio.run(authenticate(broker, Sasl("OAUTHBEARER", token=fetch)))
    assert b"fetched" in broker.received[0]


def test_a_token_that_the_broker_does_not_like_is_refused() -> None:
    broker = Broker('{"status":"invalid_token"}', mechanisms=("OAUTHBEARER",))
    with pytest.raises(KafkaError) as refused:
        asyncio.run(authenticate(broker, Sasl("OAUTHBEARER", token=lambda: "bad")))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert broker.received[1] == b"\1"


@pytest.mark.parametrize(("mechanism", "has_token"), [("OAUTHBEARER", False), ("PLAIN", True)])
def test_a_token_goes_with_its_mechanism_only(mechanism: str, has_token: bool) -> None:
    with pytest.raises(ValueError, match="OAUTHBEARER needs a function"):
        Sasl(mechanism, "user", "pencil", token=(lambda: "t") if has_token else None)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("PLAIN", b"user", "pencil"), "username is bytes: expected a str"),
        (("PLAIN", "user", b"pencil"), "password is bytes: expected a str"),
        (("SCRAM-SHA-256", "user", None), "password is NoneType: expected a str"),
        (("OAUTHBEARER", "", "", "token"), "token is str: expected a function that returns a token"),
    ],
)
def test_credentials_of_another_type_are_refused_and_a_password_is_not_shown(
    given: tuple[object, ...], text: str
) -> None:
    with pytest.raises(TypeError, match=f"Sasl: {text}") as refused:
        Sasl(*given)  # type: ignore[arg-type]
    assert "pencil" not in str(refused.value)
