"""Looks at groups, made by hand: who is a member and what each is assigned."""

from __future__ import annotations

from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.console.history.watched_group import CoordinatedGroup
from kohort.model.ids import TopicPartition


def partitions(*numbers: int, topic: str = "orders") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def member(
    member_id: str, *numbers: int, instance: str | None = None, topics: tuple[str, ...] = ("orders",), phase: str = ""
) -> MemberDescription:
    return MemberDescription(
        member_id, instance, member_id.split("-")[0], "/127.0.0.1", partitions(*numbers), topics=topics, phase=phase
    )


def look(
    state: str, *members: MemberDescription, protocol: str = "range", group_id: str = "billing"
) -> GroupDescription:
    """A classic group."""
    return GroupDescription(group_id, state, "consumer", protocol if state == "Stable" else "", members)


def consumer_look(state: str, epoch: int, *members: MemberDescription) -> GroupDescription:
    """A group of the consumer protocol."""
    return GroupDescription("billing", state, "consumer", "uniform", members, "consumer", epoch, epoch)


def listed(group_id: str = "billing", state: str = "Stable", group_type: str = "classic") -> CoordinatedGroup:
    return CoordinatedGroup(group_id, group_type, state, "consumer", 1)
