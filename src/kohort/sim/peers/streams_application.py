"""A Kafka Streams application of a world: the topology of its program, and how long its changelogs are.

Changelogs exist as topics, and stay empty: how many records a real one would have is computed from the time. It grows
by so many records a second until the world heals.
"""

from __future__ import annotations

from typing import Literal

from kohort.model.streams_tasks import Task
from kohort.sim.kernel.scheduler import Scheduler
from kohort.wire.messages import StreamsGroupHeartbeatRequest

Program = Literal["stateless", "stateful", "counting"]
"""`stateless`: one subtopology without a store. `stateful`: one with a store. `counting`: one that writes a repartition
topic, and one with a store that reads it."""

PROGRAMS: tuple[Program, ...] = ("stateless", "stateful", "counting")

FIRST_RECORDS = 20_000
"""What each changelog has when the world begins."""

_Topology = StreamsGroupHeartbeatRequest.Topology
_Subtopology = _Topology.Subtopology


class StreamsApplication:
    """One application. Its changelogs grow by `records_per_s`."""

    def __init__(
        self, group_id: str, program: Program, topics: tuple[str, ...], records_per_s: int, scheduler: Scheduler
    ) -> None:
        self.group_id = group_id
        self.program = program
        self.topics = topics
        """The source topics."""
        self.epoch = 0
        """The epoch of the topology."""
        self.records_per_s = records_per_s
        self._scheduler = scheduler
        self._grown_us: int | None = None
        """When the changelogs stopped growing."""

    def change(self, topics: tuple[str, ...]) -> None:
        """Have processes that begin from now on run a newer topology, which reads these topics."""
        if topics != self.topics:
            self.topics = topics
            self.epoch += 1

    def topology(self) -> StreamsGroupHeartbeatRequest.Topology:
        """Return the topology as members send it."""
        changelog = _Subtopology.ChangelogTopic(name=f"{self.group_id}-changelog")
        topics = list(self.topics)
        if self.program == "stateless":
            subtopologies = [_Subtopology(subtopology_id="0", source_topics=topics)]
        elif self.program == "stateful":
            subtopologies = [
                _Subtopology(subtopology_id="0", source_topics=topics, state_changelog_topics=[changelog]),
            ]
        else:
            name = f"{self.group_id}-repartition"
            repartition = _Subtopology.RepartitionTopic(name=name)
            subtopologies = [
                _Subtopology(subtopology_id="0", source_topics=topics, repartition_sink_topics=[name]),
                _Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=[repartition],
                    state_changelog_topics=[changelog],
                ),
            ]
        return _Topology(epoch=self.epoch, subtopologies=subtopologies)

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """The topics that the coordinator makes for it."""
        made: dict[str, tuple[str, ...]] = {
            "stateless": (),
            "stateful": ("changelog",),
            "counting": ("repartition", "changelog"),
        }
        return tuple(f"{self.group_id}-{name}" for name in made[self.program])

    def is_stateful(self, task: Task) -> bool:
        """Whether a task has a store."""
        return self.program == "stateful" or (self.program == "counting" and task[0] == "1")

    def tasks(self, partitions: int) -> frozenset[Task]:
        """Return the tasks there are when the largest source topic has so many partitions."""
        subtopologies = ("0", "1") if self.program == "counting" else ("0",)
        return frozenset((each, number) for each in subtopologies for number in range(partitions))

    @property
    def end_offset(self) -> int:
        """The end of each changelog now."""
        now_us = self._scheduler.now_us if self._grown_us is None else self._grown_us
        return FIRST_RECORDS + self.records_per_s * now_us // 1_000_000

    def stop(self) -> None:
        """Have the changelogs grow no more."""
        if self._grown_us is None:
            self._grown_us = self._scheduler.now_us
