"""The picture of the console in README.md: a group that is played in virtual time, photographed by Chromium.

`make picture` writes it; test_console_picture.py finds out whether it is old.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from tests.interop.browser import Chromium, chromium
from tests.unit.what_if.groups import group

from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.history.watched_group import CoordinatedGroup
from kohort.console.web.console_app import VERSION
from kohort.console.web.group_pages import group_page
from kohort.console.web.site import Site
from kohort.drawing.html_page import page_style
from kohort.model.ids import TopicPartition
from kohort.what_if.change import Pace, PlannedChange, restarts_for
from kohort.what_if.group_facts import GroupFacts, Times, roster_of
from kohort.what_if.simulation import Simulation

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SCHEMES = ("light", "dark")
WIDTH = 980
NOW_MS = round(datetime(2026, 11, 28, 14, 9, 30, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS = 60_000
NAMES = tuple(f"invoices-{place}" for place in range(1, 4))


def watched_cluster() -> WatchedCluster:
    """Return what a console knows of a group while a deploy restarts its members, whose polls take long."""
    live = group(*NAMES, each=3)
    ids = {name: f"{name}-{UUID(int=place << 112 | 0x4C1F)}" for place, name in enumerate(NAMES, 0x3D07)}
    renamed = tuple(replace(each, member_id=ids[each.name]) for each in live.members)
    live = replace(live, group_id="billing", members=renamed)
    times = Times(poll_ms=9_000, pause_ms=50_000, away_ms=8_000)
    change = PlannedChange(restarts=restarts_for(live, None, None, Pace.ROLLING))
    played = Simulation(GroupFacts(live), roster_of(live), times, change, lambda _: None)
    played.forecast("")
    events = [dict(event) for event in played.broker.events()]
    shift_ms = NOW_MS - MINUTE_MS - max(int(event["at_ms"]) for event in events)
    watched = WatchedCluster()
    watched.fold_listing([CoordinatedGroup("billing", "classic", "Stable", "consumer", 1)])
    for event in events:
        watched.fold_event({**event, "at_ms": int(event["at_ms"]) + shift_ms})
    owned = {
        member.member_id: frozenset(member.machine.owned) for member in played.members.values() if not member.is_dead
    }
    members = tuple(
        MemberDescription(member_id, None, member_id.rpartition("-")[0], "/127.0.0.1", partitions, topics=("orders",))
        for member_id, partitions in sorted(owned.items())
    )
    watched.fold_description(NOW_MS, "billing", GroupDescription("billing", "Stable", "consumer", "range", members))
    for at_ms, behind in ((NOW_MS - 10_000, 210), (NOW_MS, 180)):
        ends = {TopicPartition("orders", number): 40_000 + at_ms // 50 % 10_000 for number in range(9)}
        watched.fold_offsets(at_ms, "billing", {each: end - behind // 9 for each, end in ends.items()}, ends)
    return watched


def pictured_page() -> str:
    """Return the page of the group as one file, its style in it and without its script."""
    site = Site(watched_cluster(), lambda: NOW_MS, "kafka-1:9092")
    values = {"id": "billing", "minutes": "5"}
    page = group_page(site, values)
    assert page is not None
    text = site.render(page.template, page=page, version=VERSION, group_id="billing", minutes="5")
    style = page_style() + (Path(__file__).resolve().parents[2] / "src/kohort/console/web/console.css").read_text()
    text = re.sub(r"<script[^>]*></script>", "", text)
    return re.sub(r'<link rel="stylesheet"[^>]*>', lambda _: f"<style>{style}</style>", text)


def photographed(browser: Chromium, page: Path, scheme: str) -> bytes:
    """Return the picture: the page from its top to what avoids its last rebalance."""
    browser.open(page, width=WIDTH, height=900, is_dark=scheme == "dark")
    browser.value("document.querySelector('details.rebalance').open = true")
    bottom = browser.value("document.querySelector('.remedies li').getBoundingClientRect().bottom + scrollY + 16")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": round(bottom), "scale": 1}
    shot = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    return base64.b64decode(shot["data"])


def pictures(folder: Path) -> dict[str, bytes]:
    """Return the picture of each colour scheme; `folder` is for the page."""
    page = folder / "console.html"
    page.write_text(pictured_page(), encoding="utf-8")
    with chromium() as browser:
        return {scheme: photographed(browser, page, scheme) for scheme in SCHEMES}


def path_of(scheme: str) -> Path:
    """Return where the picture of a colour scheme is."""
    return PICTURES / f"console-{scheme}.png"


if __name__ == "__main__":
    import tempfile

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for each, content in pictures(Path(folder)).items():
            path_of(each).write_bytes(content)
            print(f"{path_of(each)}: {len(content):,} bytes")
