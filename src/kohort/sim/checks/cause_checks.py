"""What `explain` reports, compared with what the world did, which closed, killed or cut off members and knows why.

In the end the events that the broker has written are read and explained as `kohort explain` does it. Members are known
by their ids, of which each process has its own. Timeouts are judged in worlds without faults of brokers, disks and
the network; who owns what in the end, where no event was lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, GroupReport, Outcome, Rebalance, ReportedCause
from kohort.log.group_replay import records_of
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import EVENT_TOPIC, TopicPartition
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.fault_history import NEVER, FaultsSeen
from kohort.sim.checks.group_ledger import Ledgers, undisturbed
from kohort.sim.checks.invariants import CAUSES_ARE_TRUE
from kohort.sim.kernel.world_observer import SeenMember, SeenNode


@dataclass(slots=True)
class Life:
    """One process of a member: what happened to it, and its reasons."""

    name: str
    is_static: bool
    is_closing: bool = False
    """Whether its user has closed it."""
    is_expired: bool = False
    """Whether its user did not poll in time."""
    how: str = ""
    """How it ended, while it runs empty."""
    reasons: set[str] = field(default_factory=set)
    """Why it has joined, in the words of its requests."""


class CauseChecker(Checker):
    """CausesAreTrue."""

    invariants = (CAUSES_ARE_TRUE,)

    def __init__(self, ledgers: Ledgers, faults: FaultsSeen) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._faults = faults
        self._lives: dict[str, Life] = {}
        """By the member's name, the process that runs or ran last."""
        self._by_id: dict[str, Life] = {}
        self._topics: dict[str, frozenset[str]] = {}
        """By name, the topics that it named last."""
        self._wishes: Counter[str] = Counter()
        """By name, how often it has named others."""
        self._expelled: set[str] = set()
        self._changed_topics = False
        self._loads = 0
        """How often a coordinator began anew from its log."""

    # -- what the world does

    def fault(self, name: str, subject: str, detail: str) -> None:
        """Note what an operator does to members and topics."""
        if name == "expel":
            self._expelled.add(subject)
        elif name == "subscribe":
            self._wishes[subject] += 1
        elif name in ("grow topic", "delete topic", "recreate topic"):
            self._changed_topics = True

    def member_started(self, member: SeenMember) -> None:
        self._lives[member.name] = Life(member.name, member.instance_id is not None)
        self._wishes[member.name] += member.instance_id is not None

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """Count the load: members repeat what had not been stored."""
        self._loads += 1

    def member_ended(self, member: SeenMember, how: str) -> None:
        self._lives[member.name].how = how

    def subscribed(self, member: SeenMember, topics: tuple[str, ...]) -> None:
        """Count how often it names other topics than before."""
        named = frozenset(topics)
        if self._topics.setdefault(member.name, named) != named:
            self._topics[member.name] = named
            self._wishes[member.name] += 1

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        """Its user closes it."""
        life = self._lives[member.name]
        life.is_closing = life.is_closing or state in ("leaving", "prepare_leaving")

    def poll_missed(self, member: SeenMember, is_leaving: bool) -> None:
        """Its user does not come back."""
        self._lives[member.name].is_expired = True

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Note under which ids it is known, and why it joins or leaves."""
        if request == "Heartbeat":
            return
        life = self._lives[member.name]
        if member_id := member.identity.member_id:
            self._by_id[member_id] = life
        if request == "JoinGroup":
            life.reasons.add(detail.partition(": ")[2])

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """Note an id that it was given."""
        if request == "JoinGroup" and (member_id := _given(detail)):
            self._by_id[member_id] = self._lives[member.name]

    # -- what explain reports

    def ended(self) -> None:
        """Explain each group and compare."""
        for node in self._ledgers.nodes:
            events = list(_events_of(node))
            groups = sorted({str(event.get("group")) for event in events})
            for group_id in groups:
                explanation = Explanation(group_id, keeps_events=False)
                for event in events:
                    explanation.fold(event)
                self._judge(group_id, explanation.report(max(int(event.get("at_ms", 0)) for event in events)))

    def _judge(self, group_id: str, report: GroupReport) -> None:
        wishes: Counter[str] = Counter()
        for rebalance in report.rebalances:
            for cause in _causes_of(rebalance):
                self.count(CAUSES_ARE_TRUE)
                name = self._name_of(cause.member_id, report)
                if cause.kind == CauseKind.SUBSCRIPTION_CHANGED:
                    wishes[name] += 1
                if lie := self._lie(cause, name):
                    self._lies(group_id, rebalance, lie)
            self._judge_times(group_id, rebalance)
        # A static member may come back as another program; after a failover it repeats what was lost.
        for name, times in sorted(wishes.items()):
            named = self._wishes[name] * (1 + self._loads)
            if name and times > named:
                text = f"{name} may have named other topics {named} times, and explain reports it {times} times"
                self.broken(CAUSES_ARE_TRUE, f"{group_id}: {text}")
        if not self._faults.is_cluster_disturbed(NEVER + 1) and report.running is None:
            self._judge_owners(group_id, report)

    def _lie(self, cause: ReportedCause, name: str) -> str | None:
        """Return what is untrue about a cause, or None."""
        life = self._by_id.get(cause.member_id or "")
        judge = _JUDGES.get(cause.kind)
        if life is None or judge is None:
            return None
        is_calm = not (
            self._faults.is_slow
            or self._faults.is_cluster_disturbed(NEVER + 1)
            or self._faults.is_member_disturbed(name, NEVER + 1)
        )
        return judge(self, life, cause, is_calm)

    def _left(self, life: Life, cause: ReportedCause, _: bool) -> str | None:
        is_ending = life.is_closing or life.is_expired or life.how.startswith("failed") or life.name in self._expelled
        return None if is_ending else f"{life.name} left ({cause.detail}), and it was neither closed nor expired"

    def _removed(self, life: Life, _: ReportedCause, __: bool) -> str | None:
        return None if life.name in self._expelled else f"{life.name} was removed, and no operator has done that"

    def _timed_out(self, life: Life, cause: ReportedCause, is_calm: bool) -> str | None:
        # A static member that is closed, or whose user does not poll, sends no LeaveGroup.
        is_well = not life.how and not life.is_expired if life.is_static else life.how in ("", "closed")
        return f"{life.name} was evicted ({cause.detail}), and it was well" if is_calm and is_well else None

    def _joined_again(self, life: Life, cause: ReportedCause, _: bool) -> str | None:
        if not cause.detail or cause.detail in life.reasons:
            return None
        return f"{life.name} joined again ({cause.detail}), and its reasons were {sorted(life.reasons)}"

    def _topics_changed(self, life: Life, cause: ReportedCause, is_calm: bool) -> str | None:
        if self._changed_topics or not is_calm:
            return None
        return f"topics changed ({cause.detail}), as {life.name} saw, and no operator has changed any"

    def _judge_times(self, group_id: str, rebalance: Rebalance) -> None:
        """A second of a partition is counted once, whether it had no owner or its owner did nothing."""
        spans: dict[TopicPartition, list[tuple[int, int]]] = {}
        for gap in (*rebalance.gaps, *rebalance.silences):
            spans.setdefault(gap.partition, []).append((gap.from_ms, gap.until_ms))
        for partition, times in spans.items():
            self.count(CAUSES_ARE_TRUE)
            times.sort()
            for (_, before_ms), (since_ms, _) in pairwise(times):
                if since_ms < before_ms:
                    self._lies(group_id, rebalance, f"{before_ms - since_ms} ms of {partition} are counted twice")

    def _judge_owners(self, group_id: str, report: GroupReport) -> None:
        """What the last rebalance moved, and what is owned now, has the owners that it names.

        A member drops partitions of a deleted topic by itself: the group need not learn of it.
        """
        ledger = self._ledgers.groups[group_id]
        owners = {
            partition: member.identity.member_id
            for name, member in sorted(self._ledgers.members.items())
            if member.group_id == group_id and not ledger.is_out(member.identity.member_id)
            for partition in self._ledgers.owned.get(name, frozenset())
        }
        last = report.rebalances[-1] if report.rebalances else None
        if last is None or last.outcome is not Outcome.STABLE or last.is_partial or not owners:
            return
        self.count(CAUSES_ARE_TRUE)
        for move in last.moves:
            taker = owners.get(move.partition)
            if move.taker != taker and (taker is not None or self._exists(move.partition)):
                text = f"{move.partition} went from {move.giver} to {move.taker}, and {taker} has it"
                self._lies(group_id, last, text)
        reported = {each: owner for each, owner in report.owners.items() if each in owners or self._exists(each)}
        if wrong := sorted(each for each in owners.keys() | reported.keys() if owners.get(each) != reported.get(each)):
            text = f"{wrong[0]} is owned by {reported.get(wrong[0])}, and {owners.get(wrong[0])} acts on it"
            self._lies(group_id, last, text)

    def _exists(self, partition: TopicPartition) -> bool:
        topics = [seen.node.topics.get(partition.topic) for seen in self._ledgers.nodes if seen.node is not None]
        return any(topic is not None and partition.partition < len(topic.partitions) for topic in topics)

    def _name_of(self, member_id: str | None, report: GroupReport) -> str:
        life = self._by_id.get(member_id or "")
        if life is not None:
            return life.name
        identity = report.identities.get(member_id or "")  # the answer with the id never arrived
        return identity.client_id if identity is not None and identity.client_id in self._lives else ""

    def _lies(self, group_id: str, rebalance: Rebalance, text: str) -> None:
        self.broken(CAUSES_ARE_TRUE, f"{group_id}: explain reports of rebalance {rebalance.number}: {text}")


_JUDGES: dict[str, Callable[[CauseChecker, Life, ReportedCause, bool], str | None]] = {
    CauseKind.MEMBER_LEFT: CauseChecker._left,
    CauseKind.MEMBER_REMOVED: CauseChecker._removed,
    CauseKind.SESSION_TIMEOUT: CauseChecker._timed_out,
    CauseKind.LEADER_REJOINED: CauseChecker._joined_again,
    CauseKind.MEMBER_REJOINED: CauseChecker._joined_again,
    CauseKind.TOPIC_METADATA_CHANGED: CauseChecker._topics_changed,
}


def _causes_of(rebalance: Rebalance) -> Iterator[ReportedCause]:
    for each in rebalance.rounds:
        yield each.cause
    for epoch in rebalance.epochs:
        yield epoch.cause
    if not rebalance.rounds and not rebalance.epochs:
        yield rebalance.cause
    for departure in rebalance.departures:
        yield departure.cause


def _given(detail: str) -> str:
    """Return the member id in the detail of a JoinGroup response."""
    return detail.partition(" as ")[2].partition(" in generation ")[0]


def _events_of(node: SeenNode) -> Iterator[EventFields]:
    """Yield what a node has written about its groups."""
    topic = None if node.node is None else node.node.topics.get(EVENT_TOPIC)
    if topic is None:
        return
    with undisturbed(node):
        for record in records_of(topic.partitions[0].log):
            yield json.loads(record.value or b"{}")
