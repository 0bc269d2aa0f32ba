"""Connections authenticate again before the session ends that the broker gave them (KIP-368)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integration.scripted_broker import ScriptedBroker

from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.blocking_connection import BlockingConnection
from kohort.net.connection import Connection
from kohort.net.sasl import Sasl
from kohort.wire.apis import Api
from kohort.wire.messages import (
    FindCoordinatorRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

USER = Sasl("PLAIN", "ann", "secret")
LIFETIME_MS = 40


def sessions(*, refused: bool = False) -> ScriptedBroker:
    """Return a broker of short sessions; `refused`: it takes credentials once."""
    seen: list[Any] = []

    def authenticated(request: object) -> SaslAuthenticateResponse:
        seen.append(request)
        error = ErrorCode.SASL_AUTHENTICATION_FAILED if refused and len(seen) > 1 else ErrorCode.NONE
        return SaslAuthenticateResponse(error_code=error, session_lifetime_ms=LIFETIME_MS)

    return ScriptedBroker(
        {
            Api.SASL_HANDSHAKE: lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            Api.SASL_AUTHENTICATE: authenticated,
        }
    )


async def open_to(broker: ScriptedBroker) -> Connection:
    host, port = broker.address.split(":")
    return await Connection.open(host, int(port), "c", sasl=USER)


async def ask_on(connection: Connection) -> None:
    while True:
        await connection.call(MetadataRequest())


def kinds(broker: ScriptedBroker) -> list[type]:
    return [type(request) for request in broker.asked if not isinstance(request, MetadataRequest)][1:]


def test_connection_authenticates_again_and_its_requests_keep_their_order() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(15), sessions() as broker:
            connection = await open_to(broker)
            while kinds(broker).count(SaslHandshakeRequest) < 2:
                asking = [connection.call(FindCoordinatorRequest(coordinator_keys=[str(n)])) for n in range(5)]
                await asyncio.gather(*asking)
            assert kinds(broker)[:2] == [SaslHandshakeRequest, SaslAuthenticateRequest]
            again = kinds(broker).index(SaslHandshakeRequest, 2)
            assert kinds(broker)[again + 1] is SaslAuthenticateRequest
            keys = [each.coordinator_keys[0] for each in broker.requests(FindCoordinatorRequest)]
            assert keys == [str(n) for n in range(5)] * (len(keys) // 5)
            connection.close()

    asyncio.run(scenario())


def test_requests_end_with_the_refusal_where_credentials_are_taken_no_longer() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(15), sessions(refused=True) as broker:
            connection = await open_to(broker)
            with pytest.raises(KafkaError, match="refused user 'ann'") as refused:
                await ask_on(connection)
            assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert connection.is_closed

    asyncio.run(scenario())


def test_blocking_connection_authenticates_again_between_requests_that_were_sent_ahead() -> None:
    def read(address: str, broker: ScriptedBroker) -> None:
        host, port = address.split(":")
        connection = BlockingConnection(host, int(port), "c", sasl=USER)
        connection.send(FindCoordinatorRequest(coordinator_keys=["0"]))
        number = 0
        while kinds(broker).count(SaslHandshakeRequest) < 2:
            number += 1
            connection.send(FindCoordinatorRequest(coordinator_keys=[str(number)]))
            assert connection.receive().coordinators[0].key == str(number - 1)
        assert connection.receive().coordinators[0].key == str(number)
        connection.close()

    async def scenario() -> None:
        async with asyncio.timeout(15), sessions() as broker:
            await asyncio.to_thread(read, broker.address, broker)

    asyncio.run(scenario())
