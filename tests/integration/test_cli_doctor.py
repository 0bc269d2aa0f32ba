"""`kohort doctor` against a broker: what it finds, in which order, and its exit status."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.integration.commands import Commands

from kohort import Admin, Consumer
from kohort.broker.embedded import EmbeddedBroker


def checks(document: dict[str, list[dict[str, str]]], about: str) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in document["findings"] if each["about"] == about}


def test_a_broker_and_its_groups_are_looked_at(kohort: Commands) -> None:
    async def scenario() -> None:
        async with Admin(kohort.address) as admin:
            await admin.create_topic("doctored", 2)
        async with Consumer(
            "doctored", bootstrap_servers=kohort.address, group_id="patient", client_id="aiokafka-0.12.0"
        ) as consumer:
            while not consumer.assignment():
                await consumer.poll(timeout_ms=50)
            outcome = await asyncio.to_thread(kohort, "doctor", "--json")
            text = (await asyncio.to_thread(kohort, "doctor")).out
        assert outcome.status == 0
        cluster = checks(outcome.json, f"cluster {kohort.address}")
        assert cluster["release"]["text"] == "a broker of kohort"
        assert checks(outcome.json, "broker 1")["advertised"]["severity"] == "ok"
        found = checks(outcome.json, "group patient")
        assert found["client"]["severity"] == "warning"
        assert found["assignor"]["fix"].startswith("group.remote.assignor=range")
        assert "warning group patient: aiokafka-0.12.0 seem to be aiokafka 0.12.0" in text

    asyncio.run(scenario())


def test_an_advertised_address_that_does_not_answer_is_wrong(kohort: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with EmbeddedBroker() as broker:
        node = broker.broker.node
        assert node is not None
        node.context.listener.advertised = ("127.0.0.1", port)
        outcome = kohort("doctor", "--json", "--bootstrap-server", broker.bootstrap_servers)
    assert outcome.status == 1
    advertised = checks(outcome.json, "broker 1")["advertised"]
    assert advertised["text"] == (
        f"the broker at {broker.bootstrap_servers} advertises 127.0.0.1:{port} for broker 1 (advertised.listeners),"
        " which this machine cannot reach: nothing listens there"
    )
    assert advertised["fix"].startswith("set advertised.listeners of broker 1")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [("security.protocol=SSL\n", "TLS"), ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n", "")],
)
def test_a_login_that_does_not_fit_is_a_finding_and_no_failure(kohort: Commands, config: str, sentence: str) -> None:
    file = kohort.directory / "client.properties"
    login = "sasl.username=ann\nsasl.password=secret\n" if "SASL" in config else ""
    file.write_text(config + login)
    outcome = kohort("doctor", "--json", "--command-config", str(file))
    assert outcome.status == 1
    (wrong,) = [each for each in outcome.json["findings"] if each["severity"] == "error"]
    assert wrong["about"] == f"cluster {kohort.address}"
    assert sentence in wrong["text"]


def test_a_cluster_that_does_not_answer_is_wrong(kohort: Commands) -> None:
    outcome = kohort("doctor", "--bootstrap-server", "127.0.0.1:1")
    assert outcome.status == 1
    assert "error   cluster 127.0.0.1:1: no broker answers at 127.0.0.1:1" in outcome.out
    assert outcome.out.endswith("1 error and 0 warnings\n")
