"""Settings of a consumer: their names, types and defaults, and which of them go together.

Some belong to one group protocol and mean nothing in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Required

from kohort.assign.range import RangeAssignor
from kohort.assign.spec import Assignor
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.client.cluster.offset_specs import EARLIEST, ISOLATION, LATEST
from kohort.client.consumer.batch import Deserializer, Deserializers
from kohort.client.consumer.topic_subscription import TopicSubscription
from kohort.client.membership.protocol_switch import PROTOCOLS, GroupProtocol
from kohort.client.rebalance_listener import RebalanceListener
from kohort.client.settings import AutoOffsetReset, ClientConfig, ClientSettings, IsolationLevel
from kohort.member.rebalance_strategy import protocol_for

DEFAULT_ASSIGNORS: tuple[Assignor, ...] = (RangeAssignor(), CooperativeStickyAssignor())
DEFAULT_SESSION_TIMEOUT_MS = 45_000
DEFAULT_HEARTBEAT_INTERVAL_MS = 3_000

_RESET = {"earliest": EARLIEST, "latest": LATEST, "none": None}


class ConsumerSettings(ClientSettings, total=False):
    """The keyword arguments of `Consumer`; `ConsumerConfig` has their defaults and explains them."""

    bootstrap_servers: Required[str | Sequence[str]]
    group_id: str | None
    group_instance_id: str | None
    auto_offset_reset: AutoOffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    isolation_level: IsolationLevel
    check_crcs: bool
    assignors: Sequence[Assignor]
    group_protocol: GroupProtocol
    group_remote_assignor: str | None
    acceptable_recovery_lag: int
    lag_growth_ms: int
    protocol_check_ms: int
    listener: RebalanceListener | None
    exclude_internal_topics: bool
    client_rack: str | None
    metadata_max_age_ms: int
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    assignor: str | None
    protocol: GroupProtocol


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ConsumerConfig(ClientConfig):
    """What every part of a consumer reads; made of `ConsumerSettings`, whose old names and security are resolved.

    `group_remote_assignor` is the assignor that the broker is to use. `acceptable_recovery_lag` and `lag_growth_ms` are
    when the group is sent what `report_standby_lag` reports; `protocol_check_ms` is how often a member of
    `group_protocol="auto"` that is in the classic protocol checks whether it may leave it. `key_deserializer` and
    `value_deserializer` make what a `Record` holds of its bytes, except of nulls; they must not block. Where one
    raises, `poll` raises `DeserializationFailed`, and the position stays at the record.
    Raises TypeError, ValueError for settings that do not go together.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    auto_offset_reset: AutoOffsetReset = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = DEFAULT_HEARTBEAT_INTERVAL_MS
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    isolation_level: IsolationLevel = "read_uncommitted"
    check_crcs: bool = True
    assignors: Sequence[Assignor] = DEFAULT_ASSIGNORS
    group_protocol: GroupProtocol = "classic"
    group_remote_assignor: str | None = None
    acceptable_recovery_lag: int = 10_000
    lag_growth_ms: int = 60_000
    protocol_check_ms: int = 60_000
    listener: RebalanceListener | None = None
    exclude_internal_topics: bool = True
    client_rack: str | None = None
    metadata_max_age_ms: int = 300_000
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    def __post_init__(self) -> None:
        check_member(
            self.group_id,
            self.isolation_level,
            self.session_timeout_ms,
            self.heartbeat_interval_ms,
            self.group_protocol,
            self.assignors,
            self.group_remote_assignor,
        )

    @property
    def is_auto_committing(self) -> bool:
        """Whether finished records are committed without `commit`."""
        return self.enable_auto_commit and self.group_id is not None

    @property
    def isolation(self) -> int:
        """The isolation level as a number of the protocol."""
        return ISOLATION[self.isolation_level]

    @property
    def reset_timestamp(self) -> int | None:
        """The timestamp of ListOffsets that `auto_offset_reset` stands for, None for "none"."""
        return _RESET[self.auto_offset_reset]

    @property
    def deserializers(self) -> Deserializers | None:
        """The functions that make keys and values, None where there are none."""
        if self.key_deserializer is None and self.value_deserializer is None:
            return None
        return Deserializers(self.key_deserializer, self.value_deserializer)

    def check_subscription(self, wanted: TopicSubscription) -> None:
        """Refuse expressions that neither the broker nor this client can resolve. Raises ValueError."""
        if not wanted.for_broker:
            return
        if self.group_protocol == "classic" or self.group_id is None:
            raise ValueError(
                "a SubscriptionPattern is resolved by the broker, for a group of the consumer protocol: pass a group_id"
                " and group_protocol='consumer' or 'auto', or a compiled expression for this client to resolve"
            )
        if self.group_protocol == "auto" and (text := wanted.unreadable()) is not None:
            raise ValueError(
                f"Python cannot read the expression {text!r}, which group_protocol='auto' needs where the group is"
                " classic: pass group_protocol='consumer', or an expression that both RE2 and Python read"
            )


def _check_assignors(assignors: Sequence[Assignor]) -> None:
    """Refuse what is no assignor, and what does not go together. Raises TypeError, ValueError."""
    if isinstance(assignors, str) or not isinstance(assignors, Sequence):
        raise TypeError(f"assignors={assignors!r}: expected a list of assignors, such as [CooperativeStickyAssignor()]")
    for each in assignors:
        if isinstance(each, type | str) or not hasattr(each, "assign"):
            raise TypeError(f"assignors: {each!r} is no assignor; pass objects, such as CooperativeStickyAssignor()")
    protocol_for(assignors)


def check_member(
    group_id: str | None,
    isolation_level: str,
    session_timeout_ms: int,
    heartbeat_interval_ms: int,
    protocol: GroupProtocol,
    assignors: Sequence[Assignor],
    assignor: str | None,
) -> None:
    """Refuse what cannot be meant, and settings of the protocol that is not spoken, as Java does.

    Raises TypeError, ValueError.
    """
    if isolation_level not in ISOLATION:
        raise ValueError(f"isolation_level={isolation_level!r} is not one of {', '.join(ISOLATION)}")
    if heartbeat_interval_ms >= session_timeout_ms:
        raise ValueError("heartbeat_interval_ms must be less than session_timeout_ms, a third of it at most")
    if group_id == "":
        raise ValueError("group_id is empty: name a group, or pass None to read without one")
    _check_assignors(assignors)
    if protocol not in PROTOCOLS:
        raise ValueError(f"group_protocol={protocol!r} is not one of {', '.join(PROTOCOLS)}")
    if protocol == "classic" and assignor is not None:
        raise ValueError(
            f"group_remote_assignor={assignor!r} names an assignor of the broker, which the classic protocol does not"
            " use: pass group_protocol='consumer' or 'auto', or an assignor of this client by assignors=(…)"
        )
    if protocol != "consumer":
        return
    foreign = {
        "assignors": tuple(assignors) != DEFAULT_ASSIGNORS,
        "session_timeout_ms": session_timeout_ms != DEFAULT_SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": heartbeat_interval_ms != DEFAULT_HEARTBEAT_INTERVAL_MS,
    }
    if given := [name for name, is_given in foreign.items() if is_given]:
        raise ValueError(
            f"group_protocol='consumer' has no {' and no '.join(given)}: the broker sets timeouts and intervals"
            " (group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms) and assigns;"
            " group_remote_assignor='uniform' or 'range' selects how"
        )
