"""A broker without I/O: bytes in, bytes out, timers asked for.

It puts the parts of a broker together and orders them in time. Its runtime, which has the socket and the clock,
passes bytes to `connections` and calls `tick` and `flush`; the node calls back `send` and `close` of each connection.
A response that promised durability leaves only after that flush.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kohort.assign.server.catalog import server_assignors
from kohort.assign.server.spec import ServerAssignor
from kohort.log.disk import Disk
from kohort.node.apis.context import ApiContext
from kohort.node.authentication import ClaimsOf
from kohort.node.broker_state import BrokerState, Services
from kohort.node.configuration.config import Config
from kohort.node.connections import Connections
from kohort.node.durability import Durability, Flush
from kohort.node.step_scheduler import StepScheduler
from kohort.node.timers import NodeClock, Timers
from kohort.node.topics.log_cleaner import LogCleaner

if TYPE_CHECKING:
    from kohort.node.groups.coordinator import Coordinator
    from kohort.node.groups.runtime import GroupObserver


class Node:
    """One broker. `random_bytes(n)` gives ids; `now_ms` is milliseconds since the epoch and never goes back.

    `assignors` are the server-side assignors by name, the default first; without any, those that the setting names.
    `elapsed_us` is a clock of microseconds: it measures how long targets take to compute, and turns last; without
    it both take no time.
    `claims` verify the tokens of OAUTHBEARER, by the name of the listener.
    """

    def __init__(
        self,
        config: Config,
        disk: Disk,
        random_bytes: Callable[[int], bytes],
        now_ms: int,
        assignors: Mapping[str, ServerAssignor] | None = None,
        elapsed_us: Callable[[], int] | None = None,
        observer: GroupObserver | None = None,
        claims: Mapping[str, ClaimsOf] | None = None,
    ) -> None:
        self.config = config
        self.disk = disk
        self.assignors = server_assignors(config.group_consumer_assignors) if assignors is None else assignors
        self.clock = NodeClock(now_ms, elapsed_us)
        self.timers = Timers()
        self.durability = Durability()
        self.state = BrokerState(config, disk, random_bytes, self.clock, self.durability)
        self.topics = self.state.topics
        self._steps = StepScheduler(elapsed_us)
        services = Services(
            config, disk, random_bytes, self.clock, self.timers, self.durability, self._steps, self.state
        )
        self.context = ApiContext(services, self.assignors, observer, claims or {})
        self.connections = Connections(self.context)
        self.cleaner = LogCleaner(config, self.topics, self.timers)

    @property
    def coordinator(self) -> Coordinator:
        """The group coordinator, loaded if it is not yet."""
        return self.context.coordinator

    def start(self, now_ms: int) -> None:
        """Replay what is on the disk and begin a new epoch. Raises StorageError."""
        config, clock = self.config, self.clock
        clock.advance(now_ms)
        self.state.start(clock.now_ms)
        if self.topics.get("__consumer_offsets") is not None:
            self.context.coordinator  # noqa: B018
        if self.topics.get("__transaction_state") is not None:
            self.context.transactions  # noqa: B018
        self._every("retention", config.log_retention_check_interval_ms, self._enforce_retention)
        self.cleaner.start(clock.now_ms)
        idle_ms = max(1, min(60_000, config.connections_max_idle_ms // 4))
        self._every("idle", idle_ms, self.connections.close_idle)

    def stop(self, now_ms: int) -> None:
        """Flush and close everything; the sockets are the runtime's to close."""
        self.flush(now_ms)
        for connection in list(self.connections):
            self.connections.drop(connection, now_ms)
        if self.context.has_coordinator:
            self.coordinator.stop()
        self.state.stop()

    def tick(self, now_ms: int) -> None:
        """Run the timers that are due."""
        self.clock.advance(now_ms)
        self._steps.begin_turn()
        self.durability.run_postponed()  # input that came before a deadline counts before it
        self.timers.run_due(self.clock.now_ms)
        self.connections.settle()

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` must be called next, or None."""
        return self.timers.next_deadline_ms()

    @property
    def needs_flush(self) -> bool:
        """Whether responses wait for `flush`, or requests for their next turn."""
        return self.durability.is_waiting or bool(self._steps.waiting) or bool(self.connections.behind)

    def flush(self, now_ms: int) -> None:
        """Do what `begin_flush`, the flush and `end_flush` do, in this turn."""
        while (flush := self.begin_flush(now_ms)) is not None:
            flush.run()
            self.end_flush(flush, now_ms)

    def begin_flush(self, now_ms: int) -> Flush | None:
        """End a batch of input: begin to flush what was promised, release other responses, do a slice of long requests.

        Another thread may `run` the flush that is returned; `end_flush` must follow before the next one begins.
        """
        self.clock.advance(now_ms)
        self._steps.begin_turn()
        flush = self.durability.begin_flush()
        self.connections.settle()
        if self._steps.waiting or self.connections.behind:
            self.connections.run_slice()
        return flush

    def end_flush(self, flush: Flush, now_ms: int) -> None:
        """Release the responses that waited for a flush that has run."""
        self.clock.advance(now_ms)
        self._steps.begin_turn()
        self.durability.end_flush(flush)
        self.connections.settle()

    def _enforce_retention(self, now_ms: int) -> None:
        self._steps.in_slices(self.state.enforce_retention(now_ms))

    def _every(self, name: str, interval_ms: int, action: Callable[[int], None]) -> None:
        def run(now_ms: int) -> None:
            self.timers.arm(name, now_ms + interval_ms, run)
            action(now_ms)

        self.timers.arm(name, self.clock.now_ms + interval_ms, run)
