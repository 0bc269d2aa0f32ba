"""What a simulated program gets from around it instead of the system's: luck, wall time, and no for an answer."""

from __future__ import annotations

from random import Random
from typing import NoReturn

from kohort.sim.kernel.host import Host
from kohort.sim.programs.not_simulated import NotSimulated


class Luck:
    """What a simulated program gets from around it (`net.surroundings`)."""

    def __init__(self, host: Host, random: Random) -> None:
        self._host = host
        self.random = random.random
        self.randbytes = random.randbytes
        self.wall_ms = host.now_ms
        self.observer: object = None
        self.program: object = None
        """Whose loop it is."""

    def refuse(self, what: str) -> NoReturn:
        """Raise `NotSimulated`."""
        raise NotSimulated(what)
