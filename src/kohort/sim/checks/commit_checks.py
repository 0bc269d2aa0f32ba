"""Commits: who may, by the log at the moment of each; no commit moves a group back; a close commits what is finished.

A commit is known by two things: the member that sent it, with the epoch it showed then, and the event that it became.
One that may have been accepted under several of a member's requests is right if one of them was; once the response
shows which, that one must have been. A close is judged only where its commit could be accepted all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.group.events import Event, OffsetCommitted, OffsetDeleted
from kohort.group.shard import Shard
from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.group_ledger import NEVER, GroupLedger, Ledgers
from kohort.sim.checks.invariants import CLOSE_KEEPS_WORK, COMMIT_FENCED, COMMIT_NEVER_REWINDS
from kohort.sim.kernel.world_observer import Errors, Offsets, SeenMember, SeenNode

_STALE = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
REMEMBERED = 16
"""How many unanswered commits of a process are remembered: those before have arrived, or never will."""


@dataclass(slots=True)
class Sent:
    """A commit on its way. `accepted` has for each partition that an event may be it, None, or why none can."""

    number: int
    member_id: str
    epoch: int
    offsets: Mapping[TopicPartition, int]
    turns: int
    loads: int
    accepted: dict[TopicPartition, str | None] = field(default_factory=dict)


class CommitChecker(Checker):
    """CommitFenced and CommitNeverRewinds."""

    invariants = (COMMIT_FENCED, COMMIT_NEVER_REWINDS)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._sent: dict[str, dict[int, Sent]] = {}
        """By member id."""
        self._ids: dict[tuple[str, int], str] = {}
        """By member's name and number of a commit, the id under which it was sent."""
        self._latest: dict[tuple[str, str, int], tuple[int, str, bytes]] = {}
        """By group and partition: what was committed by a member last, by which, of which topic."""
        self._confirmed: dict[tuple[str, str, int], int] = {}
        """The highest of these whose commit was answered without an error."""
        self._shown: Identity | None = None
        ledgers.before(OffsetCommitted, self._committed)
        ledgers.before(OffsetDeleted, self._forgotten)

    # -- commits and their responses

    def commit_shows(self, member: SeenMember, number: int, identity: Identity) -> None:
        """Remember the identity of the next commit, where it is not the member's of now."""
        self._shown = identity

    def commit_sent(self, member: SeenMember, number: int, offsets: Offsets) -> None:
        """Remember it with the epoch that its member shows."""
        (epoch, member_id), self._shown = self._shown or member.identity, None
        turns = self._ledgers.groups[member.group_id].turns
        sent = self._sent.setdefault(member_id, {})
        sent[number] = Sent(number, member_id, epoch, offsets, turns, self._ledgers.loads)
        self._ids[member.name, number] = member_id
        if len(sent) > REMEMBERED:
            del sent[next(iter(sent))]

    def commit_answered(self, member: SeenMember, number: int, offsets: Offsets, errors: Errors) -> None:
        """Compare the response with the log when the commit was accepted, or could have been."""
        member_id = self._ids.pop((member.name, number), "")
        sent = self._sent.get(member_id, {}).get(number)
        if sent is None:
            return
        is_decided = False
        for partition in offsets:
            error = errors.get(partition, ErrorCode.NONE)
            if error is ErrorCode.NONE:
                is_decided = True
                self._demand_accepted(member, sent, partition)
            elif error in _STALE:
                is_decided = True
                self._demand_stale(member, sent, partition, error)
        if is_decided:
            del self._sent[member_id][number]

    def _demand_accepted(self, member: SeenMember, sent: Sent, partition: TopicPartition) -> None:
        self.count(COMMIT_FENCED)
        if partition not in sent.accepted:
            text = "no such commit is in the log"
        else:
            reason = sent.accepted[partition]
            if reason is None:
                key = (member.group_id, *partition)
                self._confirmed[key] = max(self._confirmed.get(key, NEVER), sent.offsets[partition])
                return
            text = f"when it was stored, {reason}"
        self.broken(
            COMMIT_FENCED,
            f"commit {sent.number} of {member.name} ({sent.member_id}, epoch {sent.epoch}) of {partition}@"
            f"{sent.offsets.get(partition)} is answered well, but {text}",
        )

    def _demand_stale(self, member: SeenMember, sent: Sent, partition: TopicPartition, error: ErrorCode) -> None:
        ledger = self._ledgers.groups[member.group_id]
        if ledger.turns != sent.turns or self._ledgers.loads != sent.loads or not sent.member_id:
            return  # it may have been stale when it arrived
        if ledger.kind == "":
            return
        self.count(COMMIT_FENCED)
        # A commit is taken or refused as a whole.
        ids = {topic: self._ledgers.topic_id(member.group_id, topic) for topic, _ in sent.offsets}
        places = [(ids[topic], number) for topic, number in sent.offsets]
        if all(ledger.why_no_commit(sent.member_id, sent.epoch, place) is None for place in places):
            self.broken(
                COMMIT_FENCED,
                f"commit {sent.number} of {member.name} ({sent.member_id}, epoch {sent.epoch}) of {partition} is "
                f"refused with {error.name}, and by the log it may",
            )

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """A commit without a response may be lost with a node: take what the log has now."""
        for key, (offset, member_id, topic_id) in list(self._latest.items()):
            group_id, topic, number = key
            committed = self._ledgers.groups[group_id].committed(topic, number, topic_id)
            if committed < offset and self._confirmed.get(key, NEVER) < offset:
                self._latest[key] = (committed, member_id, topic_id)

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        """Who must begin anew found a commit that points nowhere: of a topic of that name that is no more."""
        if why == "reset":
            self._drop((member.group_id, *partition))

    # -- what the log takes

    def _committed(self, ledger: GroupLedger, event: OffsetCommitted, shard: Shard) -> None:
        if not event.member_id:
            self._drop((event.group_id, event.topic, event.partition))
            if event.offset == 0 and not self._exists(event.topic, event.partition):
                return  # the coordinator's own, for a partition that is added next
            by_type = {"consumer": ledger.natives, "classic": ledger.members}
            threads = {} if ledger.streams is None else ledger.streams.threads
            has_members = bool(by_type.get(ledger.kind) or threads)
            text = f"{event.group_id} has members and accepts a commit without a member id"
            self.require(not has_members, COMMIT_FENCED, text)
            return
        partition = TopicPartition(event.topic, event.partition)
        place = (event.topic_id, event.partition)
        reason: str | None = None
        is_known = is_allowed = False
        for sent in self._sent.get(event.member_id, {}).values():
            if sent.offsets.get(partition) != event.offset:
                continue
            is_known = True
            reason = ledger.why_no_commit(event.member_id, sent.epoch, place)
            if reason is None or sent.accepted.get(partition, "") is not None:
                sent.accepted[partition] = reason
            is_allowed = is_allowed or reason is None
        if is_known:
            text = f"{event.group_id}: the commit of {partition}@{event.offset} is accepted, but {reason}"
            self.compare(is_allowed, COMMIT_FENCED, text)
        self._demand_ahead(event, partition)

    def _exists(self, topic: str, number: int) -> bool:
        return any(seen.node.topics.partition(topic, number) for seen in self._ledgers.nodes if seen.node is not None)

    def _demand_ahead(self, event: OffsetCommitted, partition: TopicPartition) -> None:
        """A member's own commits may overtake each other on two connections; another's never go back behind them.

        The next owner begins where the last of them has left the group, be it too low (Kafka does so too).
        """
        if event.topic in self._ledgers.renewed:
            return
        key = (event.group_id, event.topic, event.partition)
        latest = self._latest.get(key)
        self.count(COMMIT_NEVER_REWINDS)
        if latest is not None and event.topic_id != latest[2]:
            self._confirmed.pop(key, None)
            latest = None
        if latest is None or event.offset >= latest[0] or event.member_id == latest[1]:
            self._latest[key] = (event.offset, event.member_id, event.topic_id)
        else:
            self.broken(
                COMMIT_NEVER_REWINDS,
                f"{event.group_id}: {event.member_id} commits {partition}@{event.offset}, and {latest[1]} had "
                f"committed {latest[0]}",
            )

    def _forgotten(self, _: GroupLedger, event: OffsetDeleted, __: Shard) -> None:
        self._drop((event.group_id, event.topic, event.partition))

    def _drop(self, key: tuple[str, str, int]) -> None:
        self._latest.pop(key, None)
        self._confirmed.pop(key, None)


