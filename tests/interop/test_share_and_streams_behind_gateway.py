"""Share groups and streams groups of Java on Apache Kafka: how soon they settle, direct and through a gateway."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway

from interop import jars
from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, sentence

STREAMS = "streams-pom.xml"
MOST_MS = {"share": {"join_ms": 1_000, "leave_ms": 1_500}, "streams": {"join_ms": 3_500, "leave_ms": 1_500}}
"""What a change of a group of four takes behind a gateway at most; KafkaStreams takes a second to start."""


@pytest.mark.parametrize("kind", ["share", "streams"])
@pytest.mark.capability("kohort gateway", "{kind} groups of Java settle sooner", broker="apache")
def test_group_settles_sooner_behind_a_gateway(apache: ApacheKafka, kind: str, tmp_path: Path) -> None:
    program, events = jars.compiled("SettleUnowned", pom=STREAMS), tmp_path / "events.jsonl"
    with KohortGateway(apache.bootstrap, "--park", "settle-*", "--events", str(events)) as gateway:
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
    if kind == "streams":
        check_explained(events)


def check_explained(events: Path) -> None:
    """Check the rebalances of the group behind the gateway: of four members and eight tasks, of which one leaves."""
    explanation: Explanation | None = None
    for line in events.read_text().splitlines():
        event = json.loads(line)
        explanation = explanation or Explanation(event["group"])
        explanation.fold(event)
    assert explanation is not None
    report = explanation.report(0)
    sentences = [sentence(each, Names(report.identities)) for each in report.rebalances]
    assert report.group_type == "streams"
    assert any(" joined; 2 of 8 tasks unowned" in each for each in sentences), sentences
    assert any(" left; 2 of 8 tasks unowned" in each for each in sentences), sentences
    assert not any("not observed" in each for each in sentences), sentences
