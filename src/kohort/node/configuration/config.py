"""The values of settings: the broker's own, and those of one topic or one group over the broker's.

A configuration never has a value that its setting would refuse: whatever comes in as text is checked here, and the
error is one sentence that names the setting, the value and what was expected. The broker's settings have three layers,
of which the later wins: default, static (start), dynamic (IncrementalAlterConfigs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from kohort.model.acl import Principal
from kohort.model.setting import HIDDEN, INT_MAX, Names, Setting, SettingKind, SettingsError, Table, Value, refused
from kohort.node.configuration.broker_settings import (
    BROKER,
    COMPATIBLE,
    GROUP,
    KAFKA_4_3,
    LISTENER,
    MECHANISMS,
    NEWEST_VERSIONS,
    TOPIC,
    UNIT_MS,
    BrokerSettings,
    GroupResourceSettings,
    ListenerSettings,
    TopicSettings,
)


class Source(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


OF_LISTENER = re.compile(rf"listener\.name\.([^.]+)\.((?:{'|'.join(MECHANISMS)})\.)?(.+)", re.IGNORECASE)
"""The name of a setting of one listener: the listener's, the mechanism's where it is given, the setting's."""


def find_broker_setting(name: str) -> Setting[Any]:
    """Return the setting of the broker, or of one of its listeners, by that name. Raises SettingsError."""
    if of_listener := OF_LISTENER.fullmatch(name):
        return LISTENER.find(of_listener[3])
    if name == BrokerSettings.sasl_jaas_config.name:
        raise SettingsError(f"{name} needs a listener and a mechanism: listener.name.LISTENER.plain.{name}")
    return BROKER.find(name)


class Config(BrokerSettings):
    """The broker's settings in force. `newest_versions` bounds the versions of some APIs, by key."""

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, Value] = {
            name: find_broker_setting(name).parse(text) for name, text in (static or {}).items()
        }
        self.dynamic: dict[str, Value] = {}
        is_compatible = self.static.get("kohort.compatible") == KAFKA_4_3
        self._defaults: dict[str, Value] = {name: setting.default for name, setting in BROKER.items()}
        self._defaults |= COMPATIBLE if is_compatible else {}
        self.newest_versions = NEWEST_VERSIONS if is_compatible else {}
        self._refresh()
        self._check()

    def get(self, name: str) -> Any:
        """Return the value in force of a setting by Kafka's name."""
        for layer in (self.dynamic, self.static):
            if name in layer:
                return layer[name]
        return self._defaults[name]

    def source(self, name: str) -> Source:
        """Return the layer that gives a setting its value."""
        if name in self.dynamic:
            return Source.DYNAMIC_BROKER
        return Source.STATIC_BROKER if name in self.static else Source.DEFAULT

    def alter(self, name: str, text: str | None) -> None:
        """Set a dynamic setting, or with None return it to its lower layer. Raises SettingsError."""
        setting = BROKER.find(name)
        if not setting.is_dynamic:
            raise SettingsError(f"{name} cannot be changed while the broker runs")
        if text is None:
            self.dynamic.pop(name, None)
        else:
            self.dynamic[name] = setting.parse(text)
        self._refresh()

    def note_static(self, **texts: str) -> None:
        """Record what the process was started with by other means than settings, such as its listener."""
        for name, text in texts.items():
            name = name.replace("_", ".")
            self.static[name] = BROKER.find(name).parse(text)
        self._refresh()

    def default_of(self, setting: Setting[Any]) -> Value:
        """Return the value of a topic's or a group's setting that is not set there."""
        for broker_name in setting.broker_names:
            value = self.get(broker_name)
            if value is not None:
                unit = UNIT_MS.get(broker_name.rpartition(".")[2], 1)
                return value * unit if isinstance(value, int) and value > 0 and unit != 1 else value
        default: Value = setting.default
        return default

    @property
    def super_user_names(self) -> tuple[str, ...]:
        """The texts of the principals that may do everything."""
        return tuple(item.strip() for item in (self.super_users or "").split(";") if item.strip())

    def ignored_offsets(self, partition: int) -> frozenset[int]:
        """Return the offsets of one partition of `__consumer_offsets` whose records may be left out of a load."""
        places = (item.partition("@") for item in self.kohort_offsets_load_ignore)
        return frozenset(int(offset) for number, _, offset in places if int(number) == partition)

    def max_connections_of(self, host: str) -> int:
        """Return how many connections an address may have."""
        return self._connections_of_hosts.get(host, self.max_connections_per_ip)

    def _refresh(self) -> None:
        for name in BROKER:
            self.__dict__[name.replace(".", "_")] = self.get(name)
        places = (item.rpartition(":") for item in self.max_connections_per_ip_overrides)
        self._connections_of_hosts = {host: int(count) for host, _, count in places}

    def _check(self) -> None:
        low, high = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if low > high:
            raise SettingsError(f"group.min.session.timeout.ms ({low}) is above group.max.session.timeout.ms ({high})")
        for name, setting in GROUP.items():
            if setting.kind is SettingKind.INT:
                self.bounds_of(name)
        require_distinct("group.streams.rack.aware.assignment.tags", self.group_streams_rack_aware_assignment_tags)
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise SettingsError("group.coordinator.rebalance.protocols must name classic, as in Kafka")
        session_ms, interval_ms = self.group_consumer_session_timeout_ms, self.group_consumer_heartbeat_interval_ms
        if session_ms <= interval_ms:
            raise SettingsError(
                f"group.consumer.session.timeout.ms ({session_ms}) is not above "
                f"group.consumer.heartbeat.interval.ms ({interval_ms})"
            )
        self.plain_users = _users("kohort.sasl.plain.users", self.kohort_sasl_plain_users)
        """The users of SASL/PLAIN and their passwords."""
        self.scram_users = _users("kohort.sasl.scram.users", self.kohort_sasl_scram_users)
        """The users of SCRAM that a start creates, and their passwords."""
        for name in self.super_user_names:
            try:
                Principal.parse(name)
            except ValueError as error:
                raise SettingsError(f"super.users: {error}, separated by semicolons") from error

    def bounds_of(self, name: str) -> tuple[int, int]:
        """Return from where to where a group's own setting works. Raises SettingsError if the broker's is outside."""
        group_type, _, kind = name.partition(".")
        bound_kind = kind.removeprefix("num.")
        low_name, high_name = (f"group.{group_type}.{bound}.{bound_kind}" for bound in ("min", "max"))
        own_name = f"group.{group_type}.{kind}"
        low = self.get(low_name) if low_name in BROKER else 0
        high = self.get(high_name) if high_name in BROKER else INT_MAX
        own = self.get(own_name)
        if not low <= own <= high:
            raise SettingsError(f"{own_name} ({own}) is not between {low_name} ({low}) and {high_name} ({high})")
        return low, high