QUIET_US = 20_000_000
"""So long before a close and until its end no fault may have touched the member: a connection may be half open."""

RESTORED_US = 3_000_000
"""So long before it the cluster must have been well."""


@dataclass(slots=True)
class Closing:
    """One member that is being closed. `topic_ids` are those of its finished partitions then."""

    member: SeenMember
    identity: Identity
    finished: dict[TopicPartition, int]
    topic_ids: dict[str, bytes]
    began_us: int
    has_left: bool = False
    """Whether the log has its removal."""
    is_in_doubt: bool = False
    """Whether it was not certain at some moment that its commit would be accepted."""


class ClosingChecker(Checker):
    """CloseKeepsWork."""

    invariants = (CLOSE_KEEPS_WORK,)

    def __init__(self, ledgers: Ledgers, faults: FaultsSeen) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._faults = faults
        self._closings: dict[str, Closing] = {}
        """By the member's name."""

    def closing(self, member: SeenMember, finished: Mapping[TopicPartition, int]) -> None:
        """Remember what the member owes, if its commit would be taken now."""
        if not finished or member.group_id not in self._ledgers.shards or member.identity.generation < 0:
            return
        topics = sorted({partition.topic for partition in finished})
        ids = {name: self._ledgers.topic_id(member.group_id, name) for name in topics}
        topic_ids = {name: topic_id for name, topic_id in ids.items() if topic_id != NO_TOPIC_ID}
        owed = {partition: offset for partition, offset in finished.items() if partition.topic in topic_ids}
        closing = Closing(member, member.identity, owed, topic_ids, self.now_us)
        if self._is_taken(self._ledgers.groups[member.group_id], closing):
            self._closings[member.name] = closing

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """See whether the log still allows the commits of those who are being closed."""
        for closing in self._closings.values():
            if closing.member.group_id != event.group_id or closing.has_left:
                continue
            ledger = self._ledgers.groups[event.group_id]
            member_id = closing.identity.member_id
            if ledger.is_out(member_id) and member_id not in ledger.left_behind:
                closing.has_left = True
            elif not self._is_taken(ledger, closing):
                closing.is_in_doubt = True

    def _is_taken(self, ledger: GroupLedger, closing: Closing) -> bool:
        epoch, member_id = closing.identity
        places = [(closing.topic_ids[topic], number) for topic, number in closing.finished]
        return not ledger.is_out(member_id) and all(
            ledger.why_no_commit(member_id, epoch, place) is None for place in places
        )

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        """A callback that raises has not committed."""
        if error is not None and (closing := self._closings.get(member.name)) is not None:
            closing.is_in_doubt = True

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Compare what was finished with what is committed."""
        closing = self._closings.pop(member.name, None)
        if closing is None or how != "closed" or closing.is_in_doubt or self._is_excused(closing):
            return
        ledger = self._ledgers.groups[member.group_id]
        for partition, offset in closing.finished.items():
            self.count(CLOSE_KEEPS_WORK)
            committed = ledger.committed(*partition, closing.topic_ids[partition.topic])
            if committed < offset:
                self.broken(
                    CLOSE_KEEPS_WORK,
                    f"{member.name} ({closing.identity.member_id}, {closing.identity.generation}) was closed when it "
                    f"had finished {partition} up to {offset}, and {committed} is committed: the rest is read again",
                )

    def _is_excused(self, closing: Closing) -> bool:
        since_us = closing.began_us - QUIET_US
        faults, member = self._faults, closing.member
        return (
            faults.is_cluster_disturbed(closing.began_us - RESTORED_US)
            or faults.is_member_disturbed(member.name, since_us)
            or any(faults.is_topic_changed(topic, since_us) for topic in closing.topic_ids)
        )
