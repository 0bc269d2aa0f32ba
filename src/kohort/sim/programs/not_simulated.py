"""What a program in virtual time cannot have, method by method of an event loop, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn


class NotSimulated(RuntimeError):
    """The program asked for something real: a thread, a process, a socket, TLS."""

    def __init__(self, what: str, instead: str = "give the program something to take its place in the test") -> None:
        super().__init__(f"there is no {what} in a simulated world: {instead}")


def _refusal(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotSimulated(what, instead)

    return refuse


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


def refusals() -> Iterator[tuple[str, Callable[..., NoReturn]]]:
    """Return the names of the methods, each with what stands in its place."""
    for what, names in _REFUSED.items():
        for name in names:
            yield name, _refusal(what, f"{name} reaches out of it")
