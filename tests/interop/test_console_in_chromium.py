"""The console as a browser shows it, while real clients join, die and leave: on our broker and on Apache Kafka."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from interop.brokers import BROKERS, Broker
from interop.group import Group
from interop.node_program import command
from tests.integration.running_console import RunningConsole
from tests.interop.browser import Chromium, chromium

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

AXE = Path(__file__).resolve().parent.parent.parent / "interop" / "axe"
PHONE: dict[str, Any] = {"width": 360, "is_phone": True}
DESK: dict[str, Any] = {"width": 1280, "height": 900}

WIDER = """[...document.querySelectorAll("main *")].filter((each) =>
  each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scrolls, nav, svg")
  && getComputedStyle(each).position !== "absolute").map((each) => each.outerHTML.slice(0, 200))"""

OWNERS = """Object.fromEntries([...document.querySelectorAll("#partitions tbody tr")].map((row) =>
  [row.querySelector("th").textContent, row.querySelector("[data-label=Owner]").textContent]))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as running:
        yield running


@pytest.fixture
def console(broker: Broker) -> Iterator[RunningConsole]:
    with RunningConsole(broker.bootstrap) as running:
        yield running


def until(browser: Chromium, condition: str) -> None:
    """Wait until an expression is true in the page: it is asked again after each change of the page."""
    wait = f"""new Promise((done, failed) => {{
      const check = () => {{ if ({condition}) {{ watching.disconnect(); clearTimeout(late); done(true); }} }};
      const watching = new MutationObserver(check);
      const late = setTimeout(() => failed(document.querySelector("main").innerText.slice(0, 3000)), 50000);
      watching.observe(document.body, {{ subtree: true, childList: true, characterData: true }});
      check();
    }})"""
    assert browser.value(wait)


def text_has(*words: str) -> str:
    """Return the condition that the page has words."""
    return " && ".join(f"document.querySelector('main').textContent.includes({json.dumps(word)})" for word in words)


@pytest.mark.parametrize("broker", list(BROKERS), indirect=True)
def test_what_the_page_shows_is_what_happened(
    broker: Broker, group: Group, console: RunningConsole, browser: Chromium
) -> None:
    """Two members share a topic, the page is open, one dies: owners, the cause, and what it cost, without a reload."""
    first, second = (group.start("kohort") for _ in range(2))
    group.calm()
    browser.console.clear()
    browser.requests.clear()
    browser.open(console.address, **DESK)
    assert "token" not in browser.value("location.href")
    browser.open(f"http://127.0.0.1:{console.port}/group?id={group.name}", **DESK)
    loads = browser.loads
    until(
        browser, f"Object.values({OWNERS}).every((owner) => owner !== 'no owner') && Object.keys({OWNERS}).length > 1"
    )
    owners = browser.value(OWNERS)
    assert {int(name.rpartition("-")[2]) for name in owners} == group.partitions
    shown = {frozenset(int(p.rpartition("-")[2]) for p, o in owners.items() if o == each) for each in owners.values()}
    assert shown == {frozenset(first.owned), frozenset(second.owned)}
    until(browser, "document.querySelectorAll('svg.owned').length > 1")
    group.kill(second)
    group.settle()
    is_ours = broker.name == "kohort"
    until(browser, text_has("evicted, no heartbeat for" if is_ours else "is gone: it left or was evicted"))
    until(browser, f"new Set(Object.values({OWNERS})).size === 1")
    newest = "document.querySelector('details.rebalance')"
    assert browser.value(f"{newest}.textContent.includes('inferred')") is not is_ours
    browser.value(f"{newest}.querySelector('summary').focus()")
    browser.press("Enter")
    browser.value(f"{newest}.open = true")
    assert "Step by step" in browser.value(f"{newest}.innerText")
    until(browser, "document.getElementById('live').textContent === 'live'")
    assert browser.loads == loads
    assert browser.console == []
    assert all(url.startswith(f"http://127.0.0.1:{console.port}/") for url in browser.requests if "://" in url)


ROWS = """[...document.querySelectorAll("main tbody tr")].map((row) =>
  [row.querySelector("th a").textContent, row.querySelector("[data-label='Unowned, last hour']").textContent])"""
