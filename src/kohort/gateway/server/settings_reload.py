"""The file of a gateway's settings, followed while the gateway runs: what has changed in it applies without a restart.

What applies does so for requests, rounds and connections from then on; no connection is closed. What only a restart
changes stays as it is, with a sentence. A file that is refused changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from kohort.gateway.gateway_settings import GatewaySettings, Mode
from kohort.model.setting import SettingsError
from kohort.net.settings_files import located

log = logging.getLogger("kohort.gateway")

LOOK_SECONDS = 1.0
"""How often it is looked at whether the file has changed."""

RESTARTED = frozenset(
    {"bootstrap_servers", "mode", "node_ports", "node_names", "listen_host", "proxy_protocol_from", "metrics", "events"}
    | {"share_ports", "instances_listen", "instances_secret_file", "security"}
)
"""The settings that count from a restart on: what the process listens on, and what its own connections begin with."""


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Where settings come from: a file, and `read` for all of them. It raises SettingsError."""

    path: Path
    read: Callable[[], GatewaySettings]


def changeable(now: GatewaySettings, wanted: GatewaySettings) -> tuple[GatewaySettings, list[str], list[str]]:
    """Return what can apply of other settings, the names that change, and of those that need a restart.

    Raises SettingsError where the ones do not fit the others as they are.
    """
    changed = [each.name for each in fields(now) if getattr(now, each.name) != getattr(wanted, each.name)]
    restarted = [name for name in changed if _needs_restart(name, now, wanted)]
    try:
        settings = replace(wanted, **{name: getattr(now, name) for name in restarted})
    except SettingsError as error:
        raise SettingsError(f"restart the gateway to change {', '.join(restarted)} with the others: {error}") from None
    return settings, [name for name in changed if name not in restarted], restarted


def _needs_restart(name: str, now: GatewaySettings, wanted: GatewaySettings) -> bool:
    match name:
        case "advertised":
            return now.mode is Mode.REWRITE
        case "listener_tls":  # a port has TLS or none
            return now.listener_tls is None or wanted.listener_tls is None
        case "broker_tls":
            return now.mode is Mode.REWRITE and (now.broker_tls is None or wanted.broker_tls is None)
        case "instances":  # an instance without a link has no secret
            return now.instances_secret_file is None
    return name in RESTARTED


@dataclass(slots=True)
class ReloadCounters:
    """How often the settings were read again, by result, and how many of the file wait for a restart."""

    results: Counter[str] = field(default_factory=Counter)
    waiting: int = 0


class SettingsReload:
    """Reads the settings again when their file changes, and on `order`. `run` is its task.

    `take` makes the gateway use settings, and returns the names of those that have changed and of those that need a
    restart; it raises SettingsError. `note` gets an event of the gateway.
    """

    def __init__(
        self,
        source: SettingsSource,
        take: Callable[[GatewaySettings], tuple[Iterable[str], Iterable[str]]],
        note: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.counters = ReloadCounters()
        self._source = source
        self._take = take
        self._note = note
        self._stamp = self._stamped()
        self._content = self._read()
        self._ordered = asyncio.Event()

    def order(self) -> None:
        """Read the settings again, whether their file has changed or not."""
        self._ordered.set()

    async def run(self) -> None:
        """Look at the file again and again, until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ordered.wait(), LOOK_SECONDS)
            is_ordered = self._ordered.is_set()
            self._ordered.clear()
            self.look(is_ordered=is_ordered)

    def look(self, *, is_ordered: bool = False) -> None:
        """Read the settings again if their file has other content, or by order."""
        stamp = self._stamped()
        if stamp != self._stamp or is_ordered:
            self._stamp = stamp
            content = self._read()
            if content != self._content or is_ordered:
                self._content = content
                self._reload()

    def _reload(self) -> None:
        path = str(self._source.path)
        try:
            wanted = self._source.read()
            try:
                changed, restarted = map(list, self._take(wanted))
            except SettingsError as error:
                raise located(self._source.path, error) from None
        except SettingsError as error:
            self.counters.results["refused"] += 1
            log.error("the settings stay as they are: %s", error)
            self._note({"event": "gateway_settings_refused", "file": path, "reason": str(error)})
            return
        self.counters.results["applied"] += 1
        self.counters.waiting = len(restarted)
        log.info("%s is read again: %s", path, f"changed {', '.join(changed)}" if changed else "nothing has changed")
        if restarted:
            log.warning("%s needs a restart of the gateway: it has the old value until then", ", ".join(restarted))
        names = {"changed": changed, "needs_restart": restarted}
        self._note({"event": "gateway_settings_changed", "file": path, **names})

    def _stamped(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._source.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _read(self) -> bytes | None:
        try:
            return self._source.path.read_bytes()
        except OSError:
            return None
