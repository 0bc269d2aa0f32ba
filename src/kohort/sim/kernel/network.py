"""A network as TCP shows it to programs: bytes arrive in order or the connection ends, sooner or later.

A lost packet is a delay, since TCP sends it again; a path that is blocked delays bytes until it is free or the
sender times out; a process that is killed resets its connections, a machine without power sends nothing and leaves them
half open. Bytes that were on their way when a connection ended may have arrived or not: neither end learns which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.scheduler import Scheduler

Address = tuple[str, int]

RETRANSMIT_US = 200_000
"""After how long a lost packet is sent again the first time; each time after that takes twice as long."""

TIME_OUT_US = 20_000_000
"""After how long without a sign of its peer a sender ends a connection."""

_CLOSE = b""
"""What stands in a queue for the end of the stream."""


class End:
    """One end of a connection. Set `on_bytes` and `on_closed` when you get it; `on_closed` comes once at most."""

    __slots__ = (
        "_in", "_is_paused", "_last_us", "_network", "_stalled", "_undelivered", "host", "is_open", "is_path_lost",
        "number", "on_bytes", "on_closed", "peer",
    )  # fmt: skip

    def __init__(self, network: Network, host: Host, number: int) -> None:
        self.host = host
        self.number = number
        """The connection's number; both ends have the same."""
        self.is_open = True
        self.on_bytes: Callable[[bytes], None] = _ignore
        self.on_closed: Callable[[str], None] = _ignore
        self.peer: End = self
        self.is_path_lost = False
        """Whether what it sends is lost from here on, without a word."""
        self._network = network
        self._in: deque[bytes] = deque()
        """What has arrived or will, in order; each event of the scheduler takes one."""
        self._last_us = 0
        """When the last of it arrives."""
        self._undelivered: list[bytes] = []
        """What this end has sent and a blocked path delays."""
        self._stalled = False
        self._is_paused = False

    @property
    def peer_host(self) -> str:
        """The name of the host at the other end."""
        return self.peer.host.name

    @property
    def unsent(self) -> int:
        """How many bytes a sender's machine still has, because a path is blocked or the peer does not read."""
        waiting = sum(map(len, self._undelivered))
        return waiting + sum(map(len, self.peer._in)) if self.peer._is_paused else waiting

    def send(self, chunk: bytes) -> None:
        """Send bytes; they are lost if the connection ends before they arrive."""
        if self.is_open and chunk:
            self._network.carry(self, chunk)

    def close(self) -> None:
        """End the connection after what was sent; nothing more is received at this end."""
        if self.is_open:
            self.is_open = False
            self._network.carry(self, _CLOSE)
            if not self._undelivered:
                self._network.forget(self)

    def abort(self) -> None:
        """End the connection at once; what was on its way may be lost."""
        if self.is_open:
            self.is_open = False
            self._network.reset(self)
            self._network.forget(self)

    def pause_reading(self) -> None:
        """Take nothing more until `resume_reading`."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Take what has come, and continue."""
        if self._is_paused:
            self._is_paused = False
            for _ in range(len(self._in)):
                self.host.at_us(self._network.scheduler.now_us, self.take)

    def take(self) -> None:
        """Take the next chunk that has arrived."""
        if self._is_paused or not self._in:
            return
        chunk = self._in.popleft()
        if not self.is_open:
            if chunk is not _CLOSE:
                self._network.reset(self)  # a kernel answers so to bytes for a socket that is closed
        elif chunk is _CLOSE:
            self.lose("closed by the peer")
        else:
            self.on_bytes(chunk)

    def lose(self, why: str) -> None:
        """Learn that the connection is over."""
        if self.is_open:
            self.is_open = False
            self._network.forget(self)
            self.on_closed(why)


