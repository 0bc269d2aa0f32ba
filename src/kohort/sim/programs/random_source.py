"""Random numbers, wall-clock time and refused calls of a simulated program.

What needs a real thread, process, socket or TLS raises `NotSimulated`, with a sentence that says what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NoReturn

from kohort.sim.kernel.host import Host

_REFUSED = {
    "subprocess": ("subprocess_exec", "subprocess_shell", "connect_read_pipe", "connect_write_pipe"),
    "server of the program's own": ("create_server", "create_unix_server", "connect_accepted_socket"),
    "socket": (
        "create_datagram_endpoint", "create_unix_connection", "add_reader", "remove_reader", "add_writer",
        "remove_writer", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall",
        "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile", "sendfile",
    ),
    "TLS": ("start_tls",),
}  # fmt: skip
"""The methods of an event loop that need something real, by what that is."""


class NotSimulated(RuntimeError):
    """The program asked for something real: a thread, a process, a socket, TLS."""

    def __init__(self, what: str, instead: str = "give the program something to take its place in the test") -> None:
        super().__init__(f"there is no {what} in a simulated world: {instead}")


class RandomSource:
    """The environment of a simulated program (`net.environment`): random numbers and wall-clock time of its world."""

    def __init__(self, host: Host, random: Random) -> None:
        self.random = random.random
        self.randbytes = random.randbytes
        self.wall_ms = host.now_ms
        self.observer: object = None
        self.program: object = None
        """Whose loop it is."""

    def refuse(self, what: str) -> NoReturn:
        """Raise `NotSimulated`."""
        raise NotSimulated(what)


def refusals() -> Iterator[tuple[str, Callable[..., NoReturn]]]:
    """Yield the names of the refused methods, each with a function that raises."""
    for what, names in _REFUSED.items():
        for name in names:
            yield name, _refusal(what, f"{name} reaches out of it")


def _refusal(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotSimulated(what, instead)

    return refuse
