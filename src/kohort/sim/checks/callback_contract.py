"""What a listener and an assignor may rely on around a rebalance (KIP-429): a machine that refuses any other order.

`record` each step in it; it raises `ContractBroken` with the rule and the trace so far. The timelines:

EAGER        revoked (all, even nothing) → user_data → [assign] → on_assignment → assigned (all)
COOPERATIVE  [revoked (no longer wanted)] → user_data → [assign] → [revoked (to move)] → on_assignment → assigned (new,
             even nothing) → after a second revocation the next round at once;   lost (deleted) while nothing else runs
Either       lost (all, never nothing) in place of the first revocation, where generation or member id was taken away
The consumer protocol's timeline is `ConsumerContract`'s.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

from kohort.assign.spec import RebalanceProtocol
from kohort.member import effects, inputs
from kohort.member.classic_member import ClassicMember
from kohort.member.consumer_member import ConsumerMember
from kohort.member.effects import Callback, ConsumerHeartbeat, Effect
from kohort.member.member_state import State
from kohort.model.assignment import IdPartitions, Partitions, each
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class Act(StrEnum):
    """What can happen. The first block are calls, the second facts that only a driver of the member knows."""

    REVOKED = "revoked"
    LOST = "lost"
    ASSIGNED = "assigned"
    DONE = "done"
    ABANDONED = "abandoned"
    USER_DATA = "user_data"
    ASSIGN = "assign"
    ON_ASSIGNMENT = "on_assignment"

    UNWANTED = "unwanted"
    GONE = "gone"
    SYNCED = "synced"
    DROPPED = "dropped"
    OUT = "out"
    CLOSING = "closing"
    ENDED = "ended"
    CLAIMED = "claimed"


class ContractAct(NamedTuple):
    """One step of a trace.

    `partitions` are those of the callback or assignment; with `user_data` and `claimed` what is claimed to be owned;
    with `unwanted` and `gone` those owned partitions whose topics are no longer subscribed to, or no longer exist.
    """

    act: Act
    partitions: Partitions = frozenset()

    def __str__(self) -> str:
        names = ", ".join(map(str, sorted(self.partitions)))
        return f"{self.act}({names})"


class _Phase(StrEnum):
    """Where a round is."""

    IDLE = "idle"
    PREPARED = "prepared"  # revoked or lost, not yet joined
    JOINED = "joined"  # user_data was asked for
    SYNCED = "synced"  # the assignment has arrived
    MOVING = "moving"  # what it leaves out was revoked
    ACCEPTED = "accepted"  # on_assignment was called


class ContractBroken(AssertionError):
    """A call that a listener or an assignor may rely on not to happen here."""


class Contract:
    """One member's timeline. With `sees_facts` the facts must be recorded too, and more rules can be checked."""

    def __init__(self, protocol: RebalanceProtocol | Literal["consumer"], *, sees_facts: bool = True) -> None:
        self.protocol = protocol
        self.phase = _Phase.IDLE
        self.owned: Partitions = frozenset()
        self.running: ContractAct | None = None
        self.is_second_round_due = False
        self.trace: list[ContractAct] = []
        self._sees_facts = sees_facts
        self._assigned: Partitions = frozenset()
        self._moved: Partitions = frozenset()
        self._unwanted: Partitions = frozenset()
        self._gone: Partitions = frozenset()
        self._before = _Phase.IDLE
        self._is_member = False
        self._is_out = False
        self._is_closing = False

    def record(self, act: Act, partitions: Partitions = frozenset()) -> None:
        """Take the next step. Raises `ContractBroken`."""
        step = ContractAct(act, partitions)
        if partitions or act not in (Act.UNWANTED, Act.GONE):
            self.trace.append(step)
        match act:
            case Act.REVOKED | Act.LOST | Act.ASSIGNED:
                self._demand(self.running is None, "callbacks run one at a time")
                self._before = self.phase
                {Act.REVOKED: self._revoke, Act.LOST: self._lose, Act.ASSIGNED: self._assign}[act](partitions)
                self.running = step
            case Act.DONE | Act.ABANDONED:
                self._finish(is_abandoned=act is Act.ABANDONED)
            case Act.USER_DATA:
                self._join(partitions)
            case Act.ASSIGN:
                self._demand(self.phase is _Phase.JOINED, "assign is called between JoinGroup and SyncGroup")
            case Act.ON_ASSIGNMENT:
                self._accept(partitions)
            case _:
                self._learn(act, partitions)

    # Callbacks

    def _demand_revocable(self, partitions: Partitions) -> None:
        self._demand(partitions <= self.owned, "only what is owned can be revoked")
        self._demand(not self._is_out, "a fenced member loses its partitions: there is nothing to revoke")
        is_all = partitions == self.owned or not self._is_closing
        self._demand(is_all, "closing gives up all that is owned")

    def _demand_losable(self, partitions: Partitions) -> None:
        self._demand(bool(partitions), "lost is never called with nothing")
        self._demand(partitions <= self.owned, "only what is owned can be lost")
        is_all = partitions == self.owned or not (self._is_out or self._is_closing)
        self._demand(is_all, "a fenced member loses all that it owned")

    def _revoke(self, partitions: Partitions) -> None:
        self._demand_revocable(partitions)
        if self._is_closing:
            return
        if self.protocol is RebalanceProtocol.EAGER:
            is_again = self.phase is _Phase.JOINED and not self._sees_facts
            self._demand(self.phase is _Phase.IDLE or is_again, "EAGER revokes once, before JoinGroup")
            self._demand(partitions == self.owned, "EAGER revokes all that is owned")
            self.phase = _Phase.PREPARED
        else:
            self._demand(bool(partitions), "COOPERATIVE does not call revoked with nothing")
            # Again, where the subscription has changed since.
            is_again = self.phase in (_Phase.PREPARED, _Phase.JOINED) and self._sees_facts
            if self.phase is _Phase.IDLE or is_again:
                is_allowed = not self._sees_facts or partitions == self._unwanted
                self._demand(is_allowed, "before JoinGroup COOPERATIVE revokes just what is no longer subscribed to")
                self.phase = _Phase.PREPARED
            else:
                is_allowed = self.phase in (_Phase.SYNCED, _Phase.JOINED)
                self._demand(is_allowed, "COOPERATIVE revokes before JoinGroup or after SyncGroup")
                is_exact = not self._sees_facts or partitions == self.owned - self._assigned
                self._demand(is_exact, "after SyncGroup COOPERATIVE revokes just what the assignment leaves out")
                self.phase = _Phase.MOVING
                self._moved = partitions
                self.is_second_round_due = True

    def _lose(self, partitions: Partitions) -> None:
        self._demand_losable(partitions)
        is_over = self._is_out or self._is_closing
        if self.protocol is RebalanceProtocol.EAGER and not is_over:
            self._demand(not self._sees_facts and partitions == self.owned, "EAGER loses all, when it was fenced")
        elif self._sees_facts and not is_over:
            self._demand(partitions <= self._gone, "a member of the group loses only what no longer exists")
            is_outside = self.phase in (_Phase.IDLE, _Phase.PREPARED, _Phase.JOINED)
            self._demand(is_outside, "nothing is lost between an assignment and its assigned")
        if partitions == self.owned:
            self.phase = _Phase.IDLE
            self.is_second_round_due = False

    def _assign(self, partitions: Partitions) -> None:
        self._demand(not self._is_closing, "nothing is assigned to a member that is closing")
        self._demand(self.phase is _Phase.ACCEPTED, "assigned follows on_assignment")
        self._demand(not partitions & self.owned, "assigned names what was not owned before")
        self._demand(not partitions & self._moved, "what was just revoked comes back in the next round at the earliest")
        self._demand(partitions == self._assigned - self.owned, "assigned names all that is new in the assignment")

    def _finish(self, *, is_abandoned: bool) -> None:
        self._demand(self.running is not None, "a callback is over once")
        assert self.running is not None
        act, partitions = self.running
        self.running = None
        if act is Act.ASSIGNED:
            self.owned |= partitions
            if self.phase is _Phase.ACCEPTED:
                self.phase = _Phase.IDLE
                self._is_member = True
        elif is_abandoned:
            if self.phase in (_Phase.PREPARED, _Phase.MOVING):
                self.phase = self._before
        else:
            self.owned -= partitions
        if not self.owned and not is_abandoned:
            self._is_out = False
        self._unwanted &= self.owned
        self._moved = self._moved if self.phase is _Phase.MOVING else frozenset()

    # Requests and the assignor

    def _join(self, claimed: Partitions) -> None:
        self._demand(self.running is None, "no JoinGroup leaves while a callback runs")
        self._demand(not self._is_closing, "a member that is closing joins no more")
        self._demand(claimed == self.owned, "a subscription claims exactly what is owned")
        if self.protocol is RebalanceProtocol.EAGER:
            self._demand(not self.owned, "EAGER joins with empty hands")
            is_revoked = self.phase in (_Phase.PREPARED, _Phase.JOINED) or not self._is_member or not self._sees_facts
            self._demand(is_revoked, "EAGER calls revoked before every round, even with nothing")
        allowed = {_Phase.IDLE, _Phase.PREPARED, _Phase.JOINED}
        self._demand(
            self.phase in allowed or (self.phase is _Phase.MOVING and not self._sees_facts),
            "a round that has its assignment ends with assigned before the next one begins",
        )
        # Java's consumer prepares a round once: when JoinGroup is repeated, its assignment takes such partitions away.
        is_repeated = self.phase is _Phase.JOINED
        self._demand(is_repeated or not self._unwanted, "what is no longer subscribed to is revoked before JoinGroup")
        self._demand(not (self._is_out and self.owned), "what was lost is reported before JoinGroup")
        self.phase = _Phase.JOINED
        self.is_second_round_due = False
        self._moved = frozenset()

    def _accept(self, assigned: Partitions) -> None:
        self._demand(self.running is None, "on_assignment waits until the revocation has finished")
        waiting = {_Phase.SYNCED, _Phase.MOVING} if self._sees_facts else {_Phase.JOINED, _Phase.MOVING}
        self._demand(self.phase in waiting, "on_assignment follows SyncGroup, and all that is revoked")
        self._demand(self.owned <= assigned, "what the assignment leaves out is revoked before on_assignment")
        is_same = not self._sees_facts or assigned == self._assigned
        self._demand(is_same, "on_assignment is called with the assignment that SyncGroup brought")
        self._assigned = assigned
        self.phase = _Phase.ACCEPTED

    # Facts

    def _learn(self, act: Act, partitions: Partitions) -> None:
        match act:
            case Act.UNWANTED:
                self._unwanted = partitions & self.owned
            case Act.GONE:
                self._gone = partitions
            case Act.SYNCED:
                self._demand(self.phase is _Phase.JOINED, "an assignment answers a JoinGroup and its SyncGroup")
                self._assigned = partitions
                self.phase = _Phase.SYNCED
                self._is_member = True
            case Act.DROPPED:
                self.phase = _Phase.IDLE
                self._is_member = True
            case Act.OUT:
                self._is_out = bool(self.owned) or self.running is not None
                self._is_member = False
                self.is_second_round_due = False
                self.phase = _Phase.IDLE
            case Act.CLOSING:
                self._is_closing = True
            case _:
                self._demand(self.running is None, "a member ends when its last callback has finished")
                self._demand(not self.owned, "a member that ends owns nothing")

    def _demand(self, is_met: bool, rule: str) -> None:
        if not is_met:
            steps = " → ".join(map(str, self.trace[-12:]))
            raise ContractBroken(f"{rule} ({self.protocol}, {self.phase}): {steps}")


