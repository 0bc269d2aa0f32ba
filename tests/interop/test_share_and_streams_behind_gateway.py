"""Share groups and streams groups of Java on Apache Kafka: how soon they settle, direct and through a gateway."""

from __future__ import annotations

import json
import subprocess

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway

from interop import jars

STREAMS = "streams-pom.xml"
MOST_MS = {"share": {"join_ms": 1_000, "leave_ms": 1_500}, "streams": {"join_ms": 3_500, "leave_ms": 1_500}}
"""What a change of a group of four takes behind a gateway at most; KafkaStreams takes a second to start."""


@pytest.mark.parametrize("kind", ["share", "streams"])
@pytest.mark.capability("kohort gateway", "{kind} groups of Java settle sooner", broker="apache")
def test_group_settles_sooner_behind_a_gateway(apache: ApacheKafka, kind: str) -> None:
    program = jars.compiled("SettleUnowned", pom=STREAMS)
    with KohortGateway(apache.bootstrap, "--park", "settle-*") as gateway:
        brokers = f"{apache.bootstrap},{gateway.bootstrap}"
        command = jars.command(
            "SettleUnowned", apache.bootstrap, brokers, kind, "4", "7000", classes=program, pom=STREAMS
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    direct, behind = map(json.loads, done.stdout.splitlines())
    assert behind["join_ms"] + behind["leave_ms"] < direct["join_ms"] + direct["leave_ms"]
    assert {change: behind[change] < most for change, most in MOST_MS[kind].items()} == dict.fromkeys(
        MOST_MS[kind], True
    )
