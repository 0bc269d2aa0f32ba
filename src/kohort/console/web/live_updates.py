"""Server-sent events: an open page gets the parts that have changed, at most once a second.

Nothing is queued for a page: it gets the newest parts when it can take them. The server resets connections of which
nothing is taken.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from kohort.console.cluster_poller import ClusterPoller, SetShown
from kohort.console.web.group_pages import group_page, groups_page
from kohort.console.web.site import OpenPage, Site
from kohort.console.web.topic_pages import topic_page, topics_page

STREAMS = 300
"""Open at a time; a further page is not updated, and shows that."""

LEAST_S = 1.0
QUIET_S = 15.0
"""After which an empty line is sent, so that a connection that is gone is noticed."""
_RENDERED = 8

PAGES: dict[str, Callable[[Site, Mapping[str, str]], OpenPage | None]] = {
    "groups": groups_page,
    "group": group_page,
    "topics": topics_page,
    "topic": topic_page,
}
"""Pages that are updated while they are open."""


class LiveUpdates:
    """The streams of one console: an ASGI application behind the one that checks access."""

    def __init__(self, site: Site, poller: ClusterPoller) -> None:
        self._site = site
        self._poller = poller
        self._rendered: OrderedDict[tuple[object, ...], OpenPage | None] = OrderedDict()
        self.streams = 0

    def page(self, name: str, values: Mapping[str, str]) -> OpenPage | None:
        """Return a page as it is now; pages of one second with one query are rendered once."""
        second = self._site.now_ms() // 1000
        key = (name, tuple(sorted(values.items())), self._site.watched.version, second)
        if key not in self._rendered:
            self._rendered[key] = PAGES[name](self._site, values)
            if len(self._rendered) > _RENDERED:
                self._rendered.popitem(last=False)
        return self._rendered[key]

    async def stream(self, name: str, values: Mapping[str, str], receive: Any, send: Any) -> None:
        """Send the changed parts of a page until its reader is gone."""
        if self.streams >= STREAMS:
            await _send_whole(send, 503, "too many open pages: close some")
            return
        self.streams += 1
        gone = asyncio.create_task(_until_gone(receive))
        try:
            headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with self._poller.page_open() as show:
                await self._send_parts(name, values, show, send, gone)
        except OSError:
            pass  # a reader that is gone
        finally:
            gone.cancel()
            self.streams -= 1

    async def _send_parts(self, name: str, values: Mapping[str, str], show: SetShown, send: Any, gone: Any) -> None:
        sent: dict[str, int] = {}  # hashes: three hundred pages would be hundreds of megabytes
        while not gone.done():
            version = self._site.watched.version
            page = self.page(name, values)
            parts = {"gone": "1"} if page is None else page.parts
            parts = {**parts, "problem": self._site.render("problem.html")}
            show(*(((),) if page is None else (page.group_ids, page.topics)))
            changed = {part: text for part, text in parts.items() if sent.get(part) != hash(text)}
            sent |= {part: hash(text) for part, text in changed.items()}
            lines = f"data: {json.dumps(changed)}\n\n" if changed else ":\n\n"
            await send({"type": "http.response.body", "body": lines.encode(), "more_body": True})
            await _first(gone, asyncio.sleep(LEAST_S))
            await _first(gone, self._poller.changed(version), asyncio.sleep(QUIET_S))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _first(gone: asyncio.Task[None], *others: Any) -> None:
    """Wait for the first of these."""
    tasks = [asyncio.ensure_future(each) for each in others]
    try:
        await asyncio.wait([gone, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_whole(send: Any, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