class ConsumerContract(Contract):
    """One member's timeline in the consumer protocol; the facts must be recorded too."""

    def __init__(self) -> None:
        super().__init__("consumer")

    def _revoke(self, partitions: Partitions) -> None:
        self._demand(bool(partitions), "the consumer protocol does not call revoked with nothing")
        self._demand_revocable(partitions)
        self._demand(self._is_closing or not self._moved, "a reconciliation revokes once")
        self._moved = partitions
        self.phase = _Phase.PREPARED

    def _lose(self, partitions: Partitions) -> None:
        self._demand_losable(partitions)
        if not (self._is_out or self._is_closing):
            self._demand(partitions <= self._gone, "a member of the group loses only what no longer exists")
            self._demand(self.phase is _Phase.IDLE, "what was deleted is lost before anything is revoked")
            self.phase = _Phase.PREPARED

    def _assign(self, partitions: Partitions) -> None:
        self._demand(not self._is_closing, "nothing is assigned to a member that is closing")
        self._demand(not self._is_out, "nothing is assigned to a fenced member that has not joined again")
        self._demand(not partitions & self.owned, "assigned names what was not owned before")
        self.phase = _Phase.ACCEPTED

    def _finish(self, *, is_abandoned: bool) -> None:
        super()._finish(is_abandoned=is_abandoned)
        if self.phase is _Phase.IDLE or is_abandoned:
            self._moved = frozenset()

    def _join(self, claimed: Partitions) -> None:
        self._demand(self.running is None, "who joins again has no callback running")
        self._demand(not self.owned and not claimed, "who joins owns nothing, and claims nothing")
        self._demand(not self._is_closing, "a member that is closing joins no more")
        self._is_out = False
        self.phase = _Phase.IDLE

    def _learn(self, act: Act, partitions: Partitions) -> None:
        if act is not Act.CLAIMED:
            super()._learn(act, partitions)
            if act is Act.OUT:
                self._moved = frozenset()
            return
        self._demand(self.owned <= partitions, "what is owned is claimed")
        if self.phase is _Phase.IDLE and self.running is None:
            self._demand(self.owned == partitions, "what is claimed is owned, once a reconciliation has ended")


