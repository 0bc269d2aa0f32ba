"""Why something happened to a group, a value carried by the event; and the reasons that members give.

The reasons travel in JoinGroup's free text `Reason` (v8, KIP-800) under the names of KIP-423's first form. Any other
text, and every version that cannot send one, is UNKNOWN and decides nothing. A heartbeat of the consumer protocol has
reasons of its own (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

NAMED = 5
"""How many members a text names before it only counts them."""


def first_few(names: Sequence[str], most: int = NAMED) -> str:
    """Return the first of some names, and how many others there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class CauseKind(StrEnum):
    """What set an event off. The value is the name that people and JSON see."""

    MEMBER_JOINED = "member_joined"
    MEMBER_REJOINED = "member_rejoined"
    LEADER_REJOINED = "leader_rejoined"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PROTOCOL_CHANGED = "protocol_changed"
    TOPIC_METADATA_CHANGED = "topic_metadata_changed"
    ACLS_CHANGED = "acls_changed"
    PARTITIONS_TO_REVOKE = "partitions_to_revoke"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    MEMBER_LEFT = "member_left"
    MEMBER_REMOVED = "member_removed"
    SESSION_TIMEOUT = "session_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    NEW_MEMBER_TIMEOUT = "new_member_timeout"
    MEMBERS_REACHED = "members_reached"
    INITIAL_DELAY_OVER = "initial_delay_over"
    JOINS_STOPPED = "joins_stopped"
    ALL_MEMBERS_JOINED = "all_members_joined"
    MEMBER_ID_ISSUED = "member_id_issued"
    MEMBER_SYNCED = "member_synced"
    LEADER_SYNCED = "leader_synced"
    ASSIGNMENT_FAILED = "assignment_failed"
    SYNC_HOLD_OVER = "sync_hold_over"
    APPEND_FAILED = "append_failed"
    GROUP_TOO_LARGE = "group_too_large"
    GROUP_CREATED = "group_created"
    COORDINATOR_LOADED = "coordinator_loaded"
    COORDINATOR_UNLOADED = "coordinator_unloaded"
    ADMIN_REQUEST = "admin_request"
    OFFSETS_COMMITTED = "offsets_committed"
    OFFSETS_EXPIRED = "offsets_expired"
    TOPIC_DELETED = "topic_deleted"
    MEMBER_RECONCILED = "member_reconciled"
    PARTITIONS_RELEASED = "partitions_released"
    MEMBER_CHANGED = "member_changed"
    GROUP_SETTINGS_CHANGED = "group_settings_changed"
    STATIC_MEMBER_LEFT = "static_member_left"
    REVOCATION_TIMEOUT = "revocation_timeout"
    REGEX_RESOLVED = "regex_resolved"
    ASSIGNOR_CHANGED = "assignor_changed"
    STANDBY_LAG = "standby_lag"
    TARGET_MEASURED = "target_measured"
    TOPOLOGY_DESCRIBED = "topology_described"
    GROUP_CONVERTED = "group_converted"
    CLASSIC_MEMBERS_CALLED = "classic_members_called"
    JOIN_REFUSED = "join_refused"
    NOT_OBSERVED = "not_observed"
    """Of events that are derived from traffic: the request that led to them went another way."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an event happened: the kind, the member behind it if there is one, a detail in words, and when.

    `at_ms` is milliseconds since the epoch by the coordinator's clock. `detail` adds what the kind leaves open,
    such as the member's own reason (KIP-800) or the timeout that passed; it may be empty.
    """

    kind: CauseKind
    at_ms: int
    member_id: str | None = None
    detail: str = ""


MAX_REASON_LENGTH = 255
"""Characters of a reason that are sent and stored, in joins and leaves; the rest is cut off (KIP-800)."""


class JoinReason(StrEnum):
    """A reason that acts. A change of what a member offers outranks it."""

    BLIND = "blind"
    """A start, or a retry: nothing that the member knows of has changed."""
    TOPIC_METADATA_CHANGE = "topic_metadata_change"
    """The leader saw topics change: the group must rebalance."""
    UNKNOWN = "unknown"


def join_reason(text: str | None) -> JoinReason:
    """Return what a JoinGroup's reason means to the coordinator."""
    return JoinReason(text) if text in tuple(JoinReason) else JoinReason.UNKNOWN


class HeartbeatReason(StrEnum):
    """Why a member of the consumer protocol reports its standby copies' lags in this heartbeat; each one acts."""

    STANDBY_CAUGHT_UP = "standby_caught_up"
    """A copy's lag has fallen to `acceptable.recovery.lag` or below: it could take over."""
    STANDBY_FALLING_BEHIND = "standby_falling_behind"
    """A copy's lag has grown for a while."""
