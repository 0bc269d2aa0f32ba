"""A TCP proxy whose connections are cut, all at once or those of a share, while bytes of a frame are on their way."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from random import Random

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what close sends is a reset, and what was not sent is dropped


class CuttingProxy:
    """Passes connections on to a port of this machine that may come and go; a context manager."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> CuttingProxy:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self, share: float, random: Random) -> int:
        """Cut that share of the connections, half of them by a reset; return how many."""
        with self._lock:
            chosen = [pair for pair in sorted(self._pairs, key=id) if random.random() < share]
        for pair in chosen:
            is_reset = random.random() < 0.5
            for each in pair:
                with suppress(OSError):
                    if is_reset:
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    each.shutdown(socket.SHUT_RDWR)
        return len(chosen)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._upstream), timeout=5)
                except OSError:  # it is down, as this connection is now
                    client.close()
                    continue
                broker.settimeout(None)
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair = (client, broker)
                with self._lock:
                    self._pairs.add(pair)
                for source, target in (pair, pair[::-1]):
                    threading.Thread(target=self._pump, args=(source, target, pair), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
        with self._lock:
            self._pairs.discard(pair)
        for each in pair:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        # Each pump closes what it reads from: the other may still be in a call on its own.
        source.close()
