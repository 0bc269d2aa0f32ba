"""A real node in a world without faults, whose groups a test may have damaged."""

from __future__ import annotations

from random import Random

from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import CommitOffsets, ConsumerHeartbeat, Join, OffsetToCommit, Sync
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.results import Result
from kohort.group.shard import Shard
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observers

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "kohort.group.initial.quiet.ms": "-1",
}


class Broker:
    """A node with topic `t` of four partitions; `make` gives the checker that looks at it."""

    def __init__(self, make: type[Checker]) -> None:
        self.scheduler = Scheduler()
        self.ledgers = Ledgers()
        self.checker = make(self.ledgers, Random(1))  # type: ignore[call-arg]
        self.observer = Observers([self.ledgers, self.checker])
        self.observer.began(self.scheduler)
        network = Network(self.scheduler, Random(2))
        host = Host("n1", self.scheduler)
        self.node_host = NodeHost(host, network, ("n1", 9092), Random(3), self.observer, SETTINGS)
        self.node_host.start()
        self.topic_id = self.node.topics.create("t", 4, {}, self.now_ms).topic_id
        self.results: list[Result] = []

    @property
    def node(self):  # type: ignore[no-untyped-def]
        assert self.node_host.node is not None
        return self.node_host.node

    @property
    def now_ms(self) -> int:
        return self.node_host.host.now_ms()

    @property
    def shard(self) -> Shard:
        return self.node.coordinator.partitions[0].shard  # type: ignore[no-any-return]

    @property
    def consumer_group(self) -> ConsumerGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic_group(self) -> ClassicGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group

    def submit(self, command: object) -> Result | None:
        """Decide a command; return its answer if there is one already."""
        self.results.clear()
        self.node.clock.advance(self.now_ms)
        self.node.coordinator.submit(command, self.results.append)
        self.node.tick(self.now_ms)
        self.scheduler.run_until(self.scheduler.now_us + 1_000)
        self.observer.stepped()
        return self.results[0] if self.results else None

    def enter(self, member_id: str) -> None:
        """Let a native member in, that reports its assignment as owned."""
        join = ConsumerHeartbeat("g", member_id, 0, subscribed_topic_names=("t",), rebalance_timeout_ms=9_000, owned=())
        self.submit(join)

    def join(self, member_id: str) -> None:
        """Let a classic member join, in one step."""
        self.submit(
            Join("g", "", None, "c", "/h", 9_000, 9_000, "consumer", (("range", b""),), member_id, is_two_step=False)
        )

    def sync(self, member_id: str, *assigned: str) -> None:
        """Let a classic member of the present generation sync; what it assigns, if it leads, is empty."""
        assignments = tuple((each, b"") for each in assigned)
        self.submit(Sync("g", member_id, None, self.classic_group.generation, assignments=assignments))

    def commit(self, member_id: str, epoch: int, offset: int) -> None:
        offsets = [OffsetToCommit("t", 0, offset, -1, "", self.topic_id)]
        self.submit(CommitOffsets("g", member_id, None, epoch, offsets))
        self.node.flush(self.now_ms)
