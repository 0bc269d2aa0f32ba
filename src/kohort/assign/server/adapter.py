"""One assignor for both sides: what a leader runs in a classic group, run by the coordinator of a consumer group.

A client-side assignor, or any function of a `GroupSpec`, is given the group by names: each member's topics, its
previous target as what it owns, its rack, the user data of a classic member, its lags and reason. What it returns is
checked: one that gives a partition to two members, to a member that did not subscribe to it or is not in the group,
is refused. It returns what members shall own in the end: a coordinator gives nothing away before its
owner has let go, so nothing is withheld here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import index

from kohort.assign.custom import FunctionAssignor
from kohort.assign.server.spec import NO_METADATA, ServerAssignor, ServerGroup, ServerMember, ServerTopic
from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, RebalanceProtocol, TopicSpec
from kohort.assign.user_data import unmarked
from kohort.model.assignment import NOTHING, Assignment, IdPartitions, by_topic, id_partitions
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.model.subscription import Subscription


class TargetRefused(ValueError):
    """A target that breaks a rule; the text names the assignor, and what it gave to which member."""


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


Given = Mapping[str, Iterable[TopicPartition] | Assignment]

OWNED_IN = 1
"""The generation of what members own by their previous targets: there is one truth, so all have the same."""


class AdaptedAssignor:
    """A client-side assignor as a server-side one."""

    def __init__(self, name: str, intend: Callable[[GroupSpec], Given], *, is_withholding: bool = False) -> None:
        self.name = name
        self._intend = intend
        self._is_withholding = is_withholding

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member. Raises TargetRefused, and whatever the assignor raises."""
        spec = group_spec(group, self.name)
        given = _partitions(self._intend(spec), self.name)
        if self._is_withholding and _withheld(spec, given):
            # What was withheld is free once its owners have let go: that is the second round.
            given = _partitions(self._intend(_after(spec, given)), self.name)
        by_id = _by_id(group, given, self.name)
        return checked(group, {member: mine.items() for member, mine in by_id.items()}, self.name)


def adapted(assignor: Assignor) -> AdaptedAssignor:
    """Return a client-side assignor as a server-side one of the same name.

    Functions and ours return what they intend; of others that are cooperative, two rounds are run where one withholds.
    """
    intend = assignor if isinstance(assignor, FunctionAssignor) else getattr(assignor, "intended", None)
    if intend is not None:
        return AdaptedAssignor(assignor.name, intend)
    is_withholding = RebalanceProtocol.COOPERATIVE in assignor.protocols
    return AdaptedAssignor(assignor.name, assignor.assign, is_withholding=is_withholding)


def group_spec(group: ServerGroup, name: str) -> GroupSpec:
    """Return the group by names, as the assignor `name` shall see it."""
    topics = group.topics
    names: dict[frozenset[bytes], tuple[str, ...]] = {}
    members = {}
    for member_id, member in group.members.items():
        subscribed = names.get(member.topics)
        if subscribed is None:
            known = member.topics.intersection(topics)
            subscribed = names[member.topics] = tuple(sorted([topics[topic_id].name for topic_id in known]))
        members[member_id] = _member_spec(group, member, subscribed, name)
    return GroupSpec(members, {topic.name: TopicSpec(topic.partitions, topic.racks) for topic in topics.values()})


def _member_spec(group: ServerGroup, member: ServerMember, subscribed: tuple[str, ...], name: str) -> MemberSpec:
    owned = tuple(
        TopicPartition(group.topics[topic_id].name, number)
        for topic_id, numbers in member.previous
        if topic_id in group.topics
        for number in numbers
    )
    lags = {
        TopicPartition(group.topics[topic_id].name, number): lag
        for topic_id, each in member.lags
        if topic_id in group.topics
        for number, lag in each
    }
    sent = member.metadata.get(name)
    subscription = Subscription(
        subscribed, sent and unmarked(sent[1] or None), owned, OWNED_IN if owned else -1, member.rack
    )
    return MemberSpec(subscription, member.instance_id, lags, member.reason, member.metadata)


