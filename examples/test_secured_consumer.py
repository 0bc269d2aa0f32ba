"""A test of clients that log in: the fixture makes the authority, the certificate and the user."""

import asyncio
from typing import Any

import pytest

from kohort import Admin, KafkaError, Sasl
from kohort.testing import EmbeddedBroker


async def topics(**settings: Any) -> list[str]:
    async with Admin(**settings) as admin:
        return [topic.name for topic in await admin.list_topics()]


@pytest.mark.kohort_settings(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", users={"ann": "secret"})
def test_only_the_right_password_opens_the_broker(kohort_broker: EmbeddedBroker) -> None:
    settings: dict[str, Any] = {**kohort_broker.client_settings}
    assert asyncio.run(topics(**settings)) == []
    with pytest.raises(KafkaError, match="refused user 'ann'"):
        asyncio.run(topics(**settings | {"sasl": Sasl("SCRAM-SHA-512", "ann", "wrong")}))
