"""Where a member of the consumer protocol stands: its epoch, its target, what it has said, and the steps rules share.

Written by the modules `consumer*` and by nobody else; a driver reads it. Partitions go by name towards the user and by
topic id towards the coordinator; `topic_ids` has the ids of what is owned, so that both are one set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kohort.member import effects
from kohort.member.consumer_effects import ConsumerHeartbeat, NameTopics
from kohort.member.effects import Callback
from kohort.member.failure_text import consumer_failure_text
from kohort.member.identity import NO_GENERATION, Identity
from kohort.member.lag_watch import LagWatch
from kohort.member.member_base import Seat
from kohort.member.member_state import ConsumerState, MemberConfig
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.id_partitions import IdPartitions, id_partitions
from kohort.model.ids import TopicPartition
from kohort.model.reason import HeartbeatReason

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


class Numbered(NamedTuple):
    """An assignment and its number in the order of arrival: what was reconciled is the target if both are equal."""

    number: int
    partitions: IdPartitions


class Said(NamedTuple):
    """What the coordinator has been told and need not hear again."""

    topics: tuple[str, ...]
    regex: str | None
    owned: Numbered | None


class ConsumerStanding(Seat):
    """One member's state. Public to its own package; users look at what `client.Membership` shows of it."""

    # What a classic member may be and this one never is.
    is_leader = False
    assignment_error: ErrorCode | None = None

    def __init__(self, config: MemberConfig, member_id: str, random: Callable[[], float]) -> None:
        super().__init__(config, random)
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_id = member_id
        self.epoch = 0
        self.regex: str | None = None
        self.is_closed = False
        # What should be owned, what was reconciled last, and what is still to be done on the way from one to the other.
        self.target: Numbered | None = None
        self.current: Numbered | None = None
        self.underway: Numbered | None = None
        self.steps: list[tuple[Callback, Partitions]] = []
        self.topic_ids: dict[str, bytes] = {}
        self.names: Mapping[bytes, str] = {}
        self.gone: frozenset[bytes] = frozenset()
        self.nameless: frozenset[bytes] = frozenset()
        # Heartbeats: the number of the one under way, and whether the next one may wait for its time.
        self.number = 0
        self.in_flight: int | None = None
        # Whether the last claim of what is owned is unanswered: what is taken over now might be given to others for it.
        self.is_claiming = False
        self.sent_ms = 0
        self.is_urgent = False
        self.is_hurried = False
        self.said: Said | None = None
        self.is_regex_told = False
        self.is_join_unsure = False
        self.lag_source: Callable[[], Mapping[TopicPartition, int]] | None = None
        self.lags = LagWatch(config.acceptable_recovery_lag, config.lag_growth_ms)
        self.reason: HeartbeatReason | None = None
        self.reason_number = 0
        self.fenced_by: ErrorCode = ErrorCode.NONE

    @property
    def identity(self) -> Identity:
        """The member epoch and id that commits carry; no epoch while the member is not in the group."""
        return Identity(self.epoch if self.epoch > 0 else NO_GENERATION, self.member_id)

    @property
    def is_stable(self) -> bool:
        """Whether the member owns its target, and the coordinator knows."""
        return self.state is ConsumerState.STABLE

    @property
    def is_between(self) -> bool:
        """Whether calls into the user's code of the present reconciliation are still to come."""
        return self.underway is not None

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows this member, as far as it has said."""
        return self.epoch > 0

    @property
    def owned_ids(self) -> IdPartitions:
        """What is owned, by topic id."""
        return id_partitions((self.topic_ids[topic], (partition,)) for topic, partition in self.owned)

    def speak(self, *, is_full: bool = False) -> None:
        """Have the next heartbeat leave as soon as it may."""
        self.is_urgent = True
        if is_full:
            self.said = None

    def take_lags(self, lags: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """Take the lags of now; return whether the coordinator must know them at once."""
        reason = self.lags.report(lags, now_ms)
        if reason is None or self.epoch <= 0:
            return False
        self.reason = reason
        return True

    def join(self) -> None:
        """Begin to join, with nothing in hand."""
        assert not self.owned, "who joins owns nothing"
        self.state = ConsumerState.JOINING
        self.speak(is_full=True)

    def forget_epoch(self) -> None:
        """The member is not in the group any more: no epoch, no target, nothing that was said counts."""
        self.epoch = 0
        self.target = self.current = self.said = None
        self.discard()
        self.is_urgent = False
        if self.nameless:
            self.nameless = frozenset()
            self.do(NameTopics(self.nameless))

    def discard(self) -> None:
        """Let a reconciliation that is under way come to nothing, once its callback has finished."""
        self.underway = None
        self.steps = []

    def leave(self, cause: str, epoch: int) -> int:
        """Send a heartbeat that leaves, whatever is under way; return its number."""
        self.number += 1
        self.do(ConsumerHeartbeat(self.number, self.member_id, epoch, cause=cause))
        return self.number

    def fail(self, code: ErrorCode, text: str | None) -> None:
        """End here for good, with a sentence for the user; what is owned is lost, and only closing follows."""
        if self.state in (ConsumerState.LEAVING, ConsumerState.FATAL) or self.is_closed:
            return
        self.forget_epoch()
        self.state = ConsumerState.FATAL
        self.do(effects.Fail(code, consumer_failure_text(code, self.config, text, self.regex)))


__all__ = ["LEAVE_EPOCH", "LEAVE_STATIC_EPOCH", "ConsumerStanding", "Numbered", "Said"]
