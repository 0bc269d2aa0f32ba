"""Clients log in to our broker by each mechanism, with right credentials and with wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.logins import CLIENTS, WAYS, Credentials, Refused
from tests.interop.libraries import need

from kohort.broker.embedded import EmbeddedBroker

pytestmark = pytest.mark.timeout(200)
TOPIC = "locked"


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, EmbeddedBroker]]:
    """A broker of each kind."""
    started = {name: EmbeddedBroker(**arguments).start() for name, arguments in WAYS.items()}
    for broker in started.values():
        node = broker.broker.node
        assert node is not None, "the broker runs"
        node.topics.create(TOPIC, 1, {}, 0)
    yield started
    for broker in started.values():
        broker.stop()


@pytest.fixture(scope="module")
def stranger() -> EmbeddedBroker:
    """A broker, never started, with an authority and a client of its own."""
    return EmbeddedBroker(security_protocol="SSL", ssl_client_auth="required")


@pytest.mark.parametrize("broker", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.capability("locked", "{client}")
def test_right_credentials_open_the_broker(
    client: str, broker: str, brokers: dict[str, EmbeddedBroker], tmp_path: Path
) -> None:
    need(client)
    assert TOPIC in CLIENTS[client](Credentials.right(brokers[broker]), tmp_path)


@pytest.mark.parametrize("broker", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.capability("locked", "{client}")
def test_wrong_credentials_are_refused(
    client: str,
    broker: str,
    brokers: dict[str, EmbeddedBroker],
    stranger: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    need(client)
    own = brokers[broker]
    with pytest.raises(Refused):
        CLIENTS[client](Credentials.right(own).wrong(own, stranger), tmp_path)
