"""Conversions of a live group: to a consumer group when the first native member joins, back when the last goes."""

from __future__ import annotations

from kohort.group.classic_group import ClassicGroup
from kohort.group.commands import Join
from kohort.group.consumer_commands import ConsumerHeartbeat, DowngradeIfDue
from kohort.group.consumer_group import ConsumerGroup
from kohort.group.effects import Effects
from kohort.group.settings import GroupSettings
from kohort.model.cause import Cause


def decide_upgrade(group: ClassicGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a native member, whose heartbeat of epoch 0 has been checked, into a classic group: convert it, or refuse.

    After the conversion the heartbeat is decided again, on the consumer group.
    """
    raise NotImplementedError


def decide_classic_join(group: ConsumerGroup, command: Join, now_ms: int) -> Effects:
    """Let a classic member into an empty consumer group: the group becomes a classic one, on which it is decided."""
    raise NotImplementedError


def upgrade_refusal(group: ClassicGroup, settings: GroupSettings) -> str | None:
    """Return why a classic group cannot become a consumer group, naming the members, or None."""
    raise NotImplementedError


def upgrade(group: ClassicGroup, now_ms: int, settings: GroupSettings, cause: Cause) -> Effects:
    """Make a classic group a consumer group in which everybody owns what it owned."""
    raise NotImplementedError


def downgrade_refusal(group: ConsumerGroup, settings: GroupSettings) -> str | None:
    """Return why a consumer group cannot become a classic group, naming the members, or None."""
    raise NotImplementedError


def downgrade(group: ConsumerGroup, now_ms: int, settings: GroupSettings, cause: Cause) -> Effects:
    """Make a consumer group of classic members a classic group, which then starts a round."""
    raise NotImplementedError


def decide_downgrade(group: ConsumerGroup, command: DowngradeIfDue, now_ms: int, settings: GroupSettings) -> Effects:
    """Make the group classic if its last native member is gone and nothing speaks against it."""
    raise NotImplementedError
