"""Groups for the assignors' tests, in few words."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.assign import GroupSpec, MemberSpec, TopicSpec
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of a text such as `t-0 t-1 u-0`."""
    return tuple(
        TopicPartition(name, int(number)) for name, _, number in (each.rpartition("-") for each in text.split())
    )


def member(
    topics: str,
    owned: str = "",
    *,
    generation: int = 1,
    instance: str | None = None,
    rack: str | None = None,
    user_data: bytes | None = None,
    version: int = 3,
) -> MemberSpec:
    """Return a member that subscribed to `topics`; it owns partitions in generation 1 by default."""
    held = partitions(owned)
    subscription = Subscription(tuple(topics.split()), user_data, held, generation if held else -1, rack, version)
    return MemberSpec(subscription, instance)


def group(members: Mapping[str, MemberSpec], /, **topics: int | str) -> GroupSpec:
    """Return a group; a topic is its number of partitions, or the racks of each as in `r1 r1,r2`."""
    return GroupSpec(members, {name: _topic(spec) for name, spec in topics.items()})


def texts(assignments: Mapping[str, Assignment]) -> dict[str, str]:
    """Return each member's partitions as a text, sorted."""
    return {name: " ".join(map(str, sorted(each.partitions))) for name, each in assignments.items()}


def rejoined(spec: GroupSpec, assignments: Mapping[str, Assignment], generation: int) -> GroupSpec:
    """Return the group as it joins again, each member owning what it was assigned."""
    members = {
        name: MemberSpec(
            Subscription(
                entry.subscription.topics,
                entry.subscription.user_data,
                tuple(sorted(assignments[name].partitions)),
                generation,
                entry.subscription.rack,
            ),
            entry.instance_id,
        )
        for name, entry in spec.members.items()
    }
    return GroupSpec(members, spec.topics)


def _topic(spec: int | str) -> TopicSpec:
    if isinstance(spec, int):
        return TopicSpec(spec)
    racks = tuple(frozenset(each.split(",")) for each in spec.split())
    return TopicSpec(len(racks), racks)
