"""A member of the consumer protocol and a pen: what happens to it, and what it asks for in return."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.member import ConsumerMember, ConsumerState, MemberConfig, inputs
from kohort.member.effects import Callback, ConsumerHeartbeat, Effect, RunCallback
from kohort.member.inputs import ConsumerHeartbeatAnswered, LagsReported, TopicsSeen
from kohort.model.assignment import IdPartitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_contract import ConsumerContractChecker

NONE = ErrorCode.NONE
REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST
T, U, V, T_AGAIN = (letter * 16 for letter in (b"t", b"u", b"v", b"T"))
NAMES = {T: "t", U: "u"}
INTERVAL_MS = 5_000


def partitions(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def ids(*numbers: int, topic_id: bytes = T) -> IdPartitions:
    return ((topic_id, numbers),)


TWO = partitions(0, 1)


class Script:
    """One member under a clock that only the test moves, and under the contract of listeners."""

    def __init__(self, config: MemberConfig | None = None, names: Mapping[bytes, str] = NAMES) -> None:
        self.member = ConsumerMember(config or MemberConfig(max_poll_interval_ms=300_000), "m", random=lambda: 0.5)
        self.witness = ConsumerContractChecker(self.member)
        self.now_ms = 1_000_000
        self.asked: list[Effect] = []
        self.take(TopicsSeen(names))

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

    def subscribe(self, *topics: str, regex: str | None = None) -> list[Effect]:
        return self.take(inputs.Subscribed(topics, regex=regex, names=topics))

    def answered(self, epoch: int, assignment: IdPartitions | None = None, text: str | None = None) -> list[Effect]:
        """The coordinator answers the heartbeat under way."""
        assert self.member.in_flight is not None, "no heartbeat is under way"
        return self.take(ConsumerHeartbeatAnswered(self.member.in_flight, NONE, text, epoch, INTERVAL_MS, assignment))

    def refused(self, error: ErrorCode, text: str | None = None) -> list[Effect]:
        assert self.member.in_flight is not None, "no heartbeat is under way"
        return self.take(ConsumerHeartbeatAnswered(self.member.in_flight, error, text))

    def finished(self, callback: Callback, *, is_abandoned: bool = False) -> list[Effect]:
        """The listener's callback returns."""
        return self.take(inputs.CallbackFinished(callback, is_abandoned))

    def seen(self, names: Mapping[bytes, str], gone: frozenset[bytes] = frozenset()) -> list[Effect]:
        return self.take(TopicsSeen(names, gone))

    def lags(self, lags: Mapping[TopicPartition, int]) -> list[Effect]:
        return self.take(LagsReported(lags))

    def beat(self) -> ConsumerHeartbeat:
        """Wait for the next heartbeat by the interval."""
        return one_heartbeat(self.wait(INTERVAL_MS))

    def callbacks(self) -> list[tuple[Callback, frozenset[TopicPartition]]]:
        """Return every callback asked for so far."""
        return [(effect.callback, effect.partitions) for effect in self.asked if isinstance(effect, RunCallback)]

    def forget(self) -> None:
        """Begin a fresh list of what was asked."""
        self.asked.clear()


def one_heartbeat(asked: list[Effect]) -> ConsumerHeartbeat:
    """Return the only heartbeat among these."""
    [found] = [effect for effect in asked if isinstance(effect, ConsumerHeartbeat)]
    return found


def stable(
    config: MemberConfig | None = None, owned: IdPartitions = ((T, (0, 1)),), topics: tuple[str, ...] = ("t",)
) -> Script:
    """Return a member of epoch 1 that owns these partitions and has acknowledged them."""
    script = Script(config)
    script.subscribe(*topics)
    script.answered(1, owned)
    script.finished(ASSIGNED)
    script.answered(1)
    assert script.member.state is ConsumerState.STABLE
    script.forget()
    return script


def revoking(config: MemberConfig | None = None) -> Script:
    """Return a member that owns t-0 and t-1 and runs the callback that revokes t-1."""
    script = stable(config)
    script.beat()
    script.answered(1, ids(0))
    assert script.callbacks() == [(REVOKED, partitions(1))]
    script.forget()
    return script
