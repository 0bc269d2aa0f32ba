"""JoinGroup of classic groups: who is in the generation that forms, as requests predict and answers prove.

A leader's answer lists members that were never seen. What was not seen has the cause `not_observed`.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.gateway.observing.group_changes import GroupChanges, assignments_of, synced
from kohort.gateway.observing.group_knowledge import GATHERED
from kohort.gateway.observing.observed_consumer_groups import ObservedConsumerGroups
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Join
from kohort.group.decisions import decide
from kohort.group.events import (
    GenerationFormed,
    GroupStored,
    JoinRefused,
    MemberAdded,
    MemberIdIssued,
    PendingMemberDropped,
    StaticMemberReplaced,
    StoredMember,
)
from kohort.group.join_refusals import REFUSALS
from kohort.group.results import JoinResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


class ObservedJoins:
    """The JoinGroups that are not answered yet, and the generations that their answers form."""

    def __init__(self, changes: GroupChanges, consumer: ObservedConsumerGroups) -> None:
        self._changes = changes
        self._consumer = consumer
        self._without_id: dict[str, list[Join]] = {}
        """By group, JoinGroups without an id that are not answered yet, and will be when the generation forms."""
        self._joining: dict[str, Join] = {}
        """By member id, JoinGroups that are not answered yet."""
        self._unformed: dict[str, tuple[Join, JoinResult]] = {}
        """By group, the first answer of a generation of which not all members are known yet."""

    def sent(self, command: Join, now_ms: int) -> None:
        """A member sends JoinGroup; one without an id is known by its answer."""
        if command.member_id:
            self._joining[command.member_id] = command
        group = self._changes.group(command.group_id)
        if group is None:
            self._consumer.classic_sent(command, now_ms)
            if _is_admitted(command):
                self._without_id.setdefault(command.group_id, []).append(command)
            return
        self._changes.last_requests.sent(group, command.member_id, now_ms)
        if self._is_new(group, command):
            self._without_id.setdefault(command.group_id, []).append(command)
            self._changes.open_round(group, Cause(CauseKind.MEMBER_JOINED, now_ms, None, command.reason), now_ms)
            self._changes.signals.group_changed(command.group_id, now_ms)
        elif command.member_id in group.members or command.member_id in group.pending:
            self._changes.signals.member_joined(command.group_id, command.member_id)
            self._changes.predict(decide(self._changes.shard, command, now_ms), now_ms)
            self._changes.signals.group_changed(command.group_id, now_ms)

    def _is_new(self, group: ClassicGroup, command: Join) -> bool:
        """Whether a sender without an id is admitted at once: it is static, or need not come back with an id."""
        is_supported = group.is_supporting(command.protocol_type, command.protocols)
        return _is_admitted(command) and is_supported and command.instance_id not in group.static_members

    def repeat_unanswered(self, group: ClassicGroup, now_ms: int) -> None:
        """A round has opened that no request had shown: members whose JoinGroup waits have joined it already."""
        for member_id in sorted(self._joining.keys() & group.members.keys()):
            self._changes.signals.member_joined(group.group_id, member_id)
            self._changes.predict(decide(self._changes.shard, self._joining[member_id], now_ms), now_ms)

    def abandoned(self, command: Join, now_ms: int) -> None:
        """The connection of a JoinGroup ended before its answer came."""
        self._consumer.classic_join_abandoned(command, now_ms)
        self._named(command, now_ms)

    def answered(self, command: Join, result: JoinResult, now_ms: int) -> None:
        """A JoinGroup is answered; `command` is as it was sent."""
        group_id = command.group_id
        if not result.error and not result.leader:
            self._consumer.classic_joined(command, result, now_ms)
            self._named(command, now_ms)
            return
        if result.error:
            self._consumer.classic_join_abandoned(command, now_ms)
        match result.error:
            case ErrorCode.NONE:
                self._joined(command, result, now_ms)
            case ErrorCode.MEMBER_ID_REQUIRED if self._consumer.group(group_id) is not None:
                pass  # a consumer group remembers no such id
            case ErrorCode.MEMBER_ID_REQUIRED:
                group = self._group_for(command, result.member_id, now_ms)
                if result.member_id not in group.pending | group.members.keys():
                    cause = Cause(CauseKind.MEMBER_ID_ISSUED, now_ms, result.member_id, command.reason)
                    self._changes.apply(MemberIdIssued(group_id, result.member_id, cause), now_ms)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self._changes.evicted(group_id, command.member_id, now_ms)
            case _:
                pass
        if result.error in REFUSALS:
            cause = Cause(CauseKind.JOIN_REFUSED, now_ms, command.member_id or None)
            self._changes.apply(JoinRefused(group_id, result.error, command, cause), now_ms)
        self._named(command, now_ms)
        self._changes.signals.group_changed(group_id, now_ms)

    def _group_for(self, command: Join, member_id: str, now_ms: int) -> ClassicGroup:
        group = self._changes.group(command.group_id)
        if group is None:
            self._consumer.downgraded(command, member_id, now_ms)
            group = self._changes.group(command.group_id)
        if group is None:
            cause = Cause(CauseKind.GROUP_CREATED, now_ms, command.member_id or None)
            self._changes.apply(GroupStored(command.group_id, None, 0, None, None, now_ms, (), cause), now_ms)
            group = self._changes.group(command.group_id)
            assert group is not None, "it was just stored"
        return group

    def _joined(self, command: Join, result: JoinResult, now_ms: int) -> None:
        group = self._group_for(command, result.member_id, now_ms)
        is_awaited = result.member_id in group.awaiting_join
        self._admit(group, command, result, now_ms)
        if result.generation == group.generation and group.phase in GATHERED:
            pass  # answered with the generation it has
        elif result.generation == group.generation:
            # Else the answer is of the round before, on a slow connection.
            if is_awaited:
                self._no_round(group, result.member_id, now_ms)
        elif result.members or not self._without_id.get(group.group_id):
            self._form(group, command, result, now_ms)
        else:
            # Who else is in it is known when those are answered that sent no id, or the leader.
            self._unformed[group.group_id] = command, result
        if result.members:
            self._reconcile(group, command, result, now_ms)

    def _no_round(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A member's JoinGroup is answered with the generation that its group has, though a round was predicted.

        Either there is none, or the JoinGroup was faster than the one of another member that opens it.
        """
        if group.awaiting_join == {member_id}:
            self._changes.store(group, assignments_of(group), now_ms)
        else:
            group.awaiting_join.discard(member_id)

    def _named(self, command: Join, now_ms: int) -> None:
        """A JoinGroup is answered; one without an id may have been the last of its group."""
        if self._joining.get(command.member_id) is command:
            del self._joining[command.member_id]
        without_id = self._without_id.get(command.group_id, [])
        if command in without_id:
            without_id.remove(command)
            if not without_id:
                del self._without_id[command.group_id]
                self.form_at_last(command.group_id, now_ms)

    def form_at_last(self, group_id: str, now_ms: int) -> None:
        """Form the generation whose members were not all known when its first answer came."""
        group, unformed = self._changes.group(group_id), self._unformed.pop(group_id, None)
        if group is not None and unformed is not None and unformed[1].generation != group.generation:
            self._form(group, *unformed, now_ms)

    def _admit(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """Admit a member that is new to the group, or new to us."""
        member_id = result.member_id
        self._changes.last_requests.found(member_id, now_ms)
        if member_id in group.members:
            return
        old_id = group.static_members.get(command.instance_id) if command.instance_id is not None else None
        if old_id is not None and old_id != member_id:
            assert command.instance_id is not None, "only an instance is replaced"
            is_quiet = result.generation == group.generation
            cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, command.reason)
            self._changes.apply(
                StaticMemberReplaced(group.group_id, member_id, command, cause, old_id, awaits_join=not is_quiet),
                now_ms,
            )
            if is_quiet:
                self._changes.apply(synced(group, assignments_of(group), now_ms, cause), now_ms)
            return
        self._enter(group, member_id, command, now_ms)

    def _enter(self, group: ClassicGroup, member_id: str, command: Join, now_ms: int) -> None:
        cause = Cause(CauseKind.MEMBER_JOINED, now_ms, member_id, command.reason)
        self._changes.apply(MemberAdded(group.group_id, member_id, command, cause), now_ms)
        self._changes.open_round(group, cause, now_ms)

    def _form(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """The first answer of a generation: those who sent no JoinGroup are not in it, as far as we see them."""
        if not group.generation and not result.members:
            # The group may be older than this gateway, and the answer that to a static member that returns.
            self._changes.look_ups.ask(group.group_id, result.generation, now_ms)
        if result.generation != group.generation + 1:
            # Generations are dense in a log, but some may have formed unseen.
            missed = synced(group, assignments_of(group), now_ms, Cause(CauseKind.NOT_OBSERVED, now_ms))
            self._changes.apply(replace(missed, generation=result.generation - 1, is_synced=False), now_ms)
        self._changes.open_round(group, Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)
        self._name(group, command, result, now_ms)
        for member_id in sorted(group.members.keys() - group.awaiting_join):
            member = group.members[member_id]
            if member.instance_id is None and member_id != result.leader:
                self._changes.remove(
                    group, member_id, self._changes.last_requests.cause_of_absence(group, member_id, now_ms), now_ms
                )
        leader = result.member_id if _is_former_id(command, result.leader) else result.leader
        if leader not in group.members:
            offered = ((result.protocol_name or "", b""),)
            unseen = replace(
                command, member_id=leader, instance_id=None, client_id="", client_host="", protocols=offered
            )
            not_observed = Cause(CauseKind.NOT_OBSERVED, now_ms, leader)
            self._changes.apply(MemberAdded(group.group_id, leader, unseen, not_observed), now_ms)
        cause = Cause(CauseKind.ALL_MEMBERS_JOINED, now_ms)
        formed = GenerationFormed(group.group_id, result.generation, result.protocol_name or "", leader, cause)
        self._changes.apply(formed, now_ms)

    def _name(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """Admit those that sent no id, as far as the leader's list names them."""
        for member_id, instance_id, _ in result.members:
            for joining in self._without_id.get(group.group_id, ()):
                is_it = instance_id is not None and instance_id == joining.instance_id
                if is_it and joining is not command and member_id not in group.members:
                    named = JoinResult(ErrorCode.NONE, member_id, result.generation)
                    self._admit(group, joining, named, now_ms)

    def _reconcile(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """Take the members in the leader's answer for the truth: a JoinGroup that is not answered came after it."""
        listed = {member_id: (instance_id, metadata) for member_id, instance_id, metadata in result.members}
        unlisted = group.members.keys() - listed.keys()
        late = sorted(unlisted & self._joining.keys())
        for member_id in sorted(unlisted.difference(late)):
            self._changes.remove(group, member_id, Cause(CauseKind.NOT_OBSERVED, now_ms, member_id), now_ms)
        missing = listed.keys() - group.members.keys()
        if not missing and (not late or group.phase not in GATHERED):
            return
        for member_id in sorted(missing & group.pending):
            dropped = Cause(CauseKind.NOT_OBSERVED, now_ms, member_id)
            self._changes.apply(PendingMemberDropped(group.group_id, member_id, dropped), now_ms)
        timeouts = command.rebalance_timeout_ms, command.session_timeout_ms
        unseen = tuple(
            StoredMember(member_id, instance_id, "", "", *timeouts, metadata, b"")
            for member_id, (instance_id, metadata) in sorted(listed.items())
            if member_id in missing
        )
        known = synced(group, assignments_of(group), now_ms, Cause(CauseKind.NOT_OBSERVED, now_ms))
        is_synced = group.phase is Phase.STABLE
        members = (*(each for each in known.members if each.member_id not in late), *unseen)
        self._changes.apply(replace(known, members=members, leader=result.leader, is_synced=is_synced), now_ms)
        for member_id in late:
            self._enter(group, member_id, self._joining[member_id], now_ms)


def _is_admitted(command: Join) -> bool:
    """Whether a sender without an id is admitted at once: it is static, or need not come back with an id."""
    return not command.member_id and (command.instance_id is not None or not command.is_two_step)


def _is_former_id(command: Join, leader: str) -> bool:
    """Whether a leader's id is one that the sender's instance had before: a returning leader is shown it (KIP-345)."""
    return command.instance_id is not None and leader.startswith(f"{command.instance_id}-")
