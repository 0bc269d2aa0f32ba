"""A broker of a world: a node with its disk on a host, listening on the simulated network.

What `net.server` and `broker` do around a node is done here in virtual time: bytes in, bytes out, a flush after each
batch of input, a tick when the node asks for one. A process that is killed leaves its disk as the system had it;
without power the disk forgets what was not flushed, and may tear what was being written.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.log.disk import StorageError
from kohort.log.memory_disk import MemoryDisk
from kohort.node.configuration.config import Config
from kohort.node.durability import Flush
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.node.node import Node
from kohort.sim.kernel.host import Alarm, Host
from kohort.sim.kernel.network import Address, End, Network
from kohort.sim.kernel.world_observer import Observer
from kohort.wire.codec import Buffer

ENDINGS = ("kill", "stop", "power loss")
"""How a broker's process may end."""


class NodeHost:
    """One broker. `flush_us` is what bringing a batch to the disk takes; `settings` are the broker's."""

    def __init__(
        self,
        host: Host,
        network: Network,
        address: Address,
        random: Random,
        observer: Observer,
        settings: Mapping[str, str],
        disk: MemoryDisk | None = None,
        advertised: Address | None = None,
    ) -> None:
        self.name = host.name
        self.host = host
        self.address = address
        self.advertised = advertised or address
        """Where clients connect to."""
        self.node: Node | None = None
        self.disk = MemoryDisk() if disk is None else disk
        self.settings = dict(settings)
        self.flush_us = 100
        self.hang_until_us = 0
        """Until when the disk does not answer: no flush ends before."""
        self.failure: StorageError | None = None
        """Why the node could not start."""
        self._network = network
        self._random = random
        self._observer = observer
        self._alarm = Alarm(host, self._tick)
        self._is_flush_due = False
        self._flush: Flush | None = None
        """The flush under way."""

    # -- life

    def start(self) -> bool:
        """Boot the process, replay the disk and listen. Return False, with `failure`, where the disk has objections."""
        assert self.node is None, "a node runs once"
        self.host.boot()
        now_ms = self.host.now_ms()
        try:
            node = Node(Config(self.settings), self.disk, self._random.randbytes, now_ms, observer=self)
            node.context.listener.advertised = self.advertised
            node.start(now_ms)
        except StorageError as error:
            self.failure = error
            self.host.kill()
            return False
        self.failure, self.node = None, node
        self._alarm.forget()
        self._is_flush_due, self._flush = False, None
        self._network.listen(self.address, self.host, self._accept)
        self._observer.node_started(self)
        self.watch()
        return True

    def end(self, how: str) -> None:
        """End the process, if it runs, in one of the `ENDINGS`.

        `stop`: everything is flushed, connections are closed after the last responses. `kill`: what it had written is
        in the system's hands, and stays. `power loss`: connections are not reset, and of the disk only what was flushed
        is certain.
        """
        node = self.node
        if node is None:
            return
        self._observer.node_stopped(self, how)
        if how == "stop":
            if self._flush is not None:
                self._end_flush(self._flush)
            try:
                node.stop(self.host.now_ms())
            except StorageError as error:
                self.failure = error
        self.node = None
        self._network.close_all(self.host, silently=how == "power loss")
        self.host.kill()
        if how == "power loss":
            self._tear()

    def _tear(self) -> None:
        """Leave of each file's unflushed bytes a beginning, of any length: writes reach the medium when they do."""
        for path in sorted(self.disk.files):
            file = self.disk.files[path]
            if file.size > file.flushed:
                self.disk.tear(path, self._random.randint(file.flushed, file.size))

    # -- the node's surroundings

    def _accept(self, end: End) -> None:
        node = self.node
        if node is None or not end.is_open:
            return

        def send(buffers: list[Buffer]) -> None:
            end.send(buffers[0] if len(buffers) == 1 and type(buffers[0]) is bytes else b"".join(buffers))

        def close(_: str) -> None:
            end.close()

        def throttle(is_on: bool) -> None:
            (end.pause_reading if is_on else end.resume_reading)()

        connection = node.connections.open(end.peer_host, send, close, throttle)
        now_ms, watch = self.host.now_ms, self.watch

        def receive(chunk: bytes) -> None:
            node.connections.receive(connection, chunk, now_ms())
            watch()

        def lost(_: str) -> None:
            node.connections.drop(connection, now_ms())
            watch()

        end.on_bytes, end.on_closed = receive, lost
        watch()

    def partition_loaded(self, hosted: OffsetsPartition) -> None:
        """Report a partition of the offsets topic that was replayed."""
        self._observer.shard_loaded(self, hosted)

    def event_applied(self, shard: Shard, event: Event, now_ms: int) -> None:
        """Report an event that has changed a group."""
        self._observer.group_event(self, shard, event, now_ms)

    def watch(self) -> None:
        """After the node was entered: see when it wants to be entered next."""
        node = self.node
        if node is None:
            return
        if not self._is_flush_due and node.needs_flush:
            self._is_flush_due = True
            self.host.after_us(self.flush_us, self._begin_flush)
        self._alarm.set(node.next_deadline_ms())

    def _tick(self) -> None:
        if self.node is not None:
            self.node.tick(self.host.now_ms())
            self.watch()

    def _begin_flush(self) -> None:
        self._is_flush_due = False
        if self.node is not None:
            flush = self.node.begin_flush(self.host.now_ms())
            if flush is not None:
                self._flush = flush
                hangs_us = max(0, self.hang_until_us - self.host.scheduler.now_us)
                self.host.after_us(self.flush_us + hangs_us, self._end_flush, flush)
            self.watch()

    def _end_flush(self, flush: Flush) -> None:
        """What a thread of the real broker does meanwhile is done at once, when it is over."""
        if self.node is not None and self._flush is flush:
            self._flush = None
            flush.run()
            self.node.end_flush(flush, self.host.now_ms())
            self.watch()

    def fill_disk(self, spare: int | None) -> None:
        """Leave only so many bytes of space, or with None no limit."""
        self.disk.capacity = None if spare is None else self.disk.used + spare
