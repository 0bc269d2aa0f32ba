"""Option `boundPartitions`: the partitions that belong to a checkpoint with state, and the assignor that respects them.

The law: a partition belongs to one of `count` queries by its number alone, so that every restart and every member gives
the same answer, and topics with equal partition counts are divided alike. A partition whose query is away is assigned
to no member: it waits for its state.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kohort.assign.spec import GroupSpec, RebalanceProtocol, member_order
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class BoundPartitions:
    """Part `number` of `count`, counted from 1: the partitions whose number modulo `count` is `number` - 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> BoundPartitions:
        """Return what `str` returned, `all` for the only part. Raises ValueError."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, count = (int(found[1]), int(found[2])) if found else (1, 1)
        if (found is None and text.strip().lower() != "all") or not 1 <= number <= count:
            raise ValueError(
                f"boundPartitions={text!r}: expected all, or the part of this query such as 1/2, the first of two"
            )
        return cls(number, count)

    def __str__(self) -> str:
        return "all" if self.count == 1 else f"{self.number}/{self.count}"

    def of(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Return those of some partitions that belong to this part."""
        return frozenset(each for each in partitions if each.partition % self.count == self.number - 1)

    def instance_id(self, group: str, topics: str) -> str:
        """Return the `group.instance.id` of a source with this part, the same after each restart.

        The sources of one query, such as those of a join, differ in their topics. Kafka takes letters, digits, `.`, `_`
        and `-`, at most 249.
        """
        read = hashlib.sha256(json.dumps([group, sorted(map(str.strip, topics.split(",")))]).encode()).hexdigest()[:8]
        return re.sub(r"[^a-zA-Z0-9._-]", "_", f"{group[:200]}-{self.number}-of-{self.count}-{read}")


class BoundAssignor:
    """Assigns every member the partitions of its part, and the partitions of absent members to no member."""

    name = "kohort-bound"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self, part: BoundPartitions, *, is_eager: bool = False) -> None:
        self.part = part
        if is_eager:
            self.protocols = (RebalanceProtocol.EAGER,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return the partitions of each member; where two claim one, the member that owns it gets it."""
        there = {name: range(topic.partitions) for name, topic in spec.topics.items()}
        claims: dict[TopicPartition, str] = {}
        owners = {each: name for name, member in spec.members.items() for each in member.subscription.owned}
        for name in member_order(spec):
            subscription = spec.members[name].subscription
            try:
                part = BoundPartitions.parse((subscription.user_data or b"").decode())
            except ValueError:
                continue  # written by another program under this name: it gets nothing
            topics = [topic for topic in dict.fromkeys(subscription.topics) if topic in there]
            for each in part.of(TopicPartition(topic, number) for topic in topics for number in there[topic]):
                if each not in claims or owners.get(each) == name:
                    claims[each] = name
        return {
            name: Assignment(frozenset(each for each, owner in claims.items() if owner == name))
            for name in spec.members
        }

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes:
        """Return the part."""
        del topics, owned, generation
        return str(self.part).encode()

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Do nothing."""
        del assignment, generation
