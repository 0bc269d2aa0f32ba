"""How many groups a broker takes, and how much a member may send about itself.

Every member is in memory and written to the log, so that a client could otherwise use up both.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.group.commands import Command, CommitOffsets, ConsumerHeartbeat, Join
from kohort.node.configuration.config import Config
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.node.rate_limited_log import RateLimitedLog
from kohort.node.timers import NodeClock


class GroupLimits:
    """Decides which commands may make a group, or a member as large as it is."""

    def __init__(self, config: Config, clock: NodeClock, partitions: Sequence[OffsetsPartition]) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._warnings = RateLimitedLog()

    def admits(self, hosted: OffsetsPartition, command: Command) -> bool:
        """Whether a command may be decided; if not, a line in the log states why."""
        kind = type(command)
        if kind is not Join and kind is not ConsumerHeartbeat and kind is not CommitOffsets:
            return True
        if command.group_id not in hosted.shard.groups:
            count, most = sum(len(each.shard.groups) for each in self._partitions), self._config.kohort_groups_max
            if count >= most:
                self._log(command, "kohort.groups.max", f"there are {count} groups already, the limit is {most}")
                return False
        size, most = _size(command), self._config.kohort_group_member_max_bytes
        if size > most:
            why = f"its member sends {size} bytes about itself, the limit is {most}"
            self._log(command, "kohort.group.member.max.bytes", why)
        return size <= most

    def _log(self, command: Command, setting: str, why: str) -> None:
        text = "group %r was refused: %s (%s)"
        self._warnings.warning(setting, self._clock.now_ms, text, command.group_id, why, setting)


def _size(command: Command) -> int:
    """Return how many bytes a member sends about itself."""
    if isinstance(command, Join):
        return sum(len(name) + len(metadata) for name, metadata in command.protocols)
    if isinstance(command, ConsumerHeartbeat):
        return sum(map(len, command.subscribed_topic_names or ())) + len(command.subscribed_topic_regex or "")
    return 0
