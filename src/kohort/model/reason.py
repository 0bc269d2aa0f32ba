"""Why a member joins or speaks up, as the coordinator understands it: the typed reasons of KIP-423's first form.

They travel in JoinGroup's free text `Reason` (v8, KIP-800) under these names. Any other text, and every version that
cannot say one, is UNKNOWN and decides nothing. A heartbeat of the consumer protocol has reasons of its own (KIP-848).
"""

from __future__ import annotations

from enum import StrEnum

MAX_REASON_LENGTH = 255
"""Characters of a reason that are sent and kept, in joins and leaves; the rest is cut off (KIP-800)."""


class JoinReason(StrEnum):
    """A reason that acts. A change of what a member offers outranks it."""

    BLIND = "blind"
    """A start, or a retry: nothing that the member knows of has changed."""
    TOPIC_METADATA_CHANGE = "topic_metadata_change"
    """The leader saw topics change: the group must rebalance."""
    UNKNOWN = "unknown"


def join_reason(text: str | None) -> JoinReason:
    """Return what a JoinGroup's reason means to the coordinator."""
    match text:
        case JoinReason.BLIND:
            return JoinReason.BLIND
        case JoinReason.TOPIC_METADATA_CHANGE:
            return JoinReason.TOPIC_METADATA_CHANGE
        case _:
            return JoinReason.UNKNOWN


class HeartbeatReason(StrEnum):
    """Why a member of the consumer protocol says its standby copies' lags in this heartbeat; each one acts."""

    STANDBY_CAUGHT_UP = "standby_caught_up"
    """A copy's lag has fallen to `acceptable.recovery.lag` or below: it could take over."""
    STANDBY_FALLING_BEHIND = "standby_falling_behind"
    """A copy's lag has grown for a while."""
