"""A consumer group (KIP-848) and its members as they are now: fields and questions, no decisions.

Only `apply` writes the fields. Questions asked for every heartbeat cost the same for any size of group: what
would need a walk over the members is counted as they change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from functools import lru_cache
from struct import Struct

from kohort.assign.server.spec import StandbyLags
from kohort.group.coordinator_settings import ImageTopic, TopicImage
from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ClassicPhase,
    ConsumerMemberStored,
    MemberState,
    RegexStored,
)
from kohort.group.group_timers import Timer, session_timer
from kohort.model.assignment import NOTHING, IdPartitions
from kohort.model.cause import Cause
from kohort.model.xxh3 import xxh3_64

FIRST_EPOCH = 1
"""The epoch of a group that no member has joined, and of its target: the first join makes it 2 (Kafka 4.3)."""

RETRY_MS, MAX_RETRY_MS = 1_000, 60_000
"""How long after a failed target the next attempt is made, without a new epoch: at first, and at most."""


def retry_after_ms(failures: int) -> int:
    """Return how long to wait after an attempt at a target that failed like `failures` before it."""
    return min(RETRY_MS << min(failures, 6), MAX_RETRY_MS)


class GroupState(StrEnum):
    """Kafka's names for the states of a consumer group."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """One member of a consumer group; `classic` is None for a native one.

    `assigned` is what it was granted, `pending` what it was asked to give back and has not yet; `target` is what it
    should own once it has the group's assignment epoch. A member `is_stored` once its subscription is known:
    a replay may know what it owns before that.

    More than 20 attributes: fields of Kafka's three records of a member, and of its classic protocol.
    """

    group_id: InitVar[str]
    member_id: str
    is_stored: bool = False
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    classic_phase: ClassicPhase = ClassicPhase.STABLE
    lags: StandbyLags = ()
    acceptable_recovery_lag: int | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: tuple[Assigned, ...] = ()
    pending: tuple[Assigned, ...] = ()
    target: IdPartitions = NOTHING
    session: Timer = field(init=False)

    def __post_init__(self, group_id: str) -> None:
        self.session = session_timer(group_id, self.member_id)

    def store(self, record: ConsumerMemberStored) -> None:
        """Take what the record has of the member."""
        self.is_stored = True
        for name in _STORED:
            setattr(self, name, getattr(record, name))

    def has_stored(self, record: ConsumerMemberStored) -> bool:
        """Whether the record has nothing new of the member."""
        return all(getattr(self, name) == getattr(record, name) for name in _STORED)


_STORED = (
    "instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex",
    "rebalance_timeout_ms", "server_assignor", "classic", "lags", "acceptable_recovery_lag",
)  # fmt: skip
"""What the record of a member has of it."""


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """One consumer group.

    `owners` has the member that owns a partition, granted or asked back; `claims` the one whose target it is in.
    `subscribers` counts the members by topic name, `regex_subscribers` by expression, `assignors` by vote, `natives`
    those that speak the consumer protocol. `unsettled` are the members that have not reached the target or have
    something left to do. `followers` is the shard's index of its groups by topic name, updated by each for itself.

    More than 20 attributes: fields of Kafka's records, and indexes, which `apply` changes together.
    """

    group_id: str
    followers: dict[str, set[str]] = field(default_factory=dict)
    is_dead: bool = False
    epoch: int = FIRST_EPOCH
    epoch_cause: Cause | None = None
    """Why the epoch is what it is."""
    metadata_hash: int = 0
    has_partition_metadata: bool = False
    """Whether Kafka 4.0 left a record about topics, which the hash has replaced."""
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    natives: int = 0
    static_members: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    owners: dict[bytes, dict[int, str]] = field(default_factory=dict)
    claims: dict[bytes, dict[int, str]] = field(default_factory=dict)
    subscribers: Counter[str] = field(default_factory=Counter)
    regex_subscribers: Counter[str] = field(default_factory=Counter)
    regexes: dict[str, RegexStored] = field(default_factory=dict)
    assignors: Counter[str] = field(default_factory=Counter)
    classic_protocols: Counter[str] = field(default_factory=Counter)
    """By protocol name, how many classic members offer it."""
    awaiting_join: set[str] = field(default_factory=set)
    """Classic members whose JoinGroup waits for partitions that others still have, or for a target."""
    unsettled: set[str] = field(default_factory=set)
    target_cost_us: int = 0
    """What the last target took to compute; 0 when it was not measured."""
    target_failure: str | None = None
    """Why the last attempt at a target failed, or None."""
    target_failures: int = 0
    """How many attempts have failed since the last target."""
    target_retry_ms: int = 0
    failed_epoch: int = 0
    """The group epoch for which no target could be computed; before another one it is tried again only in time."""

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

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the member that has a partition, -1 when no member has it."""
        holder = self.owners.get(topic_id, _NO_OWNERS).get(partition)
        return -1 if holder is None else max(self.members[holder].epoch, 0)


_NO_OWNERS: dict[int, str] = {}


def topic_ids_of(group: ConsumerGroup, member: ConsumerMember, image: TopicImage) -> frozenset[bytes]:
    """Return the ids of the topics that a member subscribes to and that exist."""
    names = set(member.subscribed_topic_names) | set(regex_topics(group, member.subscribed_topic_regex))
    return frozenset(topic.topic_id for name in names if (topic := image.topic(name)) is not None)


def regex_topics(group: ConsumerGroup, regex: str) -> tuple[str, ...]:
    """Return the topics that an expression matches, as the group has resolved it; none before that."""
    resolved = group.regexes.get(regex) if regex else None
    return () if resolved is None else resolved.topics


def metadata_hash(names: Iterable[str], image: TopicImage) -> int:
    """Return a number that distinguishes what the cluster has of these topics: their ids, sizes and racks (KIP-1101).

    It is 0 when none of them exists. The numbers are Kafka's, so that a group moves from broker to broker with its log
    and none of its members has to do anything for it.
    """
    found = [topic for name in sorted(names) if (topic := image.topic(name)) is not None]
    if not found:
        return 0
    number = xxh3_64(b"".join(map(_topic_hash, found)))
    return number - (1 << 64) if number >> 63 else number


@lru_cache(maxsize=16_384)
def _topic_hash(topic: ImageTopic) -> bytes:
    high, low = topic.topic_id[7::-1], topic.topic_id[:7:-1]
    parts = [b"\0", high, low, _text(topic.name), _int(topic.partitions)]
    for index in range(topic.partitions):
        parts.append(_int(index))
        for rack in sorted(topic.racks[index]) if index < len(topic.racks) else ():
            parts += (_int(len(rack)), _text(rack))
    return xxh3_64(b"".join(parts)).to_bytes(8, "little")


_int = Struct("<i").pack


def _text(text: str) -> bytes:
    content = text.encode("utf-16-le", "surrogatepass")
    return content + _int(len(content) // 2)