class Network:
    """The network of one world. Times are microseconds; hosts are named."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self.scheduler = scheduler
        self.latency_us = 250
        """What every packet takes at least."""
        self.jitter_us = 200
        """What a packet takes longer on average."""
        self.loss = 0.0
        """How likely a packet is lost, and sent again."""
        self.snap = 0.0
        """How likely a connection is reset when something is sent on it, which is lost."""
        self.cut = 0.0
        """How likely a chunk arrives in two pieces."""
        self.straggling_us = 0
        """How much later what was on its way may arrive when its connection ends: a proxy empties its buffers."""
        self._random = random
        self.names: dict[Address, tuple[Address, ...]] = {}
        """Addresses behind which stand others: each connection goes to one of them."""
        self._listeners: dict[Address, tuple[Host, Callable[[End], None]]] = {}
        self._blocked: dict[tuple[str, str], None] = {}
        self._ends: dict[End, None] = {}
        self._connections = 0
        self.carried = 0
        """How many chunks have been sent on their way."""

    # -- connecting

    def listen(self, address: Address, host: Host, accept: Callable[[End], None]) -> None:
        """Have `accept` called with the near end of each connection made to an address, until the process ends."""
        self._listeners[address] = (host, accept)
        host.on_death.append(lambda: self._unlisten(address, host))

    def connect(
        self, host: Host, address: Address, opened: Callable[[End], None], failed: Callable[[str], None]
    ) -> None:
        """Connect: `opened` gets the near end, or `failed` the reason, later."""
        if address in self.names:
            address = self._random.choice(self.names[address])
        listener = self._listeners.get(address)
        to = listener[0].name if listener is not None else address[0]
        if self.is_blocked(host.name, to) or self.is_blocked(to, host.name):
            host.after_us(TIME_OUT_US, failed, "timed out")
            return
        host.after_us(2 * self._delay_us(), self._establish, host, address, opened, failed)

    def _establish(
        self, host: Host, address: Address, opened: Callable[[End], None], failed: Callable[[str], None]
    ) -> None:
        listener = self._listeners.get(address)
        if listener is None:
            failed("refused")
            return
        server, accept = listener
        number = self._connections = self._connections + 1
        near, far = End(self, host, number), End(self, server, number)
        near.peer, far.peer = far, near
        for end in (near, far):
            self._ends[end] = None
        # The kernel takes a connection even where the process is frozen; the process learns of it later.
        server.at_us(self.scheduler.now_us, accept, far)
        opened(near)

    def _unlisten(self, address: Address, host: Host) -> None:
        listener = self._listeners.get(address)
        if listener is not None and listener[0] is host:
            del self._listeners[address]

    # -- carrying

    def carry(self, end: End, chunk: bytes) -> None:
        """Bring what an end sent to its peer."""
        if end.is_path_lost or (self._blocked and self.is_blocked(end.host.name, end.peer.host.name)):
            end._undelivered.append(chunk)
            if not end._stalled:
                end._stalled = True
                end.host.after_us(TIME_OUT_US, self._time_out, end)
            return
        if self.snap and chunk is not _CLOSE and self._random.random() < self.snap:
            self.break_connection(end)
            return
        if self.cut and len(chunk) > 1 and self._random.random() < self.cut:
            place = self._random.randrange(1, len(chunk))
            self._deliver(end.peer, chunk[:place])
            chunk = chunk[place:]
        self._deliver(end.peer, chunk)

    def _deliver(self, end: End, chunk: bytes) -> None:
        self.carried += 1
        when_us = max(self.scheduler.now_us + self._delay_us(), end._last_us)
        end._last_us = when_us
        end._in.append(chunk)
        end.host.at_us(when_us, end.take)

    def _delay_us(self) -> int:
        random = self._random.random
        delay_us = self.latency_us + int(2 * self.jitter_us * random())
        if self.loss:
            wait_us = RETRANSMIT_US
            while random() < self.loss and wait_us < TIME_OUT_US:
                delay_us += wait_us
                wait_us *= 2
        return delay_us

    def reset(self, end: End) -> None:
        """Reset the connection at the peer of an end; what is on its way to the peer may not arrive."""
        peer = end.peer
        end._undelivered.clear()
        if not peer.is_open or end.is_path_lost or self.is_blocked(end.host.name, peer.host.name):
            return
        if self._random.random() < 0.5:
            peer._in.clear()
        when_us = max(self.scheduler.now_us + self._delay_us(), peer._last_us)
        peer.host.at_us(when_us + self._delay_arrivals(peer), peer.lose, "reset by the peer")

    def forget(self, end: End) -> None:
        """Count an end no longer among those that are open."""
        self._ends.pop(end, None)

    def _time_out(self, end: End) -> None:
        end._stalled = False
        if end._undelivered and end.is_open:
            end._undelivered.clear()
            end.lose("timed out")

    # -- faults

    def is_blocked(self, source: str, destination: str) -> bool:
        """Whether nothing gets from one host to another."""
        return (source, destination) in self._blocked

    def block(self, source: str, destination: str) -> None:
        """Let nothing through from one host to another, until `unblock`."""
        self._blocked[source, destination] = None

    def unblock(self, source: str, destination: str) -> None:
        """Carry what was delayed, and what follows."""
        if self._blocked.pop((source, destination), 0) == 0:
            return
        for end in list(self._ends):
            if end.host.name == source and end.peer.host.name == destination and not end.is_path_lost:
                delayed, end._undelivered = end._undelivered, []
                for chunk in delayed:
                    self.carry(end, chunk)
                if not end.is_open:
                    self.forget(end)

    def open_ends(self, host: str) -> list[End]:
        """Return the open ends at a host, the oldest first."""
        return [end for end in self._ends if end.is_open and end.host.name == host]

    def break_connection(self, end: End) -> None:
        """Reset a connection from the middle: both sides learn of it, neither knows what has arrived.

        What either sends before it learns is lost: a stream ends early, it never continues after a hole.
        """
        self.vanish(end)
        for side in (end, end.peer):
            if self._random.random() < 0.5:
                side._in.clear()
            side.host.after_us(self._delay_us() + self._delay_arrivals(side), side.lose, "reset by the network")

    def _delay_arrivals(self, end: End) -> int:
        """Have what is on its way to an end arrive late, where the network does that; return how late."""
        if not self.straggling_us or not end._in:
            return 0
        late_us = self._random.randrange(self.straggling_us)
        end.pause_reading()
        end.host.after_us(late_us, end.resume_reading)
        return late_us + 1

    def storm(self, odds: float, until_us: int) -> None:
        """Until then break connections again and again, in the middle of requests and of answers."""
        self.snap = odds
        self.scheduler.at(until_us, self._end_storm)

    def _end_storm(self) -> None:
        self.snap = 0.0

    def vanish(self, end: End) -> None:
        """Lose a connection on the way, as a gateway without memory does: only who sends learns of it, in the end."""
        end.is_path_lost = end.peer.is_path_lost = True

    def close_all(self, host: Host, *, silently: bool = False) -> None:
        """Do what is left of a process that ends: its kernel resets its connections; without power nothing does."""
        for end in self.open_ends(host.name):
            end.is_open = False
            self.forget(end)
            if not silently:
                self.reset(end)


def _ignore(_: object) -> None:
    """Drop bytes that have no receiver."""
