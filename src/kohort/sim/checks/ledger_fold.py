"""How each event of a group's log changes what the checkers' ledger knows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.group.events import (
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    Event,
    GatheringFailed,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    GroupUnloaded,
    Held,
    MemberAdded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberRejoined,
    MemberRemoved,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    OffsetCommitted,
    OffsetDeleted,
    RegexDeleted,
    RegexStored,
    RoundOpened,
    StaticMemberReplaced,
    TargetDeleted,
    TargetStored,
)
from kohort.model.id_partitions import NOTHING
from kohort.sim.checks.group_ledger import GroupLedger, Native, Place


def fold(group: GroupLedger, event: Event) -> None:
    """Fold one event into what is known of its group."""
    change = _FOLDS.get(type(event))
    if change is not None:
        change(group, event)


def _commit(group: GroupLedger, event: OffsetCommitted) -> None:
    group.commits[event.topic, event.partition] = event


def _forget_commit(group: GroupLedger, event: OffsetDeleted) -> None:
    group.commits.pop((event.topic, event.partition), None)


def _store_classic(group: GroupLedger, event: GroupStored) -> None:
    if event.generation != group.generation:
        group.former = {}
    if not event.is_synced:
        group.left_behind = {stored.member_id for stored in event.members} - group.joined
        group.joined = set()
    elif event.generation != group.generation:
        group.left_behind = set()
        group.joined = set()
    group.kind = "classic"
    group.turns += 1
    group.generation = event.generation
    group.is_synced = event.is_synced
    group.is_gathering = False
    group.members = {stored.member_id: stored for stored in event.members}
    group.left_behind &= group.members.keys()
    group.out.clear()


def _delete_classic(group: GroupLedger, _: GroupDeleted) -> None:
    if group.kind == "consumer":
        return  # a tombstone of the classic group that it was
    group.kind = ""
    group.turns += 1
    group.before = {id_: stored for id_, stored in group.members.items() if not group.is_out(id_)}
    group.members = {}
    group.out, group.joined, group.former = set(), set(), {}
    group.is_gathering = False


def _put_out(group: GroupLedger, event: MemberRemoved) -> None:
    group.turns += 1
    group.out.add(event.member_id)
    group.joined.discard(event.member_id)


def _join(group: GroupLedger, event: MemberAdded | MemberRejoined) -> None:
    group.turns += 1
    group.joined.add(event.member_id)
    group.out.discard(event.member_id)


def _replace_static(group: GroupLedger, event: StaticMemberReplaced) -> None:
    group.turns += 1
    group.out.add(event.old_member_id)
    group.joined.discard(event.old_member_id)
    if event.awaits_join:
        group.joined.add(event.member_id)


def _open_round(group: GroupLedger, _: RoundOpened) -> None:
    group.turns += 1
    group.is_gathering = True


def _fail_gathering(group: GroupLedger, _: GatheringFailed) -> None:
    group.turns += 1
    group.joined = set()


def _load(group: GroupLedger, _: GroupLoaded | GroupUnloaded) -> None:
    group.turns += 1
    group.is_gathering = False


def _drop_consumer(group: GroupLedger) -> None:
    group.natives = {}
    group.asker = {}
    group.regexes = {}
    group.epoch = group.target_epoch = 0


def _become_consumer(group: GroupLedger) -> None:
    if group.kind != "consumer":
        group.kind = "consumer"
        group.members = {}
        group.out, group.joined, group.former = set(), set(), {}
        group.is_gathering, group.is_synced = False, True


def _native(group: GroupLedger, member_id: str) -> Native:
    _become_consumer(group)
    member = group.natives.get(member_id)
    if member is None:
        member = group.natives[member_id] = Native()
    return member


def _store_group(group: GroupLedger, event: ConsumerGroupStored) -> None:
    _become_consumer(group)
    group.former = {}
    group.epoch = event.epoch


def _delete_group(group: GroupLedger, _: ConsumerGroupDeleted) -> None:
    if group.kind == "consumer":
        group.turns += 1
        group.generation = group.epoch  # at which a classic group goes on, if this one is converted
        _drop_consumer(group)
        group.kind = ""


def _store_native(group: GroupLedger, event: ConsumerMemberStored) -> None:
    group.turns += 1
    member = _native(group, event.member_id)
    member.instance_id = event.instance_id
    member.is_classic = event.classic is not None
    member.names = event.subscribed_topic_names
    member.regex = event.subscribed_topic_regex


def _delete_native(group: GroupLedger, event: ConsumerMemberDeleted) -> None:
    group.turns += 1
    group.left_behind.discard(event.member_id)
    member = group.natives.pop(event.member_id, None)
    if member is not None:
        _release(group, event.member_id, member)


def _store_target(group: GroupLedger, event: TargetStored) -> None:
    group.target_epoch = event.epoch


def _delete_target(group: GroupLedger, _: TargetDeleted) -> None:
    group.target_epoch = -1


def _store_member_target(group: GroupLedger, event: MemberTargetStored) -> None:
    _native(group, event.member_id).target = event.target


def _delete_member_target(group: GroupLedger, event: MemberTargetDeleted) -> None:
    if (member := group.natives.get(event.member_id)) is not None:
        member.target = NOTHING


def _store_assignment(group: GroupLedger, event: MemberAssignmentStored) -> None:
    group.turns += 1
    member_id = event.member_id
    member = _native(group, member_id)
    _release(group, member_id, member)
    member.epoch, member.state = event.epoch, event.state
    assigned = epochs_of(event.assigned)
    member.assigned = frozenset(assigned)
    member.held = {**epochs_of(event.pending), **assigned} if event.pending else assigned
    group.asker.update(dict.fromkeys(member.held, member_id))


def _delete_assignment(group: GroupLedger, event: MemberAssignmentDeleted) -> None:
    group.turns += 1
    member = group.natives.get(event.member_id)
    if member is not None:
        group.former[event.member_id] = member.assigned
        _release(group, event.member_id, member)
        member.epoch, member.state = 0, MemberState.STABLE
        member.assigned, member.held = frozenset(), {}


def _release(group: GroupLedger, member_id: str, member: Native) -> None:
    for place in member.held:
        if group.asker.get(place) == member_id:
            del group.asker[place]


def _store_regex(group: GroupLedger, event: RegexStored) -> None:
    group.regexes[event.regex] = event.topics


def _delete_regex(group: GroupLedger, event: RegexDeleted) -> None:
    group.regexes.pop(event.regex, None)


def epochs_of(held: tuple[Held, ...]) -> dict[Place, int]:
    """Return the epoch in which each partition was assigned."""
    return {
        (topic_id, partition): epoch
        for topic_id, partitions, epochs in held
        for partition, epoch in zip(partitions, epochs, strict=True)
    }


_FOLDS: dict[type[Any], Callable[[GroupLedger, Any], None]] = {
    OffsetCommitted: _commit,
    OffsetDeleted: _forget_commit,
    GroupStored: _store_classic,
    GroupDeleted: _delete_classic,
    MemberRemoved: _put_out,
    MemberAdded: _join,
    MemberRejoined: _join,
    StaticMemberReplaced: _replace_static,
    RoundOpened: _open_round,
    GatheringFailed: _fail_gathering,
    GroupLoaded: _load,
    GroupUnloaded: _load,
    ConsumerGroupStored: _store_group,
    ConsumerGroupDeleted: _delete_group,
    ConsumerMemberStored: _store_native,
    ConsumerMemberDeleted: _delete_native,
    TargetStored: _store_target,
    TargetDeleted: _delete_target,
    MemberTargetStored: _store_member_target,
    MemberTargetDeleted: _delete_member_target,
    MemberAssignmentStored: _store_assignment,
    MemberAssignmentDeleted: _delete_assignment,
    RegexStored: _store_regex,
    RegexDeleted: _delete_regex,
}
