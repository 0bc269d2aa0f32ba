"""What somebody's own server-side assignor returned, checked before anybody acts on it.

A target that gives a partition to two members, to nobody's subscription, or to a member that is none would be stored
and obeyed. It is refused with a sentence that names the assignor, the member and the partition; the old target stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index

from kohort.assign.server.spec import ServerAssignor, ServerGroup
from kohort.model.id_partitions import NOTHING, IdPartitions, id_partitions
from kohort.model.ids import topic_id_text


class TargetRefused(ValueError):
    """A target that breaks a rule; the text names the assignor, and what it gave to whom."""


class CheckedAssignor:
    """A server-side assignor whose targets are checked, and made canonical."""

    def __init__(self, assignor: ServerAssignor) -> None:
        self.name = assignor.name
        self._assignor = assignor

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member. Raises TargetRefused."""
        return checked(group, self._assignor.assign(group), self.name)


def checked(
    group: ServerGroup, target: Mapping[str, Iterable[tuple[bytes, Iterable[int]]]], name: str
) -> dict[str, IdPartitions]:
    """Return a target in canonical form; a member that was left out gets nothing. Raises TargetRefused."""
    if not isinstance(target, Mapping):
        raise TargetRefused(f"the assignor {name} returned {type(target).__name__}, not the partitions of each member")
    if unknown := sorted(target.keys() - group.members.keys()):
        raise TargetRefused(f"the assignor {name} gave partitions to {', '.join(unknown)}: no such member")
    owner: dict[bytes, dict[int, str]] = {topic_id: {} for topic_id in group.topics}
    found = {}
    for member in sorted(group.members):
        given = target.get(member, NOTHING)
        try:
            found[member] = id_partitions((topic_id, map(index, numbers)) for topic_id, numbers in given)
        except (TypeError, ValueError) as error:
            raise TargetRefused(
                f"the assignor {name} gave {member} what are no partitions by topic id: {error}"
            ) from error
        for topic_id, numbers in found[member]:
            _check_topic(group, member, topic_id, numbers, name)
            owners = owner[topic_id]
            for number in numbers:
                if (other := owners.setdefault(number, member)) != member:
                    partition = f"{group.topics[topic_id].name}-{number}"
                    raise TargetRefused(f"the assignor {name} gave {partition} to both {other} and {member}")
    return found


def _check_topic(group: ServerGroup, member: str, topic_id: bytes, numbers: tuple[int, ...], name: str) -> None:
    topic = group.topics.get(topic_id)
    if topic is None:
        text = topic_id_text(topic_id) if isinstance(topic_id, bytes) and len(topic_id) == 16 else repr(topic_id)
        raise TargetRefused(
            f"the assignor {name} gave {member} partitions of the topic with id {text}: no such topic in the group"
        )
    if topic_id not in group.members[member].topics:
        raise TargetRefused(
            f"the assignor {name} gave {topic.name}-{numbers[0]} to {member}, which did not subscribe to {topic.name}"
        )
    for number in (numbers[0], numbers[-1]):
        if not 0 <= number < topic.partitions:
            raise TargetRefused(
                f"the assignor {name} gave {topic.name}-{number} to {member}: "
                f"{topic.name} has {topic.partitions} partitions, from 0"
            )
