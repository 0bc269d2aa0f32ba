"""What all pages of a console have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.console.command_runs import command_line
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.web.templating import query, render


class Shown(NamedTuple):
    """A page that is shown once: its template, its values, and the status of the response."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


class OpenPage(NamedTuple):
    """A page that is updated: its title, its parts by name, and the groups on it, which are looked at more often."""

    template: str
    title: str
    parts: dict[str, str]
    group_ids: tuple[str, ...]
    live: str
    """The address of its updates."""
    topics: tuple[str, ...] = ()
    """Those whose logs are looked at while it is open."""


@dataclass(frozen=True, slots=True)
class Site:
    """One console: the cluster, where its pages are, and what they offer.

    `prefix` is the path before all addresses, empty or "/kohort". Commands are shown with the options
    that name the cluster.
    """

    watched: WatchedCluster
    now_ms: Callable[[], int]
    bootstrap: str
    prefix: str = ""
    allows_changes: bool = False
    cluster_options: Sequence[str] = ()

    def address(self, path: str, **values: object) -> str:
        """Return the address of a page with its query."""
        asked = query(values)
        return f"{self.prefix}{path}" + (f"?{asked}" if asked else "")

    def command(self, *words: str) -> str:
        """Return a command line of kohort for this cluster, as a shell reads it."""
        return command_line(words, self.cluster_options or ("--bootstrap-server", self.bootstrap))

    def render(self, template: str, **values: Any) -> str:
        """Return a page or a part of one, with what every page needs."""
        return render(template, site=self, watched=self.watched, now_ms=self.now_ms(), **values)
