"""Streams of updates: what has changed is sent, and their number is limited."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.unit.console.looks import listed

from kohort.client import Cluster, Consumer
from kohort.console.cluster_poller import ClusterPoller
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.web.live_updates import STREAMS, LiveUpdates
from kohort.console.web.site import Site


def updates(watched: WatchedCluster) -> LiveUpdates:
    poller = ClusterPoller(Cluster("127.0.0.1:1"), watched, Consumer, lambda: 0, str)
    return LiveUpdates(Site(watched, lambda: 5000, "h:9092"), poller)


async def read_first(live: LiveUpdates, name: str, values: dict[str, str]) -> list[dict[str, Any]]:
    """Return what is sent to a reader that is gone after the first parts."""
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            gone.set()

    await live.stream(name, values, receive, send)
    return sent


def test_the_first_message_has_every_part() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("billing")])
    live = updates(watched)
    start, first, *_ = asyncio.run(read_first(live, "groups", {}))
    assert (start["status"], live.streams) == (200, 0)
    parts = json.loads(first["body"].removeprefix(b"data: "))
    assert parts.keys() == {"summary", "list", "feed", "problem"}
    assert "billing" in parts["list"]


def test_a_group_that_is_gone_is_sent_as_that() -> None:
    _, first, *_ = asyncio.run(read_first(updates(WatchedCluster()), "group", {"id": "billing"}))
    assert json.loads(first["body"].removeprefix(b"data: "))["gone"] == "1"


def test_more_streams_than_the_limit_are_refused() -> None:
    live = updates(WatchedCluster())
    live.streams = STREAMS
    start, body = asyncio.run(read_first(live, "groups", {}))
    assert start["status"] == 503
    assert b"too many open pages" in body["body"]
    assert live.streams == STREAMS


def test_groups_on_open_pages_are_counted_by_page() -> None:
    poller = ClusterPoller(Cluster("127.0.0.1:1"), WatchedCluster(), Consumer, lambda: 0, str)
    with poller.page_open() as one, poller.page_open() as other:
        one(["a", "b"], ["t"])
        other(["b"], [])
        assert dict(poller._shown) == {"a": 1, "b": 2}
        one(["c"], [])
        assert dict(poller._shown) == {"b": 1, "c": 1}
    assert not poller._shown
    assert not poller._topics