COSTLY = """[...document.querySelectorAll(".feed .costly")].map((each) =>
  [each.querySelector("time").textContent, each.querySelector("a").textContent, each.textContent])"""


@pytest.mark.parametrize("broker", ["kohort"], indirect=True)
def test_a_new_user_finds_the_group_that_stood_still_its_cause_its_cost_and_what_avoids_it(
    group: Group, console: RunningConsole, browser: Chromium
) -> None:
    """From the address that the command prints, by links alone, to the command that avoids it; then that is run."""
    settings = {"assignor": "range"}
    _, slow = (group.start("librdkafka", **settings) for _ in range(2))
    group.calm()
    browser.open(console.address, **DESK)
    until(browser, text_has(group.name))
    slow.child.signal(signal.SIGSTOP)  # it is busy between two polls
    started = datetime.now(UTC)
    group.start("librdkafka", **settings)
    until(browser, "/rebalancing for [2-9][.][0-9] s, waiting for/.test(document.querySelector('main').innerText)")
    assert "rebalances now" in browser.value("document.querySelector('h1').innerText")
    slow.child.signal(signal.SIGCONT)
    group.calm()

    browser.open(console.address, **DESK)
    until(browser, f"{COSTLY}.length")
    (worst, unowned), *_ = browser.value(ROWS)
    assert (worst, unowned.endswith("partition-s")) == (group.name, True), "the group that stood still comes first"
    at, name, line = browser.value(COSTLY)[0]
    assert name == group.name
    assert abs(datetime.combine(started, time.fromisoformat(at), UTC) - started) < timedelta(minutes=1)
    assert "joined" in line
    loads = browser.loads
    place = "document.querySelector('.feed .costly a')"
    browser.value(f"{place}.click()")
    until_loaded(browser, loads)
    until(browser, "document.querySelector('details.rebalance[open]')")
    opened = browser.value("document.querySelector('details.rebalance[open]').innerText")
    assert "joined" in opened
    assert "partition-seconds" in opened
    assert "What avoids it" in opened
    assert re.search(r"All members waited [2-9]\.\d s for ", opened)
    assert serious_findings(browser) == []
    commands = browser.value("[...document.querySelectorAll('details[open] .remedies code')].map((e) => e.textContent)")
    assert len(commands) >= 2
    for each in commands:
        words = shlex.split(each)
        assert words[0] == "kohort"
        ran = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, (each, ran.stderr)
    assert "unread" in ran.stdout.lower() or "restart" in ran.stdout


def until_loaded(browser: Chromium, loads: int) -> None:
    """Wait for the page that a click has opened."""
    while browser.loads == loads:
        next(browser.messages())


def serious_findings(browser: Chromium) -> list[tuple[str, ...]]:
    """Return what axe finds on the page as it is."""
    axe = subprocess.run(command(AXE), capture_output=True, text=True, timeout=60, check=True).stdout
    browser.value(f"{axe}; 0")
    report = browser.value("axe.run().then((found) => JSON.stringify(found.violations))")
    return [
        (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"][:300])
        for each in json.loads(report)
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("broker", ["kohort"], indirect=True)
def test_pages_fit_and_have_no_serious_findings_of_axe(
    group: Group, console: RunningConsole, browser: Chromium
) -> None:
    group.start("kohort")
    group.calm()
    browser.open(console.address, **DESK)
    base = f"http://127.0.0.1:{console.port}"
    paths = ["/", f"/group?id={group.name}", "/topics", f"/topic?name={group.topic}&partition=0", "/cluster", "/plan"]
    paths += ["/fleet", f"/action/drain?id={group.name}", "/no/such/page"]
    found = []
    for path in paths:
        for is_dark, device in ((False, DESK), (True, PHONE)):
            browser.open(base + path, **device, is_dark=is_dark)
            browser.value("for (const each of document.querySelectorAll('details')) each.open = true")
            assert browser.value("document.documentElement.scrollWidth") <= device["width"], path
            assert browser.value(WIDER) == [], path
            found += [(path, is_dark, *each) for each in serious_findings(browser)]
    assert found == []
