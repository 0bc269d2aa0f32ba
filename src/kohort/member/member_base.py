"""What a member of either group protocol has: its deadlines, its user, the callback that runs, what it asks for.

Plain state and the few steps that are the same for both, and the sentences that a user reads when its member cannot
continue. It decides nothing about a group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from kohort.member import effects, inputs
from kohort.member.deadlines import Session
from kohort.member.effects import Callback, Effect
from kohort.member.member_state import MemberConfig, PollState
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode


class MemberBase(ABC):
    """One member's place, whichever protocol it speaks there."""

    def __init__(self, config: MemberConfig, random: Callable[[], float]) -> None:
        self.config = config
        self.topics: tuple[str, ...] = ()
        self.owned: Partitions = frozenset()
        self.rebalances = 0
        self.session = Session(config, random)
        self.asked: list[Effect] = []
        self.running: tuple[Callback, Partitions] | None = None
        self.is_away = False
        self.closing: inputs.CloseRequested | None = None
        self.is_leave_sent = False
        self.is_closed = False
        """Whether the member has ended: nothing follows."""

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Take one input at `now_ms` (any monotonic clock) and return what must be done, in order."""
        if self.is_closed:
            return ()
        session = self.session
        match event:
            case inputs.PollEntered():
                self.is_away = False
                session.mark_poll_entered()
            case inputs.PollReturned():
                session.mark_poll_returned(now_ms)
            case _:
                # First, as by a tick on time: a process that was stopped takes an answer for a member that is out.
                self._watch_poll(now_ms)
                self._receive(event, now_ms)
        self._advance(now_ms)
        requested, self.asked = tuple(self.asked), []
        return requested

    def _watch_poll(self, now_ms: int) -> None:
        """See whether the user should have returned to `poll`."""
        session = self.session
        if session.poll_ms is not None and now_ms >= session.poll_ms:
            self._expire_poll()
        elif session.is_poll_late(now_ms):
            self.do(effects.PollLate(session.mark_poll_late(now_ms)))

    @abstractmethod
    def _receive(self, event: inputs.Input, now_ms: int) -> None:
        """Take an input that is not about the poll deadline."""

    @abstractmethod
    def _expire_poll(self) -> None:
        """Leave the group: the user did not return to `poll` in time."""

    @abstractmethod
    def _advance(self, now_ms: int) -> None:
        """Do what follows from where the member is now."""

    @property
    def poll_state(self) -> PollState:
        """Where the user is, as far as the poll deadline goes."""
        if self.is_away:
            return PollState.MISSED
        if self.session.poll_ms is None:
            return PollState.HERE
        return PollState.AWAY if self.session.poll_warning_ms is not None else PollState.LATE

    def run(self, callback: Callback, partitions: Partitions, cause: str) -> None:
        """Start a callback; until it has finished nothing else of a rebalance happens."""
        assert self.running is None, "callbacks run one at a time"
        self.running = (callback, partitions)
        self.do(effects.RunCallback(callback, partitions, cause))

    def do(self, effect: Effect) -> None:
        """Ask the driver for something."""
        self.asked.append(effect)


def failure_text(code: ErrorCode, config: MemberConfig, protocols: Iterable[str]) -> str:
    """Return the sentence for a fatal error code of JoinGroup, SyncGroup, Heartbeat or OffsetCommit."""
    match code:
        case ErrorCode.FENCED_INSTANCE_ID:
            return (
                f"another member took over group.instance.id {config.instance_id!r}: this one is out of the group for"
                " good; give every static member an id of its own and start it again"
            )
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return (
                f"the group's other members support none of this member's assignors ({', '.join(protocols)}),"
                " or the group belongs to another kind of client: use an assignor that all members have"
            )
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"the broker does not allow session_timeout_ms={config.session_timeout_ms}: stay between its"
                " group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            return "the group is full: raise the broker's group.max.size or stop another member"
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return "this user may not use the group: have READ on the group granted to it"
        case ErrorCode.INVALID_GROUP_ID:
            return "the group id is empty or invalid: pass a group_id"
        case ErrorCode.UNSUPPORTED_VERSION if config.instance_id is not None:
            return "the broker is too old for static members: remove group_instance_id or use Kafka 2.3 or newer"
        case _:
            return code.text


def consumer_failure_text(code: ErrorCode, config: MemberConfig, broker_text: str | None, regex: str | None) -> str:
    """Return the sentence for a fatal error code of ConsumerGroupHeartbeat; `broker_text` is the broker's own."""
    match code:
        case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.GROUP_AUTHORIZATION_FAILED | ErrorCode.INVALID_GROUP_ID:
            return failure_text(code, config, ())
        case ErrorCode.UNRELEASED_INSTANCE_ID:
            advice = (
                f"another live member has group.instance.id {config.instance_id!r}: give every static member an id of"
                " its own, or end the other one first"
            )
        case ErrorCode.UNSUPPORTED_ASSIGNOR:
            advice = (
                f"the broker has no assignor {config.server_assignor!r}: name one of its group.consumer.assignors, or"
                " none for its default"
            )
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            advice = "the group is full: raise the broker's group.consumer.max.size or stop another member"
        case ErrorCode.UNSUPPORTED_VERSION:
            advice = (
                "the broker does not offer the consumer protocol, or not all that this member asks of it: use"
                " group_protocol='classic', or 'auto', or Kafka 4.0 or newer with group.version=1"
            )
        case ErrorCode.GROUP_ID_NOT_FOUND:
            advice = (
                "the broker does not take this member into the group: its members use the classic protocol and cannot"
                " be moved, or the group was deleted; use group_protocol='classic', or 'auto', or another group_id"
            )
        case ErrorCode.INVALID_REGULAR_EXPRESSION:
            advice = f"the broker cannot read the expression {regex!r}: it takes RE2 syntax, without look-around or \\1"
        case ErrorCode.INVALID_REQUEST:
            advice = (
                "the broker refuses this member: use group_protocol='classic', or 'auto', or end the members it names"
            )
        case _:
            advice = code.text
    return advice if not broker_text else f"{advice} (the broker says: {broker_text})"