_CALLBACKS = {Callback.REVOKED: Act.REVOKED, Callback.LOST: Act.LOST, Callback.ASSIGNED: Act.ASSIGNED}
_WAITS_FOR: dict[type, State] = {inputs.JoinAnswered: State.JOINING, inputs.SyncAnswered: State.SYNCING}


class ContractChecker:
    """Drives `member` and follows `contract`: each input and effect is recorded, and an illegal one raises."""

    def __init__(self, member: ClassicMember) -> None:
        self.member = member
        self.contract = Contract(member.protocol)

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Let the member take an input, and check what it asks for. Raises `ContractBroken`."""
        member, contract = self.member, self.contract
        state, identity = member.state, member.identity
        asked = member.step(event, now_ms)
        is_awaited = (
            state is _WAITS_FOR.get(type(event))
            and isinstance(event, inputs.JoinAnswered | inputs.SyncAnswered)
            and event.asked_as == identity
        )
        self._record_fact(event, is_awaited=is_awaited)
        late = asked
        if identity.is_valid and not member.identity.is_valid and state is not State.LEAVING:
            # After a pause an answer may be taken in the step in which its member's time is up: it came first.
            before = next((at for at, one in enumerate(asked) if not is_awaited or not _is_of_answer(one)), len(asked))
            for effect in asked[:before]:
                self._record_effect(effect)
            contract.record(Act.OUT)
            late = asked[before:]
        for effect in late:
            self._record_effect(effect)
        if contract.owned - _wanted(contract.owned, member.topics):
            contract.record(Act.UNWANTED, contract.owned - _wanted(contract.owned, member.topics))
        is_idle = member.state is State.STABLE and member.running is None
        if contract.is_second_round_due and is_idle:
            raise ContractBroken("who revoked for another member joins again at once")
        return asked

    def _record_fact(self, event: inputs.Input, *, is_awaited: bool) -> None:
        contract = self.contract
        match event:
            case inputs.Subscribed(topics):
                contract.record(Act.UNWANTED, contract.owned - _wanted(contract.owned, topics))
            case inputs.MetadataChanged() | inputs.Computed():
                contract.record(Act.GONE, self._gone())
            case inputs.CallbackFinished(callback, is_abandoned):
                if contract.running is not None and contract.running.act is _CALLBACKS[callback]:
                    contract.record(Act.ABANDONED if is_abandoned else Act.DONE)
                    contract.record(Act.UNWANTED, contract.owned - _wanted(contract.owned, self.member.topics))
                    contract.record(Act.GONE, self._gone())
            case inputs.SyncAnswered(error=ErrorCode.NONE) if is_awaited:
                assigned = event.assignment.partitions
                is_wanted = assigned == _wanted(assigned, self.member.topics)
                contract.record(Act.SYNCED if is_wanted else Act.DROPPED, assigned)
            case inputs.CloseRequested():
                contract.record(Act.CLOSING)

    def _record_effect(self, effect: Effect) -> None:
        contract = self.contract
        match effect:
            case effects.RunCallback(callback, partitions):
                contract.record(_CALLBACKS[callback], partitions)
            case effects.Join():
                contract.record(Act.USER_DATA, frozenset(effect.protocols[0][1].owned))
            case effects.Compute(skip=False):
                contract.record(Act.ASSIGN)
            case effects.OnAssignment(_, assignment):
                contract.record(Act.ON_ASSIGNMENT, assignment.partitions)
            case effects.Ended():
                contract.record(Act.ENDED)

    def _gone(self) -> Partitions:
        member = self.member
        return frozenset(
            owned
            for owned in self.contract.owned
            if owned.topic in member.gone_topics | member.absent_topics
            or (owned.topic in member.metadata and owned.partition >= member.metadata[owned.topic].partitions)
        )


def _is_of_answer(effect: Effect) -> bool:
    """Whether an effect takes over an assignment, or makes one as the leader."""
    if isinstance(effect, effects.RunCallback):
        return effect.callback is effects.Callback.ASSIGNED
    return isinstance(effect, effects.OnAssignment | effects.Compute)


class ConsumerContractChecker:
    """Drives a member of the consumer protocol and follows its contract."""

    def __init__(self, member: ConsumerMember) -> None:
        self.member = member
        self.contract = ConsumerContract()
        self._names: dict[bytes, str] = {}

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Let the member take an input, and check what it asks for. Raises `ContractBroken`."""
        member, contract = self.member, self.contract
        was_in_group = member.epoch > 0
        if isinstance(event, inputs.CallbackFinished) and contract.running is not None:
            if contract.running.act is _CALLBACKS[event.callback]:
                contract.record(Act.ABANDONED if event.is_abandoned else Act.DONE)
        elif isinstance(event, inputs.CloseRequested):
            contract.record(Act.CLOSING)
        asked = member.step(event, now_ms)
        self._names |= member.names
        if was_in_group and member.epoch == 0:
            contract.record(Act.OUT)
        gone = frozenset(each for each in contract.owned if member.topic_ids.get(each.topic) in member.gone)
        contract.record(Act.GONE, gone)
        for effect in asked:
            match effect:
                case effects.RunCallback(callback, partitions):
                    contract.record(_CALLBACKS[callback], partitions)
                case ConsumerHeartbeat(member_epoch=0):
                    contract.record(Act.USER_DATA)
                case ConsumerHeartbeat(owned=owned) if owned is not None:
                    contract.record(Act.CLAIMED, self._named(owned))
                case effects.Ended():
                    contract.record(Act.ENDED)
        return asked

    def _named(self, owned: IdPartitions) -> Partitions:
        return frozenset(TopicPartition(self._names[topic_id], partition) for topic_id, partition in each(owned))


def _wanted(partitions: Partitions, topics: tuple[str, ...]) -> Partitions:
    return frozenset(each for each in partitions if each.topic in topics)
