"""The page of `kohort explain --html`: its first sentence answers, it fetches nothing, and names are only names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.unit.fleet.reports import HOSTILE

from kohort.cli.main import main
from kohort.console.history.explanation_page import explanation_page
from kohort.drawing.markup import Markup, tag
from kohort.group.explain.explain import explain
from kohort.group.explain.rebalance_report import GroupReport
from kohort.group.explain.remedy import Remedy

SAVED = Path(__file__).resolve().parents[4] / "examples" / "billing_events.jsonl"


def command(remedy: Remedy) -> Markup:
    return tag("code", " ".join(remedy.options))


def page(report: GroupReport, now_ms: int = 0) -> str:
    running = [] if report.running is None else [report.running]
    return explanation_page(report, [*report.rebalances, *running], report.refused, now_ms, command)


def answer(text: str) -> str:
    return re.sub("<[^>]+>", "", text.partition("<h1>")[2].partition("</h1>")[0])


def test_the_command_writes_the_page_and_the_drawing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, svg = tmp_path / "billing.html", tmp_path / "billing.svg"
    assert main(["explain", "billing", "--events", str(SAVED), "--html", str(html), "--svg", str(svg)]) == 0
    assert "3.3 partition-seconds unowned" in capsys.readouterr().out, "the text is printed as without a file"
    text = html.read_text()
    assert answer(text) == (
        "billing stood still for 39.3 partition-seconds in 7 rebalances, 36.0 of it at "
        "21 Nov 2026 11:52:19: m-3 evicted, no heartbeat for 6.0 s."
    )
    assert text.count('class="rebalance"') == 7
    assert "What avoids it" in text
    assert "kohort what-if billing" in text
    assert "--bootstrap-server" not in text, "the events of a file belong to no cluster"
    assert svg.read_text().startswith("<svg")


def test_it_fetches_nothing() -> None:
    text = page(explain_saved())
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", text)
    assert "<script" not in text
    assert "url(" not in text


def explain_saved() -> GroupReport:
    return explain([json.loads(line) for line in SAVED.read_text().splitlines()], "billing", now_ms=0)


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_only_a_name(name: str) -> None:
    events = [
        {"event": "member_joined", "member": name, "client": name, "instance": name, "host": name},
        {"event": "round_opened", "size": 1, "cause": {"kind": "member_joined", "member": name, "detail": name}},
        {"event": "generation_formed", "generation": 1, "protocol": name, "leader": name, "members": [name]},
        {"event": "assignment_stored", "generation": 1, "assignments": {name: {name: [0]}}, "synced": {name: 1}},
    ]
    known = explain([{"group": name, "at_ms": at, **each} for at, each in enumerate(events, 1)], name, now_ms=5_000)
    text = page(known, 5_000)
    assert "<script>" not in text
    assert "<img" not in text
    assert not {"\x1b", "\u202e", "\x00"} & set(text)


def test_a_group_without_rebalances_has_a_page() -> None:
    known = explain([], "billing", now_ms=5_000)
    assert answer(page(known, 5_000)) == "billing has not rebalanced."
