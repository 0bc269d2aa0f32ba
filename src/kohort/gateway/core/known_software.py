"""The software of clients that name it on one of their connections only, as @platformatic/kafka does (KIP-511)."""

from __future__ import annotations

from collections import OrderedDict

MOST_CLIENTS = 10_000
"""Of how many clients the software is remembered."""


class KnownSoftware:
    """By host and client id, the software that ApiVersions named; empty where two clients share both."""

    def __init__(self) -> None:
        self._names: OrderedDict[tuple[str, str], str] = OrderedDict()

    def note(self, host: str, client_id: str, software: str) -> None:
        """A client names its software."""
        before = self._names.pop((host, client_id), software)
        while len(self._names) >= MOST_CLIENTS:
            self._names.popitem(last=False)
        self._names[host, client_id] = software if before == software else ""

    def of(self, host: str, client_id: str) -> str:
        """Return the software of a client that has named none on this connection, or empty."""
        return self._names.get((host, client_id), "")
