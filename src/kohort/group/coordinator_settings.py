"""What a coordinator is configured with: Kafka's group settings, how to read a member's topics, and the topics.

The image is the cluster's topics as a coordinator sees them, a part of the runtime. It is not the group's state: what a
group decided upon it is in the group's records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kohort.assign.server.spec import ServerAssignor
from kohort.model.assignment import Assignment
from kohort.model.setting import setting
from kohort.model.subscription import Subscription


class ImageTopic(NamedTuple):
    """One topic that exists. `racks` are those of each partition's replicas, empty where none is known."""

    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class TopicImage(Protocol):
    """Questions about topics. Each costs the same whatever the number of topics, but for `names`."""

    is_followed: bool
    """Whether each change shows at once: then a topic that is not there does not exist."""

    def topic(self, name: str) -> ImageTopic | None:
        """Return the topic of that name, or None."""

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        """Return the topic with that id, or None."""

    def matching(self, regex: str, group_id: str) -> frozenset[str] | None:
        """Return the names of topics that a regular expression of a group matches as a whole (RE2).

        It must be a valid one. None: it is not known now which topics the group's members may describe.
        """

    def regex_error(self, regex: str) -> str | None:
        """Return why an expression cannot be used, or None."""


class NoTopics:
    """A cluster without topics, and without regular expressions."""

    is_followed = True

    def topic(self, _name: str) -> ImageTopic | None:
        """Return None."""
        return None

    def topic_by_id(self, _topic_id: bytes) -> ImageTopic | None:
        """Return None."""
        return None

    def matching(self, _regex: str, _group_id: str) -> frozenset[str]:
        """Return no names."""
        return frozenset()

    def regex_error(self, _regex: str) -> str | None:
        """Refuse every expression."""
        return "no regular expressions here"


NamedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Partitions by topic name, both sorted."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long the JoinGroup of a new member may wait: it cannot heartbeat yet, and may be long gone (KAFKA-6538)."""


def unread(*_: object) -> None:
    """Read nothing: what members of type `consumer` send is opaque."""


class ComparedMetadata(NamedTuple):
    """What the metadata of a classic member asks for: the user data are what its assignor takes for a wish."""

    topics: frozenset[str]
    rack: str | None = None
    user_data: bytes | None = None


def no_assignment(_partitions: NamedPartitions, _version: int) -> bytes:
    """Write every assignment as no bytes."""
    return b""


def no_version(_metadata: bytes) -> int:
    """Take every subscription for one of the newest version."""
    return 2**15 - 1


class GroupConfig(NamedTuple):
    """What may be set for each consumer group by itself."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class StreamsConfig(NamedTuple):
    """What may be set for each streams group by itself."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    standby_replicas: int
    initial_rebalance_delay_ms: int
    warmup_replicas: int
    acceptable_recovery_lag: int
    task_offset_interval_ms: int
    rack_aware_tags: tuple[str, ...]
    """Keys of tags that each member should have."""


DEFAULT_WARMUPS, DEFAULT_RECOVERY_LAG = 2, 10_000
"""How many tasks of a streams group warm up at a time, and how many records behind a copy has caught up."""

