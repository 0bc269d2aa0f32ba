"""What a membership's log says: each line an event and its cause."""

from __future__ import annotations

import logging

from kohort.member import MemberConfig, effects
from kohort.member.consumer_effects import ConsumerHeartbeat

log = logging.getLogger("kohort.client.membership.membership")

POLL_LATE = (
    "group %s: no poll for two thirds of max_poll_interval_ms=%s: in %d ms this member gives up its partitions;"
    " lower max_poll_records, or raise max_poll_interval_ms"
)
POLL_MISSED = "group %s: this member %s until the next poll: there was none for max_poll_interval_ms=%s"


def log_effect(group_id: str, effect: effects.Effect, config: MemberConfig) -> None:
    """Write what the member asks for, where that is worth a line."""
    match effect:
        case effects.Join(identity, _, reason):
            log.info("group %s: member %s joins: %s", group_id, identity.member_id, reason)
        case ConsumerHeartbeat(member_id=member_id, member_epoch=0, cause=cause):
            log.info("group %s: member %s joins: %s", group_id, member_id, cause or "it is new")
        case effects.Leave(identity, reason):
            log.info("group %s: member %s leaves: %s", group_id, identity.member_id, reason)
        case ConsumerHeartbeat(member_id=member_id, cause=cause) if effect.is_leave:
            log.info("group %s: member %s leaves: %s", group_id, member_id, cause)
        case effects.PollLate(left_ms):
            log.warning(POLL_LATE, group_id, config.max_poll_interval_ms, left_ms)
        case effects.PollMissed(is_leaving):
            what = "leaves the group" if is_leaving else "sends no more heartbeats"
            log.warning(POLL_MISSED, group_id, what, config.max_poll_interval_ms)
