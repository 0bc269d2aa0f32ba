"""`standby`: a partition with standby copies moves only to a member whose copy has caught up.

The law: a partition of which some member reports a copy goes to its previous owner or to a member whose copy
is at most `acceptable.recovery.lag` records behind, its own bound where it names one. If its owner is gone and no copy
has caught up, it goes to one of those that are least behind: one member must have it. All else is shared out as by
`uniform`. Under these bounds no chain of moves could make the loads more even, and as few partitions move as can be.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.assign.member_classes import MemberClass, subscriber_masks
from kohort.assign.server.spec import ServerGroup
from kohort.assign.server.uniform import Kinds, Sharing, UniformAssignor, partition_counts
from kohort.model.assignment import IdPartitions

ACCEPTABLE_RECOVERY_LAG = 10_000
"""Kafka Streams' default of `acceptable.recovery.lag`, in records."""

Copies = dict[bytes, dict[int, list[tuple[int, int]]]]
"""By topic and partition: (lag, place of the member) of every copy."""

UNKNOWN_LAG = 2**63


class StandbyAssignor:
    """Assignor `standby`. A copy that is `acceptable_recovery_lag` records behind, or less, has caught up.

    A member that names its own bound with its lags has that one.
    """

    name = "standby"

    def __init__(self, acceptable_recovery_lag: int = ACCEPTABLE_RECOVERY_LAG) -> None:
        if acceptable_recovery_lag < 0:
            raise ValueError(
                f"acceptable.recovery.lag is a number of records, 0 or more; {acceptable_recovery_lag} is none"
            )
        self.acceptable_recovery_lag = acceptable_recovery_lag

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        order = sorted(group.members)
        copies = _copies(group, order)
        if not copies:
            return UniformAssignor().assign(group)
        return self._sharing(group, order, copies).targets()

    def _sharing(self, group: ServerGroup, order: Sequence[str], copies: Copies) -> Sharing:
        counts = partition_counts(group.topics)
        owners = _owners(group, order, copies)
        bounds = [group.members[name].acceptable_recovery_lag for name in order]
        involved = {at for each in owners.values() for at in each.values()}
        involved.update(at for topic in copies.values() for each in topic.values() for _, at in each)
        classes = _classes(group, order, involved)
        bit_of = {at: 1 << bit for bit, each in enumerate(classes) for at in each.places}
        kinds = Kinds()
        for topic_id, eligible in subscriber_masks(classes, counts).items():
            if not eligible:
                del counts[topic_id]
            elif topic_id not in copies:
                kinds.add_topic(topic_id, counts[topic_id], eligible)
            else:
                masks = [eligible] * counts[topic_id]
                for number, seen in copies[topic_id].items():
                    chosen = self._candidates(seen, owners[topic_id].get(number), bounds)
                    masks[number] = sum(bit_of[at] for at in chosen)
                kinds.add_partitions(topic_id, [(mask, 0) for mask in masks])
        return Sharing(order, [group.members[name].previous for name in order], classes, counts, kinds)

    def _candidates(self, seen: Sequence[tuple[int, int]], owner: int | None, bounds: Sequence[int | None]) -> set[int]:
        """Return the places that may have a partition; `bounds` are the acceptable lags that members named."""
        own = self.acceptable_recovery_lag
        ready = {at for lag, at in seen if lag <= (own if (bound := bounds[at]) is None else bound)}
        if owner is not None:
            ready.add(owner)
        if not ready:
            least = min(seen)[0]
            ready = {at for lag, at in seen if lag == least}
        return ready


def _copies(group: ServerGroup, order: Sequence[str]) -> Copies:
    """Return the copies of partitions that exist, of members that subscribe to their topic."""
    found: Copies = {}
    for at, name in enumerate(order):
        member = group.members[name]
        for topic_id, lags in member.lags:
            topic = group.topics.get(topic_id)
            if topic is None or topic_id not in member.topics:
                continue
            for number, lag in lags:
                if 0 <= number < topic.partitions:
                    # A lag below 0 is Kafka Streams' word for unknown.
                    known = lag if lag >= 0 else UNKNOWN_LAG
                    found.setdefault(topic_id, {}).setdefault(number, []).append((known, at))
    return found


def _owners(group: ServerGroup, order: Sequence[str], copies: Copies) -> dict[bytes, dict[int, int]]:
    """Return the place of the previous owner of each partition that has a copy, while it subscribes to the topic."""
    found: dict[bytes, dict[int, int]] = {topic_id: {} for topic_id in copies}
    for at, name in enumerate(order):
        member = group.members[name]
        for topic_id, numbers in member.previous:
            if topic_id in copies and topic_id in member.topics:
                for number in numbers:
                    if number in copies[topic_id]:
                        found[topic_id].setdefault(number, at)
    return found


def _classes(group: ServerGroup, order: Sequence[str], involved: set[int]) -> list[MemberClass[bytes]]:
    """Return each member that a copy concerns alone, and the others by their subscriptions."""
    known = group.topics.keys()
    alike: dict[frozenset[bytes], MemberClass[bytes]] = {}
    found: list[MemberClass[bytes]] = []
    for at, name in enumerate(order):
        topics = group.members[name].topics.intersection(known)
        if at in involved:
            found.append(MemberClass(topics, places=[at]))
        elif topics in alike:
            alike[topics].places.append(at)
        else:
            alike[topics] = MemberClass(topics, places=[at])
            found.append(alike[topics])
    return found
