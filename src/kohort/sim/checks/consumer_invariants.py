"""What must be true of a consumer group between two commands, by invariant; `invariants.py` has their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.effects import Parked, parked_join
from kohort.group.events import ClassicPhase, MemberState
from kohort.group.group_timers import Timer, member_join_timer, member_sync_timer, revocation_timer, target_timer
from kohort.model.assignment import IdPartitions, each


def shared_partitions(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence for each partition that two members have, granted or asked back (Withholding)."""
    yield from _holders(_granted(group))[1]


def shared_targets(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence for each partition that is in the target of two members (TargetLegal)."""
    _, twice = _holders(_targets(group))
    yield from (f"in the target {text}" for text in twice)


def early_epochs(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence for each epoch that is ahead of the group's (EpochMonotone)."""
    for member_id, member in group.members.items():
        if member.epoch > group.epoch:
            yield f"{member_id} at epoch {member.epoch} in a group of epoch {group.epoch}"
    if group.assignment_epoch > group.epoch:
        yield f"target of epoch {group.assignment_epoch} in a group of epoch {group.epoch}"


def misfits(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence for each thing that does not fit the state that a member is in (PhaseFits)."""
    for member_id, member in group.members.items():
        if (member.state is MemberState.UNREVOKED_PARTITIONS) != bool(member.pending):
            yield f"{member_id} is {member.state.name} with {len(member.pending)} topics to give back"
        if member.pending and set(each(ids_of(member.assigned))) & set(each(ids_of(member.pending))):
            yield f"{member_id} has and gives back the same partition"
        if member.classic is None and member.classic_phase is not ClassicPhase.STABLE:
            yield f"{member_id} is a native member in the phase {member.classic_phase.name}"
        if not member.is_stored:
            yield f"{member_id} has no stored subscription"
    if unknown := group.awaiting_join - group.members.keys():
        yield f"{sorted(unknown)} in awaiting_join and no member"


def unconverged(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence if the group knows wrongly who has something left to do (StableMeansConverged)."""
    unsettled = {
        member_id
        for member_id, member in group.members.items()
        if member.epoch != group.assignment_epoch or member.state is not MemberState.STABLE
    }
    if unsettled != group.unsettled:
        yield f"unsettled {sorted(group.unsettled)} where it should be {sorted(unsettled)}"


def shared_slots(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence if instances are not those of the members (StaticSlotUnique)."""
    instances = {member.instance_id: id_ for id_, member in group.members.items() if member.instance_id is not None}
    if instances != group.static_members:
        yield f"static_members {group.static_members} where a count gives {instances}"


def miscounts(group: ConsumerGroup) -> Iterator[str]:
    """Yield a sentence for each index or count that a walk over the members does not confirm (CountsAgree)."""
    owners, _ = _holders(_granted(group))
    if owners != group.owners:
        yield f"owners {group.owners} where the members have {owners}"
    claims, _ = _holders(_targets(group))
    if claims != group.claims:
        yield f"claims {group.claims} where the targets are {claims}"
    members = group.members.values()
    counted = {
        "subscribers": Counter(name for member in members for name in member.subscribed_topic_names),
        "regex_subscribers": Counter(m.subscribed_topic_regex for m in members if m.subscribed_topic_regex),
        "assignors": Counter(m.server_assignor for m in members if m.server_assignor is not None),
        "natives": sum(member.classic is None for member in members),
        "classic_protocols": Counter(
            name for m in members if m.classic is not None for name in {name for name, _ in m.classic.protocols}
        ),
    }
    for name, expected in counted.items():
        if getattr(group, name) != expected:
            yield f"{name} {getattr(group, name)} where a count gives {expected}"
    if idle := group.regexes.keys() - group.regex_subscribers.keys():
        yield f"expressions {sorted(idle)} that no member subscribes with"


def _granted(group: ConsumerGroup) -> list[tuple[str, IdPartitions]]:
    members = sorted(group.members.items())
    return [(member_id, ids_of(part)) for member_id, member in members for part in (member.assigned, member.pending)]


def _targets(group: ConsumerGroup) -> list[tuple[str, IdPartitions]]:
    return [(member_id, member.target) for member_id, member in sorted(group.members.items())]


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
