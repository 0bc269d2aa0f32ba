"""Prometheus' own tool on our alerts, and on what a broker and the exporter serve."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.integration.test_metrics_of_groups import DOCS, broker_with_a_group

from kohort.broker.broker import Broker
from kohort.model.exposition import exposition

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool: Debian's package prometheus has it")


def checked(*words: str, text: str = "") -> str:
    outcome = subprocess.run([str(PROMTOOL), "check", *words], input=text, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stderr


def test_alerts_are_rules_of_prometheus() -> None:
    checked("rules", str(DOCS / "monitoring" / "alerts.yml"))


def test_names_and_texts_of_metrics_pass_prometheus_lint(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        broker = Broker(tmp_path, "127.0.0.1", 0, metrics=("127.0.0.1", 0))
        await broker.start()
        try:
            groups = await broker_with_a_group(broker)
            assert broker.metrics is not None
            return [exposition(broker.metrics.families()), exposition(groups.families())]
        finally:
            await broker.stop()

    for text in asyncio.run(scenario()):
        assert checked("metrics", text=text) == ""