def _partitions(given: object, name: str) -> dict[str, frozenset[TopicPartition]]:
    if not isinstance(given, Mapping):
        raise TargetRefused(f"the assignor {name} returned {type(given).__name__}, not the partitions of each member")
    found = {}
    for member, each in given.items():
        if isinstance(each, Assignment):
            found[member] = each.partitions
            continue
        try:
            found[member] = frozenset(TopicPartition(topic, index(number)) for topic, number in each)
        except (TypeError, ValueError) as error:
            raise TargetRefused(f"the assignor {name} gave {member} what are no partitions: {error}") from error
    return found


def _withheld(spec: GroupSpec, given: Mapping[str, frozenset[TopicPartition]]) -> bool:
    """Return whether partitions that a member owned, and that exist, went to no member."""
    assigned = frozenset[TopicPartition]().union(*given.values())
    owned = {each for member in spec.members.values() for each in member.subscription.owned}
    return any(each.partition < spec.topics[each.topic].partitions for each in owned - assigned)


def _after(spec: GroupSpec, given: Mapping[str, frozenset[TopicPartition]]) -> GroupSpec:
    """Return the group as it joins again, each member owning what it was given."""
    members = {}
    for name, member in spec.members.items():
        owned = tuple(sorted(given.get(name, ())))
        subscription = replace(member.subscription, owned=owned, generation=OWNED_IN + 1 if owned else -1)
        members[name] = replace(member, subscription=subscription)
    return GroupSpec(members, spec.topics)


def _by_id(
    group: ServerGroup, given: Mapping[str, Iterable[TopicPartition]], name: str
) -> dict[str, dict[bytes, list[int]]]:
    ids = {topic.name: topic_id for topic_id, topic in group.topics.items()}
    found: dict[str, dict[bytes, list[int]]] = {}
    for member, partitions in given.items():
        mine: dict[bytes, list[int]] = {}
        for topic, number in partitions:
            topic_id = ids.get(topic)
            if topic_id is None:
                raise TargetRefused(
                    f"the assignor {name} gave {topic}-{number} to {member}: no such topic in the group"
                )
            mine.setdefault(topic_id, []).append(number)
        found[member] = mine
    return found


def assign_by_name(assignor: ServerAssignor, spec: GroupSpec) -> dict[str, frozenset[TopicPartition]]:
    """Return what the members of a classic group shall own in the end, by a server-side assignor.

    What a member reports to own is its previous target. Raises TargetRefused, and whatever the assignor raises.
    """
    # As at a coordinator, an assignor sees the topics that some member wants; all that it needs of ids is to differ.
    wanted = {topic for member in spec.members.values() for topic in member.subscription.topics}
    ids = {topic: topic.encode() for topic in spec.topics if topic in wanted}
    topics = {
        ids[name]: ServerTopic(name, topic.partitions, topic.racks)
        for name, topic in spec.topics.items()
        if name in ids
    }
    members = {}
    for name, member in spec.members.items():
        subscription = member.subscription
        owned = by_topic(partition for partition in subscription.owned if partition.topic in ids)
        members[name] = ServerMember(
            frozenset(ids[topic] for topic in subscription.topics if topic in ids),
            id_partitions((ids[topic], numbers) for topic, numbers in owned.items()),
            member.instance_id,
            subscription.rack,
            {assignor.name: (-1, subscription.user_data)} if subscription.user_data else NO_METADATA,
        )
    is_homogeneous = len({member.topics for member in members.values()}) <= 1
    group = ServerGroup(members, topics, is_homogeneous)
    target = checked(group, assignor.assign(group), assignor.name)
    return {
        name: frozenset(
            TopicPartition(topics[topic_id].name, number) for topic_id, numbers in mine for number in numbers
        )
        for name, mine in target.items()
    }
