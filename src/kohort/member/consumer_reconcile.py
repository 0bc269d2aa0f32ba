"""From one target to the next, in a member of the consumer protocol: give up, take over, acknowledge (KIP-848).

One reconciliation runs at a time, with the part of the target whose topics have names by now; what comes meanwhile is
the next one's. Its result is discarded where the member was put out, or leaves, before it ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.member.consumer_effects import NameTopics
from kohort.member.consumer_standing import ConsumerStanding, Numbered
from kohort.member.effects import Callback
from kohort.member.member_state import ConsumerState
from kohort.model.assignment import Partitions
from kohort.model.id_partitions import IdPartitions, each
from kohort.model.ids import TopicPartition


def reconcile(member: ConsumerStanding) -> None:
    """Begin to move towards the target, as far as the names of its topics are known."""
    assert member.target is not None, "what is reconciled is a target"
    resolved, names, nameless = _resolve(member, member.target.partitions)
    if nameless != member.nameless:
        member.nameless = nameless
        member.do(NameTopics(nameless))
    reached = Numbered(member.target.number, resolved)
    if member.current is not None and member.current.partitions == resolved:
        if member.current != reached:
            _acknowledge(member, reached)
        return  # or all that can be done is done, until the other topics have names
    wanted = {TopicPartition(names[topic_id], partition): topic_id for topic_id, partition in each(resolved)}
    kept = frozenset(held for held in member.owned if wanted.get(held) == member.topic_ids[held.topic])
    left = member.owned - kept
    deleted = frozenset(held for held in left if member.topic_ids[held.topic] in member.gone)
    added = frozenset(wanted) - kept
    member.underway = reached
    member.steps = [(Callback.LOST, deleted)] if deleted else []
    if left - deleted:
        member.steps.append((Callback.REVOKED, left - deleted))
    member.steps.append((Callback.ASSIGNED, added))
    _go_on(member)


def finish_callback(member: ConsumerStanding, callback: Callback, *, is_abandoned: bool) -> None:
    """A callback is over: go on with the reconciliation, unless that was discarded."""
    if member.running is None or member.running[0] is not callback:
        return
    partitions = member.running[1]
    member.running = None
    if callback is not Callback.ASSIGNED and not is_abandoned:
        member.owned -= partitions
        held = {topic for topic, _ in member.owned}
        member.topic_ids = {topic: topic_id for topic, topic_id in member.topic_ids.items() if topic in held}
    if member.underway is None:
        return
    if is_abandoned:
        member.discard()
    elif member.steps:
        _go_on(member)
    else:
        reached, member.underway = member.underway, None
        member.rebalances += 1
        _acknowledge(member, reached)


def _go_on(member: ConsumerStanding) -> None:
    assert member.underway is not None, "a step belongs to a reconciliation"
    callback, partitions = member.steps.pop(0)
    if callback is Callback.ASSIGNED:
        member.owned |= partitions
        member.topic_ids |= _ids(member, partitions, member.underway.partitions)
    cause = "they no longer exist" if callback is Callback.LOST else f"member epoch {member.epoch}"
    member.run(callback, partitions, cause)


def _acknowledge(member: ConsumerStanding, reached: Numbered) -> None:
    member.current = reached
    member.state = ConsumerState.ACKNOWLEDGING
    member.speak()


def _resolve(member: ConsumerStanding, target: IdPartitions) -> tuple[IdPartitions, dict[bytes, str], frozenset[bytes]]:
    """Return the part of a target whose topics have names, those names, and the ids of the others."""
    names = {topic_id: topic for topic, topic_id in member.topic_ids.items()}
    names |= {topic_id: member.names[topic_id] for topic_id, _ in target if topic_id in member.names}
    # A topic that was made anew under its name: the old one's partitions are nobody's.
    newest = {name: topic_id for topic_id, name in names.items() if topic_id not in member.gone}
    known = tuple(part for part in target if (name := names.get(part[0])) and newest.get(name, part[0]) == part[0])
    return known, names, frozenset(topic_id for topic_id, _ in target if topic_id not in names)


def _ids(member: ConsumerStanding, partitions: Partitions, reached: IdPartitions) -> dict[str, bytes]:
    topics = {topic for topic, _ in partitions}
    return dict(_named(member, topics, reached))


def _named(member: ConsumerStanding, topics: set[str], reached: IdPartitions) -> Iterator[tuple[str, bytes]]:
    for topic_id, _ in reached:
        name = member.names.get(topic_id)
        if name in topics:
            yield name, topic_id
