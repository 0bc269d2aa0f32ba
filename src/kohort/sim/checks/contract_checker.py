"""Checks a member against the callback contract: each input and effect is recorded, and an illegal one raises.

Stands where the member stands: `step` is the member's own. For tests and the simulator; it changes nothing.
"""

from __future__ import annotations

from kohort.member import effects, inputs
from kohort.member.classic_member import ClassicMember
from kohort.member.consumer_member import ConsumerMember
from kohort.member.effects import Callback, ConsumerHeartbeat, Effect
from kohort.member.member_state import State
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.id_partitions import IdPartitions, each
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_contract import Act, ConsumerContract, Contract, ContractBroken

_CALLBACKS = {Callback.REVOKED: Act.REVOKED, Callback.LOST: Act.LOST, Callback.ASSIGNED: Act.ASSIGNED}
_WAITS_FOR: dict[type, State] = {inputs.JoinAnswered: State.JOINING, inputs.SyncAnswered: State.SYNCING}


class ContractChecker:
    """Drives `member` and follows `contract`."""

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
