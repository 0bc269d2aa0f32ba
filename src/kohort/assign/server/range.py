"""Kafka's server-side `range`: topic by topic, members in order get contiguous blocks of partitions.

The law: with P partitions and C subscribers, each gets ⌊P/C⌋ and the first P mod C get one more. Topics of one size
with the same subscribers line up: partition n of all of them goes to one member. It looks neither at previous targets
nor at racks. Members go by instance id, static ones first, so that a restart under a new member id changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from kohort.assign.member_classes import subscriber_masks
from kohort.assign.server.spec import ServerGroup
from kohort.assign.server.uniform import member_classes, partition_counts
from kohort.model.assignment import NOTHING, IdPartitions

Entry = tuple[bytes, tuple[int, ...]]
Row = tuple[list[list[Entry]], list[tuple[int, ...]]]
"""For topics of one size with the same subscribers: where each one's entries gather, and each one's numbers."""


class ServerRangeAssignor:
    """Assignor `range` of a coordinator."""

    name = "range"

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        order = _order(group)
        counts = partition_counts(group.topics)
        places_of, mask_of = _subscribers(group, order, counts)
        entries: dict[int, list[Entry]] = {}
        rows: dict[tuple[int, int], Row] = {}
        for topic_id, count in counts.items():
            mask = mask_of[topic_id]
            row = rows.get((mask, count))
            if row is None:
                row = rows[mask, count] = _row(places_of[mask], count, entries)
            # Topic after topic in order, so that every member's entries are in order.
            deque(map(list.append, row[0], zip(repeat(topic_id), row[1])), maxlen=0)
        found = dict.fromkeys(order, NOTHING)
        for at, mine in entries.items():
            found[order[at]] = tuple(mine)
        return found


def _order(group: ServerGroup) -> list[str]:
    members = group.members
    if [member.instance_id for member in members.values()].count(None) == len(members):
        return sorted(members)
    static = {name: instance for name, member in members.items() if (instance := member.instance_id) is not None}
    return sorted(members, key=lambda name: (name not in static, static.get(name, ""), name))


def _subscribers(
    group: ServerGroup, order: Sequence[str], counts: Mapping[bytes, int]
) -> tuple[dict[int, Sequence[int]], Mapping[bytes, int]]:
    """Return the places of subscribers, in order, by a number for each set of them, and each topic's number."""
    if group.is_homogeneous:
        return {1: range(len(order))}, dict.fromkeys(counts, 1)
    classes = member_classes(group, [group.members[name] for name in order])
    masks = subscriber_masks(classes, counts)
    places_of: dict[int, Sequence[int]] = {}
    for mask in set(masks.values()):
        chosen = [each.places for bit, each in enumerate(classes) if mask >> bit & 1]
        places_of[mask] = chosen[0] if len(chosen) == 1 else sorted(chain.from_iterable(chosen))
    return places_of, masks


def _row(places: Sequence[int], count: int, entries: dict[int, list[Entry]]) -> Row:
    """Return the lists of those who get something of a topic of so many partitions, and what each gets."""
    if not places:
        return [], []
    share, extras = divmod(count, len(places))
    numbers = tuple(range(count))
    longer = extras * (share + 1)
    blocks = [numbers[start : start + share + 1] for start in range(0, longer, share + 1)]
    if share:
        blocks += [numbers[start : start + share] for start in range(longer, count, share)]
    return [entries.setdefault(at, []) for at in places[: len(blocks)]], blocks