UNLIMITED = 2**31 - 1
"""A limit that is none. Who watches the groups of other brokers does not know theirs."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of all groups of a broker; each that is one of the broker's names it.

    What members of type `consumer` send is opaque to the coordinator but for what these read, each None when it
    cannot: `topics_of` the topics of a subscription, `owned_of` the partitions that its member reports to own,
    `assigned_of` those of an assignment, `offer_of` all of a subscription but the generation it was written in;
    `version_of` reads the version of a subscription, -1 where it cannot;
    `compared_metadata_of` what it asks for, given the name of its protocol.

    `assignors` are the server-side ones by name, the default first; `group_config` and `streams_config` answer None for
    a group without settings of its own. `subscription_of` reads a classic member's metadata, `assignment_of` its
    assignment, each None when it cannot; `encode_assignment_of` writes its assignment in the version of that metadata.

    `sync_hold_ms` 0 withholds no SyncGroup answer; with `initial_quiet_ms` -1 a first round runs its full delay.
    """

    min_session_timeout_ms: int = setting(6_000, name="group.min.session.timeout.ms")
    max_session_timeout_ms: int = setting(1_800_000, name="group.max.session.timeout.ms")
    max_size: int = setting(UNLIMITED, name="group.max.size")
    initial_rebalance_delay_ms: int = setting(3_000, name="group.initial.rebalance.delay.ms")
    offset_metadata_max_bytes: int = setting(4_096, name="offset.metadata.max.bytes")
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    sync_hold_ms: int = setting(0, name="kohort.group.sync.hold.ms")
    initial_quiet_ms: int = setting(-1, name="kohort.group.initial.quiet.ms")
    topics_of: Callable[[bytes], frozenset[str] | None] = unread
    version_of: Callable[[bytes], int] = no_version
    owned_of: Callable[[bytes], frozenset[tuple[str, int]] | None] = unread
    assigned_of: Callable[[bytes], frozenset[tuple[str, int]] | None] = unread
    offer_of: Callable[[bytes], object | None] = unread
    compared_metadata_of: Callable[[str, bytes], ComparedMetadata | None] = unread
    image: TopicImage = field(default_factory=NoTopics)
    consumer_session_timeout_ms: int = setting(45_000, name="group.consumer.session.timeout.ms")
    consumer_heartbeat_interval_ms: int = setting(5_000, name="group.consumer.heartbeat.interval.ms")
    consumer_max_size: int = setting(UNLIMITED, name="group.consumer.max.size")
    assignment_interval_ms: int = setting(1_000, name="group.consumer.assignment.interval.ms")
    assignors: Mapping[str, ServerAssignor] = field(default_factory=dict)
    streams_session_timeout_ms: int = setting(45_000, name="group.streams.session.timeout.ms")
    streams_heartbeat_interval_ms: int = setting(5_000, name="group.streams.heartbeat.interval.ms")
    streams_assignment_interval_ms: int = setting(1_000, name="group.streams.assignment.interval.ms")
    streams_standby_replicas: int = setting(0, name="group.streams.num.standby.replicas")
    streams_initial_rebalance_delay_ms: int = setting(3_000, name="group.streams.initial.rebalance.delay.ms")
    streams_warmup_replicas: int = setting(DEFAULT_WARMUPS, name="group.streams.num.warmup.replicas")
    streams_acceptable_recovery_lag: int = setting(DEFAULT_RECOVERY_LAG, name="group.streams.acceptable.recovery.lag")
    streams_task_offset_interval_ms: int = setting(60_000, name="group.streams.task.offset.interval.ms")
    streams_rack_aware_tags: tuple[str, ...] = setting((), name="group.streams.rack.aware.assignment.tags")
    describes_topologies: bool = setting(False, name="kohort.group.streams.topology.descriptions")
    streams_max_size: int = setting(UNLIMITED, name="group.streams.max.size")
    migration_policy: str = setting("bidirectional", name="group.consumer.migration.policy")
    min_embedded_version: int = setting(3, name="kohort.group.migration.min.embedded.version")
    ignores_echoed_data: bool = setting(False, name="kohort.group.migration.ignore.echoed.data")
    assigns_early: bool = setting(True, name="kohort.group.consumer.assignment.early")
    has_leading_replacement: bool = setting(True, name="kohort.group.migration.replacement.leads")
    resolves_at_once: bool = setting(True, name="kohort.group.consumer.regex.at.once")
    has_join_reasons: bool = setting(True, name="kohort.group.join.reasons")
    elects_by_version: bool = setting(True, name="kohort.group.leader.by.version")
    group_config: Callable[[str], GroupConfig | None] = unread
    streams_config: Callable[[str], StreamsConfig | None] = unread
    subscription_of: Callable[[bytes], Subscription | None] = unread
    assignment_of: Callable[[bytes], Assignment | None] = unread
    encode_assignment_of: Callable[[NamedPartitions, int], bytes] = no_assignment

    def config_of(self, group_id: str) -> GroupConfig:
        """Return the settings of a consumer group."""
        return self.group_config(group_id) or GroupConfig(
            self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms, self.assignment_interval_ms
        )

    def streams_config_of(self, group_id: str) -> StreamsConfig:
        """Return the settings of a streams group."""
        return self.streams_config(group_id) or StreamsConfig(
            *(getattr(self, f"streams_{name}") for name in StreamsConfig._fields)
        )
