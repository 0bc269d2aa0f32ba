"""Java behind gateways with TLS on both sides and SCRAM-SHA-512 through them, which authenticates again under parking.

Brokers close a connection that is not authenticated again in time (KIP-368), and its client opens another one.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.group import Group, keyed
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway
from interop.ports import free_port
from interop.producers import produce
from tests.interop.certificates import authority, signed
from tests.interop.conftest import SHORT_SESSIONS
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300)]
MECHANISM, USER, PASSWORD = "SCRAM-SHA-512", "ann", "it-is-secret"
LIFETIME_S = 4
GROUPS = {
    "listener": [{"assignor": "cooperative-sticky"}, {"protocol": "consumer"}],
    "rewrite": [{"assignor": "range"}, {"protocol": "consumer"}],
}


class Secured:
    """A broker with TLS and SCRAM on the listeners of its clients, and what they need to know."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ours = authority(directory, "authority")
        self.authority = ours.certificate
        self.gateway_certificate = signed(directory, "gateway", ours, "IP:127.0.0.1")
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
        settings = {
            **SHORT_SESSIONS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(signed(directory, "broker", ours, "IP:127.0.0.1")),
            "sasl.enabled.mechanisms": MECHANISM,
        }
        for name in ("clients", "gateway"):
            mechanism = f"listener.name.{name}.{MECHANISM.lower()}"
            settings[f"{mechanism}.sasl.jaas.config"] = f"{scram} required;"
            settings[f"{mechanism}.connections.max.reauth.ms"] = str(1000 * LIFETIME_S)
        self.at_gateway = f"127.0.0.1:{free_port()}"
        self.kafka = ApacheKafka(
            settings,
            heap="512m",
            wait_s=120,
            listeners=("PLAINTEXT", "CLIENTS:SASL_SSL", "GATEWAY:SASL_SSL"),
            advertised={"GATEWAY": self.at_gateway},
            formatting=("--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]"),
        )

    def gateway(self, mode: str) -> KohortGateway:
        """Return a gateway; in mode `rewrite` its own look-ups are authenticated too."""
        tls = (
            "--listener-tls-certificate",
            str(self.gateway_certificate),
            "--broker-tls-authority",
            str(self.authority),
            "--park",
            "*",
        )
        if mode == "listener":
            return KohortGateway(self.kafka.bootstrap, *tls, mode=mode, bootstrap=self.at_gateway)
        config = self.directory / "look-ups.properties"
        config.write_text(
            f"security.protocol=SASL_SSL\nssl.ca.location={self.authority}\nsasl.mechanism={MECHANISM}\n"
            f"sasl.username={USER}\nsasl.password={PASSWORD}\n"
        )
        return KohortGateway(self.kafka.addresses["CLIENTS"], "--command-config", str(config), *tls)

    def properties(self) -> dict[str, str]:
        """Return the settings of a Java member."""
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
        properties = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{scram} required username="{USER}" password="{PASSWORD}";',
        }
        return {f"property.{name}": value for name, value in properties.items()}


@pytest.mark.lane(45)
@pytest.mark.parametrize("broker", ["listener_of_three", "rewrite_of_three"])
@pytest.mark.capability("java", "TLS on both sides, SCRAM-SHA-512, authenticated again under parking")
def test_java_authenticates_again_while_its_heartbeats_wait(stage: Stage) -> None:
    need("java", "librdkafka")
    assert isinstance(stage.broker, KohortGateway)
    secured = Secured(stage.folder)
    with ExitStack() as stack:
        stack.enter_context(secured.kafka)
        create_topic(secured.kafka.bootstrap, stage.name, 6)
        gateway = stack.enter_context(secured.gateway(stage.broker.mode))
        kinds = GROUPS[stage.broker.mode]
        groups = [
            stack.enter_context(Group(gateway.bootstrap, f"{number}-{stage.name}", stage.name, 6, stage.folder))
            for number, _ in enumerate(kinds)
        ]
        for group, settings in zip(groups, kinds, strict=True):
            for _ in range(2):
                group.start("java", session_ms="10000", **settings, **secured.properties())
        for group in groups:
            group.calm(3)
        opened = gateway.metric("connections_opened_total")
        changes = [len(member.changes) for group in groups for member in group.members]
        written = produce("librdkafka", secured.kafka.bootstrap, stage.name, keyed(200, 17))
        groups[0].calm(3 * LIFETIME_S)
        for group in groups:
            group.drain(written)
            group.check(written)
        assert [len(member.changes) for group in groups for member in group.members] == changes
        assert gateway.metric("connections_opened_total") == opened, "clients had to connect again"
        assert gateway.metric("heartbeats_held_total") > 0
        assert not gateway.metric("fallbacks_total")