def require_distinct(name: str, tags: Names) -> None:
    """Raise SettingsError where a tag is named twice."""
    if len(set(tags)) < len(tags):
        raise SettingsError(f"{name} must not contain duplicate tag keys.")


def _users(setting: str, text: str | None) -> dict[str, str]:
    users = {}
    for item in filter(None, (text or "").split(",")):
        name, colon, password = item.partition(":")
        if not (name.strip() and colon):
            raise refused(setting, HIDDEN, "NAME:PASSWORD, separated by commas")
        users[name.strip()] = password
    return users


class ListenerConfig(ListenerSettings):
    """The settings of one listener in force, or of one SASL mechanism there: the listener's own, else the broker's."""

    def __init__(self, broker: Config, listener: str, mechanism: str | None = None) -> None:
        self.broker = broker
        self._listener = listener
        prefix = f"listener.name.{listener.lower()}."
        self._prefixes = [prefix] if mechanism is None else [f"{prefix}{mechanism.lower()}.", prefix]

    def get(self, name: str) -> Any:
        """Return the value in force of a setting by Kafka's name."""
        own = self.own(name)
        return self.broker.get(name) if own is None else own

    def of_mechanism(self, mechanism: str) -> ListenerConfig:
        """Return the settings of one mechanism of the listener."""
        return ListenerConfig(self.broker, self._listener, mechanism)

    def own(self, name: str) -> Any:
        """Return the value that was given for the listener, or None."""
        static = self.broker.static
        return next((static[each + name] for each in self._prefixes if each + name in static), None)


class ResourceConfig:
    """The settings of one topic or one group: its own where set, the broker's default elsewhere."""

    table: Table
    own_source: Source

    def __init__(self, broker: Config, own: Mapping[str, str] | None = None) -> None:
        self.broker = broker
        self.texts: dict[str, str] = {}
        self._own: dict[str, Value] = {}
        for name, text in (own or {}).items():
            self.alter(name, text)

    def alter(self, name: str, text: str | None) -> None:
        """Set one of the own settings, or with None remove it. Raises SettingsError."""
        setting = self.table.find(name)
        if text is None:
            self.texts.pop(name, None)
            self._own.pop(name, None)
        else:
            self._own[name] = setting.parse(text)
            self.texts[name] = text

    def get(self, name: str) -> Any:
        """Return the value in force of a setting by Kafka's name."""
        return self._own[name] if name in self._own else self.broker.default_of(self.table[name])

    def source(self, name: str) -> Source:
        """Return the layer that gives a setting its value."""
        if name in self._own:
            return self.own_source
        for broker_name in self.table[name].broker_names:
            if self.broker.get(broker_name) is not None:
                return self.broker.source(broker_name)
        return Source.DEFAULT


class TopicConfig(ResourceConfig, TopicSettings):
    """The settings of one topic in force."""

    table = TOPIC
    own_source = Source.TOPIC


class GroupResourceConfig(ResourceConfig, GroupResourceSettings):
    """The settings of one group in force; each works within the broker's bounds."""

    table = GROUP
    own_source = Source.GROUP

    def get(self, name: str) -> Any:
        """Return the value in force: the group's own, or the nearest that the broker allows."""
        value = super().get(name)
        if not isinstance(value, int):
            return value
        low, high = self.broker.bounds_of(name)
        return max(low, min(high, value))

    def check(self) -> None:
        """Raise SettingsError when the settings contradict each other."""
        require_distinct("streams.rack.aware.assignment.tags", self.streams_rack_aware_assignment_tags)
        for kind, session_ms, interval_ms in (
            ("consumer", self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms),
            ("streams", self.streams_session_timeout_ms, self.streams_heartbeat_interval_ms),
        ):
            if session_ms <= interval_ms:
                text = f"{kind}.session.timeout.ms ({session_ms}) is not above {kind}.heartbeat.interval.ms"
                raise SettingsError(f"{text} ({interval_ms})")
