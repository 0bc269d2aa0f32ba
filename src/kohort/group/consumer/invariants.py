"""What must be true of a consumer group between two commands, whatever happened before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kohort.group.consumer.events import ClassicPhase, MemberState
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.effects import Parked, parked_join
from kohort.group.shard import Shard
from kohort.group.timers import Timer, member_join_timer, member_sync_timer, revocation_timer, target_timer
from kohort.model.id_partitions import IdPartitions, each


def broken(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence for each rule that the state of a group breaks."""
    yield from _double_ownership(group)
    yield from _broken_members(group)
    yield from _broken_counts(group)
    if group.assignment_epoch > group.epoch:
        yield f"target of epoch {group.assignment_epoch} in a group of epoch {group.epoch}"


def _holders(parts: Iterable[tuple[str, IdPartitions]]) -> tuple[dict[bytes, dict[int, str]], list[str]]:
    """Return who has each partition, and a sentence for each that several have."""
    found: dict[bytes, dict[int, str]] = {}
    texts = []
    for member_id, partitions in parts:
        for topic_id, partition in each(partitions):
            other = found.setdefault(topic_id, {}).setdefault(partition, member_id)
            if other != member_id:
                texts.append(f"{topic_id.hex()[:8]}-{partition} is both {other}'s and {member_id}'s")
    return found, texts


def _double_ownership(group: ConsumerGroup) -> Iterator[str]:
    members = sorted(group.members.items())
    held = [(member_id, ids_of(part)) for member_id, member in members for part in (member.assigned, member.pending)]
    owners, twice = _holders(held)
    yield from twice
    if owners != group.owners:
        yield f"owners {group.owners} where the members have {owners}"
    claims, twice = _holders((member_id, member.target) for member_id, member in members)
    yield from (f"in the target {text}" for text in twice)
    if claims != group.claims:
        yield f"claims {group.claims} where the targets are {claims}"


def _broken_members(group: ConsumerGroup) -> Iterator[str]:
    unsettled = set()
    for member_id, member in group.members.items():
        if member.epoch > group.epoch:
            yield f"{member_id} at epoch {member.epoch} in a group of epoch {group.epoch}"
        if (member.state is MemberState.UNREVOKED_PARTITIONS) != bool(member.pending):
            yield f"{member_id} is {member.state.name} with {len(member.pending)} topics to give back"
        if set(each(ids_of(member.assigned))) & set(each(ids_of(member.pending))):
            yield f"{member_id} has and gives back the same partition"
        if member.classic is None and member.classic_phase is not ClassicPhase.STABLE:
            yield f"{member_id} is a native member in the phase {member.classic_phase.name}"
        if not member.is_stored:
            yield f"{member_id} never said what it subscribes to"
        if member.epoch != group.assignment_epoch or member.state is not MemberState.STABLE:
            unsettled.add(member_id)
    if unsettled != group.unsettled:
        yield f"unsettled {sorted(group.unsettled)} where it should be {sorted(unsettled)}"


def _broken_counts(group: ConsumerGroup) -> Iterator[str]:
    members = group.members.values()
    counted = {
        "subscribers": Counter(name for member in members for name in member.subscribed_topic_names),
        "regex_subscribers": Counter(m.subscribed_topic_regex for m in members if m.subscribed_topic_regex),
        "assignors": Counter(m.server_assignor for m in members if m.server_assignor is not None),
        "natives": sum(member.classic is None for member in members),
        "static_members": {m.instance_id: m.member_id for m in members if m.instance_id is not None},
        "classic_protocols": Counter(
            name for m in members if m.classic is not None for name in {name for name, _ in m.classic.protocols}
        ),
    }
    for name, expected in counted.items():
        if getattr(group, name) != expected:
            yield f"{name} {getattr(group, name)} where a count gives {expected}"
    if strangers := group.awaiting_join - group.members.keys():
        yield f"{sorted(strangers)} in awaiting_join and no member"
    if idle := group.regexes.keys() - group.regex_subscribers.keys():
        yield f"expressions {sorted(idle)} that nobody subscribes with"


def broken_index(shard: Shard) -> list[str]:
    """Return a sentence if the shard's index of consumer groups by topic is not what the groups say."""
    followers: dict[str, set[str]] = {}
    regex_followers = set()
    for group_id, group in shard.groups.items():
        if isinstance(group, ConsumerGroup):
            for name in group.subscribers:
                followers.setdefault(name, set()).add(group_id)
            if group.regex_subscribers:
                regex_followers.add(group_id)
    found = []
    if followers != shard.followers:
        found.append(f"followers {shard.followers} where the groups say {followers}")
    if regex_followers != shard.regex_followers:
        found.append(f"regex followers {shard.regex_followers} where the groups say {regex_followers}")
    return found


def waiting(group: ConsumerGroup) -> set[Parked]:
    """Return the requests of a group that must be parked: no more, no fewer."""
    return {parked_join(group.group_id, member_id) for member_id in group.awaiting_join}


def needed(group: ConsumerGroup) -> Iterator[Timer]:
    """Yield the timers without which a group could wait for ever."""
    if group.is_dead:
        return
    group_id = group.group_id
    for member_id, member in group.members.items():
        if member_id not in group.awaiting_join:
            yield member.session
        if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            yield revocation_timer(group_id, member_id, member.epoch)
        if member.classic_phase is ClassicPhase.PREPARE_REBALANCE:
            yield member_join_timer(group_id, member_id)
        if member.classic_phase is ClassicPhase.COMPLETING_REBALANCE:
            yield member_sync_timer(group_id, member_id)
    if group.members and group.epoch > group.assignment_epoch:
        yield target_timer(group_id)
