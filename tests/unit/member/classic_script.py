"""A classic member and a pen: what happens to it, in the order of a conversation, and what it asks for in return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.assign import RangeAssignor, TopicSpec
from kohort.assign.spec import Assignor, MemberSpec, RebalanceProtocol
from kohort.member import ClassicMember, Identity, MemberConfig, State, inputs
from kohort.member.effects import Callback, Effect, Heartbeat, Join, RunCallback
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.sim.checks.callback_contract import ContractChecker

NONE = ErrorCode.NONE
TWO = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


def partitions(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Cooperative(RangeAssignor):
    """Names the protocol; what is assigned is the test's to say."""

    name = "cooperative"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)


class Script:
    """One member under a clock that only the test moves, and under the contract of listeners and assignors."""

    def __init__(self, config: MemberConfig | None = None, assignors: Sequence[Assignor] = (RangeAssignor(),)) -> None:
        self.member = ClassicMember(config or MemberConfig(), assignors, random=lambda: 0.5)
        self.witness = ContractChecker(self.member)
        self.now_ms = 1_000_000
        self.asked: list[Effect] = []
        self.protocol_name = next(iter(assignors)).name

    def take(self, event: inputs.Input) -> list[Effect]:
        """Let something happen; return what the member asks for."""
        effects = list(self.witness.step(event, self.now_ms))
        self.asked += effects
        return effects

    def wait(self, ms: int) -> list[Effect]:
        """Let time pass, tick by tick as the member asked to be woken."""
        effects: list[Effect] = []
        until_ms = self.now_ms + ms
        while (deadline_ms := self.member.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            woken = self.take(inputs.Tick())
            effects += woken
            assert woken or self.member.next_deadline_ms() != deadline_ms, "the member asks to be woken for nothing"
        self.now_ms = until_ms
        return effects + self.take(inputs.Tick())

    def subscribe(self, *topics: str) -> list[Effect]:
        return self.take(inputs.Subscribed(topics))

    def joined(
        self,
        generation: int,
        member_id: str = "m",
        leader: str = "other",
        members: dict[str, MemberSpec] | None = None,
        *,
        is_skip: bool = False,
    ) -> list[Effect]:
        """The coordinator answers JoinGroup with a generation."""
        answer = inputs.JoinAnswered(
            self.member.identity, NONE, generation, member_id, leader, self.protocol_name, members or {}, is_skip
        )
        return self.take(answer)

    def join_failed(self, error: ErrorCode, member_id: str = "") -> list[Effect]:
        return self.take(inputs.JoinAnswered(self.member.identity, error, member_id=member_id))

    def synced(self, assigned: Iterable[TopicPartition]) -> list[Effect]:
        """The coordinator answers SyncGroup with an assignment, and the heartbeat that follows at once."""
        asked = self.take(inputs.SyncAnswered(self.member.identity, NONE, Assignment(frozenset(assigned))))
        beats = [effect for effect in asked if isinstance(effect, Heartbeat)]
        if beats:
            self.heartbeat_answered(asked_as=beats[0].identity)
        return [effect for effect in asked if effect not in beats]

    def sync_failed(self, error: ErrorCode) -> list[Effect]:
        return self.take(inputs.SyncAnswered(self.member.identity, error))

    def heartbeat_answered(self, error: ErrorCode = NONE, asked_as: Identity | None = None) -> list[Effect]:
        return self.take(inputs.HeartbeatAnswered(asked_as or self.member.identity, error))

    def commit_answered(self, error: ErrorCode, asked_as: Identity | None = None) -> list[Effect]:
        return self.take(inputs.CommitAnswered(asked_as or self.member.identity, error))

    def finished(self, callback: Callback) -> list[Effect]:
        """The listener's callback returns."""
        return self.take(inputs.CallbackFinished(callback))

    def callbacks(self) -> list[tuple[Callback, frozenset[TopicPartition]]]:
        """Return every callback asked for so far."""
        return [(effect.callback, effect.partitions) for effect in self.asked if isinstance(effect, RunCallback)]

    def forget(self) -> None:
        """Begin a fresh list of what was asked."""
        self.asked.clear()


def stable(
    config: MemberConfig | None = None,
    owned: frozenset[TopicPartition] = TWO,
    topics: tuple[str, ...] = ("t",),
    assignors: Sequence[Assignor] = (RangeAssignor(),),
) -> Script:
    """Return a follower `m` of generation 1 that owns these partitions."""
    script = Script(config, assignors)
    script.subscribe(*topics)
    script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m")
    script.joined(1)
    script.synced(owned)
    script.finished(Callback.ASSIGNED)
    assert script.member.state is State.STABLE
    assert script.member.owned == owned
    script.forget()
    return script


def cooperative(
    config: MemberConfig | None = None, owned: frozenset[TopicPartition] = TWO, topics: tuple[str, ...] = ("t",)
) -> Script:
    """Return a COOPERATIVE follower `m` of generation 1 that owns these partitions."""
    return stable(config, owned, topics, [Cooperative()])


def cooperative_leader() -> Script:
    """Return the COOPERATIVE leader `m` of generation 1, alone, that owns t-0 and t-1."""
    return stable_leader(assignors=[Cooperative()])


def stable_leader(
    topics: dict[str, TopicSpec] | None = None, assignors: Sequence[Assignor] = (RangeAssignor(),)
) -> Script:
    """Return the leader `m` of generation 1, alone, that owns t-0 and t-1."""
    script = Script(assignors=assignors)
    script.subscribe("t")
    script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m")
    script.joined(1, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    snapshot = topics if topics is not None else {"t": TopicSpec(2)}
    script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, snapshot))
    script.synced(TWO)
    script.finished(Callback.ASSIGNED)
    script.forget()
    return script


def joining_again() -> Script:
    """Return a member of generation 1 that has revoked and waits for JoinGroup's answer."""
    script = stable()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.finished(Callback.REVOKED)
    script.forget()
    return script


def loses_all(script: Script, asked: list[Effect], identity: Identity) -> None:
    """Expect that all is reported lost, and a JoinGroup under `identity` after that."""
    [lose] = asked
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (Callback.LOST, TWO)
    [join] = script.finished(Callback.LOST)
    assert isinstance(join, Join)
    assert join.identity == identity
    assert script.member.owned == frozenset()
