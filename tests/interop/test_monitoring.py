"""Prometheus' own tool on our alerts, and on what a broker and the exporter serve."""

from __future__ import annotations

import asyncio
import json
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


def test_alerts_come_and_go_with_the_metrics_that_they_are_about() -> None:
    path = DOCS / "monitoring" / "alerts-test.yml"
    outcome = subprocess.run([str(PROMTOOL), "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_every_query_of_the_dashboards_is_one_of_prometheus(tmp_path: Path) -> None:
    """promtool checks rules: each query becomes one, with a number for what Grafana fills in."""
    rules: list[dict[str, str]] = []
    for path in (*(DOCS / "monitoring").glob("*.json"), DOCS / "gateway-dashboard.json"):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                expr = target["expr"].replace("$__rate_interval", "5m").replace("$__range", "1h")
                rules.append({"record": f"query:{len(rules)}", "expr": expr})
    assert len(rules) > 20
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    checked("rules", str(tmp_path / "queries.yml"))


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
