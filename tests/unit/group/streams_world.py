"""A coordinator of streams groups in a test's hands: `World` with topics, a topology, and members as clients are.

After every command the log is replayed, which must give the live group again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.group.consumer_world import Topics, topic_id
from tests.unit.group.world import Answer, World, fold, hard_state

from kohort.group.commands import TopicChanged
from kohort.group.coordinator_settings import ImageTopic
from kohort.group.shard import followers_of
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from kohort.group.streams.topology import InternalTopic, StreamsTopology, Subtopology
from kohort.model.streams_tasks import NO_TASKS, Task, TasksByRole

SESSION_MS = 45_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000

COUNTING = StreamsTopology(
    0,
    (
        Subtopology("0", ("words",), repartition_sinks=("g-repartition",)),
        Subtopology(
            "1",
            repartition_sources=(InternalTopic("g-repartition"),),
            changelogs=(InternalTopic("g-changelog", configs=(("cleanup.policy", "compact"),)),),
        ),
    ),
)
"""A program that counts words: it reads `words` and counts behind a repartition topic, with a store."""

STATEFUL = StreamsTopology(0, (Subtopology("0", ("words",), changelogs=(InternalTopic("g-changelog"),)),))
"""A program of one subtopology with a store."""


def tasks(text: str) -> frozenset[Task]:
    """Return the tasks of `0_1 0_2`."""
    return frozenset((each.partition("_")[0], int(each.partition("_")[2])) for each in text.split())


def active(text: str) -> TasksByRole:
    """Return tasks that are active."""
    return TasksByRole(tasks(text))


class StreamsWorld(World):
    """One shard with a cluster's topics; `g` is the group."""

    def __init__(self, partitions: int = 2, topology: StreamsTopology = STATEFUL, **settings: Any) -> None:
        self.image = Topics(words=partitions)
        self.topology = topology
        super().__init__(image=self.image, assigns_early=False, streams_assignment_interval_ms=0, **settings)
        for each in topology.subtopologies:
            for topic in each.internal_topics:
                self.image.topics[topic.name] = ImageTopic(topic.name, topic_id(topic.name), partitions)

    @property
    def streams(self) -> StreamsGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, StreamsGroup), "the group is a streams group"
        return group

    def member(self, member_id: str) -> StreamsMember:
        return self.streams.members[member_id]

    def send(self, member_id: str, epoch: int, **changes: Any) -> Answer:
        """Send a heartbeat."""
        command = StreamsHeartbeat("g", member_id, epoch, client_id="c", client_host="/h")
        answer = self.submit(replace(command, **changes))
        loaded = fold(self.log, self.settings)
        for group_id in [group_id for group_id, each in self.shard.groups.items() if isinstance(each, StreamsGroup)]:
            assert hard_state(loaded, group_id) == hard_state(self.shard, group_id), "the log gives the live group"
        return answer

    def join(self, member_id: str = "a", process_id: str = "", **changes: Any) -> Answer:
        sent = {"rebalance_timeout_ms": REBALANCE_MS, "topology": self.topology, "owned": NO_TASKS}
        return self.send(member_id, 0, **{**sent, "process_id": process_id or f"process-{member_id}", **changes})

    def beat(self, member_id: str = "a", owned: TasksByRole | None = None, **changes: Any) -> StreamsHeartbeatResult:
        """Send the heartbeat of a member that knows its epoch and the endpoints."""
        changes = {"endpoint_epoch": self.streams.endpoint_epoch, **changes}
        result = self.send(member_id, self.member(member_id).epoch, owned=owned, **changes).result
        assert isinstance(result, StreamsHeartbeatResult)
        return result

    def start(self, *member_ids: str) -> None:
        """Bring members into a stable group."""
        for member_id in member_ids:
            self.join(member_id)
        self.advance(DELAY_MS)
        self.settle()

    def settle(self) -> None:
        """Have all members do what they must until the group is stable."""
        for _ in range(10):
            for member_id in sorted(self.streams.members):
                self.beat(member_id, self.member(member_id).assigned.tasks)
        assert not self.streams.unsettled, "all members have what they should"

    def change_topic(self, name: str, partitions: int) -> None:
        """Create, grow or (0 partitions) delete a topic."""
        self.image.topics.pop(name, None)
        if partitions:
            self.image.topics[name] = ImageTopic(name, topic_id(name), partitions)
        for group_id in followers_of(self.shard, name):
            self.submit(TopicChanged(group_id, name))
        self.advance(0)
