"""What the broker remembers across restarts besides records, and what the parts of one node share.

`BrokerState` has topics, settings, producer ids and the broker's epoch: the one writer and reader of the metadata log.
Each start writes an epoch, so leader epochs grow with every restart; producer ids are reserved in blocks, so that none
is ever given twice. A part of a node is handed `Services`, or only those of its fields that it needs; none knows the
node that puts them together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kohort.group.coordinator_settings import GroupConfig, StreamsConfig
from kohort.log.disk import Disk, StorageError
from kohort.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from kohort.model.errors import KafkaError
from kohort.model.ids import topic_id_text
from kohort.model.setting import LONG_MAX, SettingsError, value_text
from kohort.node.authentication import ScramCredentials
from kohort.node.authorization.authorizer import Acls
from kohort.node.configuration.config import Config, GroupResourceConfig
from kohort.node.disk_health import DiskHealth
from kohort.node.durability import Durability
from kohort.node.metadata_log import Entry, MetadataLog
from kohort.node.step_scheduler import Steps, StepScheduler
from kohort.node.timers import NodeClock, Timers
from kohort.node.topics.topic import Storage
from kohort.node.topics.topics import Topics

log = logging.getLogger("kohort.node")

PRODUCER_IDS = 1000
"""Producer ids reserved at a time, as in Kafka."""

RETENTION_STEPS = 16
"""What looking at one log counts in a turn of the event loop: it may have to be opened."""

LONG_LOG = 1000
"""A metadata log of fewer entries is left as it is."""


class BrokerState:
    """The topics, dynamic settings and producer ids of one broker, as the metadata log has them."""

    def __init__(
        self,
        config: Config,
        disk: Disk,
        random_bytes: Callable[[int], bytes],
        clock: NodeClock,
        durability: Durability,
    ) -> None:
        self._config = config
        self._random_bytes = random_bytes
        self._storage = Storage(config, disk, clock, durability)
        self._log = MetadataLog(disk, self._storage.health)
        self.topics = Topics(self._storage, self._log, random_bytes)
        self.group_configs = GroupConfigs(config)
        self.acls = Acls()
        self.scram_credentials = ScramCredentials()
        self.cluster_id = ""
        self._next_producer_id = 0
        self._reserved_producer_id = 0
        self._worthwhile = 0
        """Length from which the log is looked at again: twice what its entries last came to."""

    @property
    def epoch(self) -> int:
        """How often the broker has started."""
        return self._storage.epoch

    @property
    def disk_health(self) -> DiskHealth:
        """Whether the disk works."""
        return self._storage.health

    def start(self, now_ms: int) -> None:
        """Open and replay the metadata log, and begin a new epoch. Raises StorageError."""
        self._log.open(now_ms, fsync=self._config.log_flush_interval_messages < LONG_MAX)
        self._log.replay(self._apply)
        self._next_producer_id = self._reserved_producer_id  # what was reserved may have been given
        entries: list[Entry] = []
        if not self.cluster_id:
            entries.append({"type": "cluster", "id": topic_id_text(self._random_bytes(16))})
        entries += self.scram_credentials.missing(self._config.scram_users, self._random_bytes)
        epoch = self.epoch + 1 if self.cluster_id else 0
        entries.append({"type": "epoch", "epoch": epoch, "at_ms": now_ms})
        self.write(entries, now_ms)
        self.topics.remove_leftovers()
        self.topics.report_strays()
        self.shorten(now_ms)

    def stop(self) -> None:
        """Flush and close every log."""
        self.topics.close()
        self._log.close()

    def write(self, entries: list[Entry], now_ms: int) -> None:
        """Append entries to the log, then apply them. Raises StorageError."""
        self._log.append(entries, now_ms)
        for entry in entries:
            self._apply(entry)

    def next_producer_id(self, now_ms: int) -> int:
        """Return a producer id that was never given before. Raises StorageError."""
        if self._next_producer_id >= self._reserved_producer_id:
            self.write([{"type": "producer_ids", "until": self._next_producer_id + PRODUCER_IDS}], now_ms)
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        return producer_id

    def alter_broker(self, changes: Iterable[tuple[str, str | None]], now_ms: int) -> None:
        """Set or (None) give back dynamic settings of the broker that were checked before."""
        entries = [{"type": "broker_config", "name": name, "value": value, "at_ms": now_ms} for name, value in changes]
        self.write(entries, now_ms)
        for topic in self.topics:
            for partition in topic.partitions:
                partition.reconfigure()

    def change_acls(self, added: Sequence[AclBinding], removed: Sequence[AclBinding], now_ms: int) -> None:
        """Add and remove ACLs, all of them or none. Raises StorageError."""
        self._log.append(acl_entries(added, removed, now_ms), now_ms)
        self.acls.change(added, removed)

    def enforce_retention(self, now_ms: int) -> Steps[None]:
        """Delete the segments that are too old or too much."""
        self.shorten(now_ms)
        for topic in self.topics:
            for partition in topic.partitions:
                yield RETENTION_STEPS
                if partition.is_deleted:
                    continue
                try:
                    partition.log.enforce_retention(now_ms)
                except (StorageError, KafkaError) as error:
                    log.error("retention of %s: %s", partition.directory, error)

    def shorten(self, now_ms: int) -> None:
        """Write what the metadata log comes to in its place, once it has many more entries than that."""
        if self._log.length < max(LONG_LOG, self._worthwhile):
            return
        entries = self.entries(now_ms)
        self._worthwhile = 2 * len(entries)
        if self._log.length < self._worthwhile or self.topics.has_leftovers:
            return
        try:
            self._log.replace(entries, now_ms)
        except (StorageError, KafkaError) as error:
            log.error("the metadata log stays as long as it is: %s", error)

    def entries(self, now_ms: int) -> list[Entry]:
        """Return entries whose replay gives the present state."""
        config = self._config
        return [
            {"type": "cluster", "id": self.cluster_id},
            {"type": "epoch", "epoch": self.epoch, "at_ms": now_ms},
            {"type": "producer_ids", "until": self._reserved_producer_id},
            *(
                {"type": "broker_config", "name": name, "value": value_text(value), "at_ms": now_ms}
                for name, value in sorted(config.dynamic.items())
            ),
            *self.group_configs.entries(now_ms),
            *acl_entries(self.acls, (), now_ms),
            *self.scram_credentials.entries(),
            *self.topics.entries(now_ms),
        ]

    def _apply(self, entry: Entry) -> None:
        match entry["type"]:
            case "cluster":
                self.cluster_id = entry["id"]
            case "epoch":
                self._storage.epoch = entry["epoch"]
            case "producer_ids":
                self._reserved_producer_id = entry["until"]
            case "broker_config":
                try:
                    self._config.alter(entry["name"], entry["value"])
                except SettingsError as error:
                    log.warning("a stored setting is no longer valid: %s", error)
            case "group_config":
                self.group_configs.apply(entry)
            case "acl":
                self._apply_acl(entry)
            case "scram_credential" | "no_scram_credential":
                self.scram_credentials.apply(entry)
            case _:
                self.topics.apply(entry)

    def _apply_acl(self, entry: Entry) -> None:
        kind, name, pattern, principal, host, operation, permission = entry["acl"]
        acl = AclBinding(
            ResourceType[kind],
            name,
            PatternType[pattern],
            principal,
            host,
            AclOperation[operation],
            AclPermission[permission],
        )
        if entry["exists"]:
            self.acls.change(added=[acl])
        else:
            self.acls.change(removed=[acl])


class GroupConfigs:
    """The groups that have settings of their own (resource type GROUP of the config APIs), by group id.

    A group need not exist to have settings. A value outside the bounds is stored, since other bounds may make it
    right, and works as the nearest that they allow.
    """

    def __init__(self, broker: Config) -> None:
        self._broker = broker
        self._own: dict[str, GroupResourceConfig] = {}
        self._effective: dict[str, GroupConfig] = {}
        self._default = _effective(GroupResourceConfig(broker))
        self._streams_default = _effective_streams(GroupResourceConfig(broker))

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the groups that have settings, sorted."""
        return iter(sorted(self._own))

    def get(self, group_id: str) -> GroupResourceConfig:
        """Return the settings of a group, to be read only."""
        return self._own.get(group_id) or GroupResourceConfig(self._broker)

    def effective(self, group_id: str) -> GroupConfig:
        """Return what a group works with: its own settings within the broker's bounds, else the broker's."""
        return self._effective.get(group_id, self._default)

    def effective_streams(self, group_id: str) -> StreamsConfig:
        """Return the same for a streams group."""
        own = self._own.get(group_id)
        return self._streams_default if own is None else _effective_streams(own)

    def apply(self, entry: Entry) -> None:
        """Fold one change of a group's settings."""
        group_id, name, text = entry["group"], entry["name"], entry["value"]
        own = self._own.get(group_id) or GroupResourceConfig(self._broker)
        try:
            own.alter(name, text)
        except SettingsError as error:
            log.warning("a stored setting of group %s is no longer valid: %s", group_id, error)
            return
        if not own.texts:
            self._own.pop(group_id, None)
            self._effective.pop(group_id, None)
            return
        self._own[group_id] = own
        self._effective[group_id] = _effective(own)
        if text is not None and isinstance(own.get(name), int) and own.get(name) != int(text):
            low, high = self._broker.bounds_of(name)
            log.warning(
                "%s=%s of group %s is outside the broker's bounds, %d to %d: it works as %d",
                name, text, group_id, low, high, own.get(name),
            )  # fmt: skip

    def entries(self, now_ms: int) -> Iterator[Entry]:
        """Yield the entries that give these settings."""
        for group_id, own in sorted(self._own.items()):
            yield from group_config_entries(group_id, sorted(own.texts.items()), now_ms)


