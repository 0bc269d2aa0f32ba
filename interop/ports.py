"""Loopback ports for servers whose port must be known before they run."""

from __future__ import annotations

import random
import socket

_LEAST, _MOST = 20_000, 32_000
"""Below the ports that systems give to outgoing connections, one of which could take a port before its server does."""


def free_port() -> int:
    """Return a loopback port that is free now, at random, since others look for one at the same time."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(_LEAST, _MOST)))
            except OSError:
                continue
            return int(probe.getsockname()[1])
