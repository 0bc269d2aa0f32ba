"""Kafka's server-side `range`: topic by topic, members in order get contiguous blocks of partitions.

The law: with P partitions and C subscribers, each gets ⌊P/C⌋ and the first P mod C get one more. Topics of one size
with the same subscribers line up: partition n of all of them goes to one member. It looks neither at previous targets
nor at racks. Members go by instance id, static ones first, so that a restart under a new member id changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from kohort.assign.server import ServerGroup
from kohort.assign.uniform import member_classes, partition_counts, subscriber_masks
from kohort.model.id_partitions import NOTHING, IdPartitions

Block = tuple[Sequence[bytes], tuple[int, ...]]
"""The same partitions of several topics, which are in order."""


class ServerRangeAssignor:
    """Assignor `range` of a coordinator."""

    name = "range"

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        order = _order(group)
        found = dict.fromkeys(order, NOTHING)
        for at, blocks in _blocks(group, order).items():
            found[order[at]] = _line_up(blocks)
        return found


def _order(group: ServerGroup) -> list[str]:
    members = group.members
    static = {name: instance for name, member in members.items() if (instance := member.instance_id) is not None}
    if not static:
        return sorted(members)
    return sorted(members, key=lambda name: (name not in static, static.get(name, ""), name))


def _blocks(group: ServerGroup, order: Sequence[str]) -> dict[int, list[Block]]:
    """Return what each member gets that gets something, by its place."""
    counts = partition_counts(group.topics)
    alike: dict[tuple[int, int], list[bytes]] = {}
    places_of: dict[int, Sequence[int]] = {}
    if group.is_homogeneous:
        places_of[1] = range(len(order))
        for topic_id, count in counts.items():
            alike.setdefault((1, count), []).append(topic_id)
    else:
        classes = member_classes(group, order)
        for topic_id, mask in subscriber_masks(classes, counts).items():
            if mask:
                alike.setdefault((mask, counts[topic_id]), []).append(topic_id)
        for mask, _ in alike:
            if mask not in places_of:
                chosen = [each.places for bit, each in enumerate(classes) if mask >> bit & 1]
                places_of[mask] = chosen[0] if len(chosen) == 1 else sorted(chain.from_iterable(chosen))
    blocks: dict[int, list[Block]] = {}
    for (mask, count), topics in alike.items():
        places = places_of[mask]
        if not places:
            continue
        share, extras = divmod(count, len(places))
        numbers = tuple(range(count))
        start = 0
        for rank, at in enumerate(places[:count]):
            end = start + share + (rank < extras)
            blocks.setdefault(at, []).append((topics, numbers[start:end]))
            start = end
    return blocks


def _line_up(blocks: Sequence[Block]) -> IdPartitions:
    if len(blocks) == 1:
        return tuple(_entries(*blocks[0]))
    return tuple(sorted(chain.from_iterable(_entries(*block) for block in blocks)))


def _entries(topics: Sequence[bytes], numbers: tuple[int, ...]) -> Iterable[tuple[bytes, tuple[int, ...]]]:
    return zip(topics, repeat(numbers))
