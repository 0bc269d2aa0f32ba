"""Which refused joins are written as events and logged: the first of a client at once, then one a minute with a count.

Any client can send joins that are refused, as many as a connection carries and under any name, so what is written is
bounded: for each group and for the node. What goes beyond is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kohort.group.events import JoinRefused
from kohort.group.join_refusals import Why, why_refused
from kohort.group.shard import Shard
from kohort.node.timers import Timers

log = logging.getLogger("kohort.node")

WINDOW_MS = 60_000
"""How long repeated refusals of one client are gathered into one event."""
GROUP_CLIENTS = 5
"""Of how many clients of one group refusals are written in a window."""
NODE_CLIENTS = 100
"""The same for all groups."""

LONGEST_ID = 100
"""How much of a client id is logged."""

TIMER = "refused joins"
Written = Callable[[JoinRefused, Why, int], None]
"""Takes an event, why it was, and for how many refusals it stands."""


class RefusedJoins:
    """The refusals of a window, by client; `write` takes those that are to be written."""

    def __init__(self, timers: Timers, write: Written) -> None:
        self._timers = timers
        self._write = write
        self._known: dict[tuple[object, ...], tuple[JoinRefused, Why, int]] = {}
        """By client the last refusal that is not written, why the first one was, and how many are not written."""
        self._clients: dict[str, int] = {}
        """By group, how many clients are known."""
        self._beyond = 0

    def take(self, shard: Shard, event: JoinRefused, now_ms: int) -> None:
        """Write a refusal, or count it."""
        request = event.request
        key = (event.group_id, event.error, request.client_id, request.instance_id, type(request))
        known = self._known.get(key)
        if known is not None:
            self._known[key] = event, known[1], known[2] + 1
            return
        if len(self._known) >= NODE_CLIENTS or self._clients.get(event.group_id, 0) >= GROUP_CLIENTS:
            self._beyond += 1
            return
        if not self._known:
            self._timers.arm(TIMER, now_ms + WINDOW_MS, self._end_window)
        why = why_refused(shard, event)
        self._known[key] = event, why, 0
        self._clients[event.group_id] = self._clients.get(event.group_id, 0) + 1
        self._report(event, why, 1)

    def _end_window(self, now_ms: int) -> None:
        """Write the counts, and forget the clients that were refused no more."""
        known, self._known = self._known, {}
        self._clients.clear()
        for key, (event, why, count) in known.items():
            if count:
                self._known[key] = event, why, 0
                self._clients[event.group_id] = self._clients.get(event.group_id, 0) + 1
                self._report(event, why, count)
        if self._beyond:
            log.warning("%d more refused joins in the last %d s are not listed", self._beyond, WINDOW_MS // 1000)
            self._beyond = 0
        if self._known:
            self._timers.arm(TIMER, now_ms + WINDOW_MS, self._end_window)

    def _report(self, event: JoinRefused, why: Why, count: int) -> None:
        times = f", {count} times in {WINDOW_MS // 1000} s" if count > 1 else ""
        request = event.request
        log.warning(
            "group %r refused client id %r (%s) with %s%s: %s",
            event.group_id, request.client_id[:LONGEST_ID], request.client_host, event.error.name, times, why.text,
        )  # fmt: skip
        self._write(event, why, count)