def group_config_entries(group_id: str, changes: Iterable[tuple[str, str | None]], now_ms: int) -> list[Entry]:
    """Return the entries that set or (None) remove settings of a group that were checked before."""
    return [
        {"type": "group_config", "group": group_id, "name": name, "value": value, "at_ms": now_ms}
        for name, value in changes
    ]


def acl_entries(added: Iterable[AclBinding], removed: Iterable[AclBinding], now_ms: int) -> list[Entry]:
    """Return the entries that add and remove ACLs."""
    return [
        {"type": "acl", "acl": _texts(acl), "exists": exists, "at_ms": now_ms}
        for several, exists in ((added, True), (removed, False))
        for acl in several
    ]


def _texts(acl: AclBinding) -> list[str]:
    kind, pattern, operation, permission = acl.resource_type, acl.pattern_type, acl.operation, acl.permission
    return [kind.name, acl.name, pattern.name, acl.principal, acl.host, operation.name, permission.name]


def _effective(own: GroupResourceConfig) -> GroupConfig:
    return GroupConfig(
        session_timeout_ms=own.consumer_session_timeout_ms,
        heartbeat_interval_ms=own.consumer_heartbeat_interval_ms,
        assignment_interval_ms=own.consumer_assignment_interval_ms,
    )


def _effective_streams(own: GroupResourceConfig) -> StreamsConfig:
    return StreamsConfig(
        session_timeout_ms=own.streams_session_timeout_ms,
        heartbeat_interval_ms=own.streams_heartbeat_interval_ms,
        assignment_interval_ms=own.streams_assignment_interval_ms,
        standby_replicas=own.streams_num_standby_replicas,
        initial_rebalance_delay_ms=own.streams_initial_rebalance_delay_ms,
        warmup_replicas=own.streams_num_warmup_replicas,
        acceptable_recovery_lag=own.streams_acceptable_recovery_lag,
        task_offset_interval_ms=own.streams_task_offset_interval_ms,
        rack_aware_tags=own.streams_rack_aware_assignment_tags,
    )


@dataclass(frozen=True, slots=True)
class Services:
    """The shared parts of one node, each built before what uses it."""

    config: Config
    disk: Disk
    random_bytes: Callable[[int], bytes]
    clock: NodeClock
    timers: Timers
    durability: Durability
    steps: StepScheduler
    state: BrokerState

    @property
    def topics(self) -> Topics:
        """The topics of this broker."""
        return self.state.topics
