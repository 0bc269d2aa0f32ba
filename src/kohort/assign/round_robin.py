"""Kafka's round-robin assignor: all partitions in order, dealt to the members in a circle.

The law: topics by name, partitions from 0, and each goes to the next member of the circle that subscribed to its
topic. Java's RoundRobinAssignor gives the same result for the same input. It looks at no racks.
"""

from __future__ import annotations

from kohort.assign.spec import GroupSpec, RebalanceProtocol, StatelessAssignor, member_order, subscribers
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition


class RoundRobinAssignor(StatelessAssignor):
    """Assignor `roundrobin`: even over all topics where all members subscribe alike."""

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`."""
        circle = member_order(spec)
        owned: dict[str, list[TopicPartition]] = {member: [] for member in circle}
        at = 0
        for topic, members in subscribers(spec).items():
            if not members:
                continue
            wanting = set(members)
            for partition in range(spec.topics[topic].partitions):
                while circle[at] not in wanting:
                    at = (at + 1) % len(circle)
                owned[circle[at]].append(TopicPartition(topic, partition))
                at = (at + 1) % len(circle)
        return {member: Assignment(frozenset(partitions)) for member, partitions in owned.items()}
