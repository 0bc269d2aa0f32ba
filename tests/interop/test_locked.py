"""Clients log in to our broker by each mechanism, with right credentials and with wrong ones, and see what they may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.logins import AGAIN, CLIENTS, LIFETIME_MS, WAYS, Credentials, Refused
from tests.interop.libraries import need

from kohort.broker.embedded import EmbeddedBroker
from kohort.model.acl import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType

pytestmark = pytest.mark.timeout(200)
ALLOWED, HIDDEN = "allowed", "hidden"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _allow(broker: EmbeddedBroker, principal: str) -> None:
    """Create two topics, of which a principal may see one."""
    node = broker.broker.node
    assert node is not None, "the broker runs"
    for topic in (ALLOWED, HIDDEN):
        node.topics.create(topic, 1, {}, 0)
    seen = AclBinding(
        ResourceType.TOPIC,
        ALLOWED,
        PatternType.LITERAL,
        principal,
        WILDCARD,
        AclOperation.DESCRIBE,
        AclPermission.ALLOW,
    )
    node.state.change_acls([seen], [], 0)


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, EmbeddedBroker]]:
    """A broker of each kind."""
    started = {
        name: EmbeddedBroker(**arguments, authorizer_class_name=AUTHORIZER).start() for name, arguments in WAYS.items()
    }
    for name, broker in started.items():
        _allow(broker, "User:ANONYMOUS" if name == "TLS" else f"User:{next(iter(broker.security.users))}")
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
def test_right_credentials_show_the_topics_that_their_principal_may_describe(
    client: str, broker: str, brokers: dict[str, EmbeddedBroker], tmp_path: Path
) -> None:
    need(client)
    topics = CLIENTS[client](Credentials.right(brokers[broker]), tmp_path)
    assert (ALLOWED in topics, HIDDEN in topics) == (True, False)


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


@pytest.mark.parametrize("broker", [name for name, arguments in WAYS.items() if "sasl_mechanism" in arguments])
@pytest.mark.parametrize("client", AGAIN)
@pytest.mark.capability("locked", "{client}")
def test_client_logs_in_again_and_keeps_its_connection(client: str, broker: str, tmp_path: Path) -> None:
    need(client)
    with EmbeddedBroker(**WAYS[broker], connections_max_reauth_ms=LIFETIME_MS) as own:
        assert AGAIN[client](Credentials.right(own), tmp_path, 3) == 0
