"""What single groups are configured with (resource type GROUP of the config APIs), by group id.

A group need not exist to have settings. Every change is an entry of the metadata log before it works. A value outside
the broker's bounds is kept, since other bounds may make it right, and works as the nearest that they allow.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from kohort.group.coordinator_settings import GroupConfig
from kohort.node.configuration.config import Config, ConfigError, GroupResourceConfig
from kohort.node.metadata_log import Entry

log = logging.getLogger("kohort.node")


class GroupConfigs:
    """The groups that have settings of their own."""

    def __init__(self, broker: Config) -> None:
        self._broker = broker
        self._own: dict[str, GroupResourceConfig] = {}
        self._effective: dict[str, GroupConfig] = {}
        self._default = _effective(GroupResourceConfig(broker))

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the groups that have settings, sorted."""
        return iter(sorted(self._own))

    def get(self, group_id: str) -> GroupResourceConfig:
        """Return the settings of a group, to be read only."""
        return self._own.get(group_id) or GroupResourceConfig(self._broker)

    def effective(self, group_id: str) -> GroupConfig:
        """Return what a group works with: its own settings within the broker's bounds, else the broker's."""
        return self._effective.get(group_id, self._default)

    def apply(self, entry: Entry) -> None:
        """Fold one change of a group's settings."""
        group_id, name, text = entry["group"], entry["name"], entry["value"]
        own = self._own.get(group_id) or GroupResourceConfig(self._broker)
        try:
            own.alter(name, text)
        except ConfigError as error:
            log.warning("a stored setting of group %s is no longer valid: %s", group_id, error)
            return
        if not own.texts:
            self._own.pop(group_id, None)
            self._effective.pop(group_id, None)
            return
        self._own[group_id] = own
        self._effective[group_id] = _effective(own)
        if text is not None and own.get(name) != int(text):
            low, high = self._broker.bounds_of(name)
            log.warning(
                "%s=%s of group %s is outside the broker's bounds, %d to %d: it works as %d",
                name, text, group_id, low, high, own.get(name),
            )  # fmt: skip

    def entries(self, now_ms: int) -> Iterator[Entry]:
        """Yield the entries that give these settings."""
        for group_id, own in sorted(self._own.items()):
            yield from entries(group_id, sorted(own.texts.items()), now_ms)


def entries(group_id: str, changes: Iterable[tuple[str, str | None]], now_ms: int) -> list[Entry]:
    """Return the entries that set or (None) remove settings of a group that were checked before."""
    return [
        {"type": "group_config", "group": group_id, "name": name, "value": value, "at_ms": now_ms}
        for name, value in changes
    ]


def _effective(own: GroupResourceConfig) -> GroupConfig:
    return GroupConfig(
        session_timeout_ms=own.consumer_session_timeout_ms,
        heartbeat_interval_ms=own.consumer_heartbeat_interval_ms,
        assignment_interval_ms=own.consumer_assignment_interval_ms,
    )
