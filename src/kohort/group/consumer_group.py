"""A consumer group (KIP-848) and its members as they are now: fields and questions, no decisions.

Only `consumer_apply` writes the fields. Questions asked for every heartbeat cost the same for any size of group: what
would need a walk over the members is counted as they change.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from kohort.assign.server import StandbyLags
from kohort.group.consumer_events import ClassicMemberMetadata, ClassicPhase, Held, MemberState, RegexStored
from kohort.group.timers import Timer, session_timer
from kohort.model.id_partitions import NOTHING, IdPartitions


class GroupState(StrEnum):
    """Kafka's names for the states of a consumer group."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerMember:
    """One member of a consumer group; `classic` is None for a native one.

    `assigned` is what it was granted, `pending` what it was asked to give back and has not yet; `target` is what it
    should own once it has `target_epoch`, the group's assignment epoch.
    """

    __slots__ = (
        "assigned",
        "classic",
        "classic_phase",
        "client_host",
        "client_id",
        "epoch",
        "instance_id",
        "lags",
        "member_id",
        "pending",
        "previous_epoch",
        "rack_id",
        "rebalance_timeout_ms",
        "server_assignor",
        "session",
        "state",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "target",
    )

    def __init__(self, group_id: str, member_id: str) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.subscribed_topic_names: tuple[str, ...] = ()
        self.subscribed_topic_regex = ""
        self.rebalance_timeout_ms = -1
        self.server_assignor: str | None = None
        self.classic: ClassicMemberMetadata | None = None
        self.classic_phase = ClassicPhase.STABLE
        self.lags: StandbyLags = ()
        self.epoch = 0
        self.previous_epoch = 0
        self.state = MemberState.STABLE
        self.assigned: tuple[Held, ...] = ()
        self.pending: tuple[Held, ...] = ()
        self.target: IdPartitions = NOTHING
        self.session: Timer = session_timer(group_id, member_id)


class ConsumerGroup:
    """One consumer group.

    `owners` holds for every partition that some member has, granted or asked back, the epoch of that member.
    `subscribers` counts the members by topic name, `regex_subscribers` by expression, `assignors` by vote.
    `unsettled` are the members that have not reached the target or have something left to do.
    """

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignors",
        "awaiting_join",
        "classic_protocols",
        "epoch",
        "group_id",
        "is_dead",
        "members",
        "metadata_hash",
        "natives",
        "owners",
        "regex_subscribers",
        "regexes",
        "static_members",
        "subscribers",
        "target_cost_us",
        "target_failure",
        "unsettled",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.is_dead = False
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.owners: dict[bytes, dict[int, int]] = {}
        self.subscribers: Counter[str] = Counter()
        self.regex_subscribers: Counter[str] = Counter()
        self.regexes: dict[str, RegexStored] = {}
        self.assignors: Counter[str] = Counter()
        self.natives = 0
        """How many members speak the consumer protocol; the others are classic."""
        self.classic_protocols: Counter[str] = Counter()
        """By protocol name, how many classic members offer it."""
        self.awaiting_join: set[str] = set()
        """Classic members whose JoinGroup waits for partitions that others still have, or for a target."""
        self.unsettled: set[str] = set()
        self.target_cost_us = 0
        """What the last target took to compute; 0 when nobody measured."""
        self.target_failure: str | None = None
        """Why the last attempt at a target failed, or None."""

    @property
    def state(self) -> GroupState:
        """Where the group is."""
        if self.is_dead:
            return GroupState.DEAD
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        return GroupState.RECONCILING if self.unsettled else GroupState.STABLE

    @property
    def is_native(self) -> bool:
        """Whether some member speaks the consumer protocol."""
        return self.natives > 0
