"""Where a classic member stands: what it knows of itself, its group and its deadlines, and the steps all rules share.

Written by the modules `classic*` and by nobody else; a driver reads it. Plain state: it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.assign.spec import Assignor, TopicSpec
from kohort.member import effects
from kohort.member.failure_text import failure_text
from kohort.member.identity import NO_GENERATION, NOBODY, Identity
from kohort.member.member_base import Seat
from kohort.member.member_state import ENDING, MemberConfig, State
from kohort.member.rebalance_strategy import strategy_for
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode


class Standing(Seat):
    """One member's state. Public to its own package; users look at what `client.Membership` shows of it."""

    def __init__(self, config: MemberConfig, assignors: Sequence[Assignor], random: Callable[[], float]) -> None:
        super().__init__(config, random)
        self.state = State.UNJOINED
        self.identity = NOBODY
        self.protocol_name = ""
        self.is_leader = False
        self.assignment_error: ErrorCode | None = None
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.strategy = strategy_for(assignors)
        # What the next round is about: why to join, whether that reason must reach the coordinator, and how far it is.
        self.rejoin: str | None = None
        self.is_rejoin_forced = False
        self.request: str | None = None
        self.sync: effects.Sync | None = None
        self.is_sync_repeated = False
        self.is_prepared = False
        self.joined_topics: tuple[str, ...] = ()
        self.matches: Callable[[str], bool] | None = None
        self.received = Assignment()
        self.is_second_round_due = False
        # What the member has seen of its topics; a leader compares them with those that it assigned.
        self.metadata: Mapping[str, TopicSpec] = {}
        self.seen_topics: frozenset[str] = frozenset()
        self.gone_topics: frozenset[str] = frozenset()
        self.absent_topics: frozenset[str] = frozenset()
        self.missing: Partitions = frozenset()
        self.group_topics: frozenset[str] = frozenset()
        self.is_group_rack_aware = False
        self.snapshot: Mapping[str, TopicSpec] | None = None
        self.beat_as: Identity | None = None

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no round is under way."""
        return self.state is State.STABLE

    @property
    def is_between(self) -> bool:
        """Whether calls into the user's code of the present round are still to come."""
        return self.state in (State.PREPARING, State.COMPLETING)

    @property
    def is_closed(self) -> bool:
        """Whether nothing follows."""
        return self.state is State.CLOSED

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows this member, as far as it has said."""
        return bool(self.identity.member_id)

    @property
    def is_rejoin_wanted(self) -> bool:
        """Whether a round may begin as soon as no wait stands against it."""
        is_free = self.state in (State.UNJOINED, State.STABLE) and self.running is None
        # To want nothing any more, as when an expression's last topic is gone, is something to tell the group.
        has_topics = bool(self.topics or self.joined_topics)
        return is_free and self.rejoin is not None and has_topics and not self.is_away

    @property
    def is_subscription_new(self) -> bool:
        """Whether the user wants other topics than the last JoinGroup said."""
        return set(self.topics) != set(self.joined_topics)

    def want(self, reason: str, *, is_forced: bool = False) -> None:
        """Join again; the first reason is the one that counts, unless a later one must be heard."""
        if self.rejoin is None or (is_forced and not self.is_rejoin_forced):
            self.rejoin = reason
            self.is_rejoin_forced = is_forced

    def forget(self, error: ErrorCode) -> None:
        """The group no longer knows this generation, or this member at all."""
        member_id = self.identity.member_id if error is ErrorCode.ILLEGAL_GENERATION else NOBODY.member_id
        self.identity = Identity(NO_GENERATION, member_id)
        self.is_prepared = False
        self.is_leader = False
        self.session.end()

    def leave(self, reason: str) -> bool:
        """Ask to leave; return whether there is an id to leave with."""
        if self.identity.member_id:
            self.do(effects.Leave(self.identity, reason))
        return bool(self.identity.member_id)

    def fail(self, code: ErrorCode, text: str | None = None) -> None:
        """End here for good, with a sentence for the user; only closing follows."""
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.identity = NOBODY
        if self.state in ENDING:
            return
        self.state = State.FATAL
        self.session.end()
        self.do(effects.Fail(code, text or failure_text(code, self.config, self.assignors)))
