"""Settings of a consumer: their names, types and defaults, and which of them go together.

Some belong to one group protocol and mean nothing in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Required, get_args

from kohort.assign.range import RangeAssignor
from kohort.assign.spec import Assignor
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.client.cluster.offset_specs import ISOLATION, RESET_FORMS, reset_timestamp
from kohort.client.consumer.batch import Deserializer, Deserializers
from kohort.client.consumer.topic_subscription import TopicSubscription
from kohort.client.membership.protocol_switch import PROTOCOLS, GroupProtocol
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.client.settings import ClientConfig, ClientSettings, IsolationLevel
from kohort.client.tracing import TracerProvider
from kohort.member.rebalance_strategy import protocol_for
from kohort.model.setting import FUNCTION, OBJECT, STRING, check_fields, setting, settings_of
from kohort.net.environment import wall_clock

DEFAULT_ASSIGNORS: tuple[Assignor, ...] = (RangeAssignor(), CooperativeStickyAssignor())


class SharedConsumerSettings(ClientSettings, total=False):
    """The keyword arguments of `Consumer` but its cluster, its group and its deserializers."""

    group_instance_id: str | None
    auto_offset_reset: str
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
    tracer_provider: TracerProvider | None


class ConsumerSettings(SharedConsumerSettings, total=False):
    """The keyword arguments of `Consumer` but its deserializers, which are its type; `ConsumerConfig` explains them."""

    bootstrap_servers: Required[str | Sequence[str]]
    group_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ConsumerConfig(ClientConfig):
    """What every part of a consumer reads; made of `ConsumerSettings`, whose security is resolved.

    Raises TypeError, ValueError for a setting that cannot be meant, and for settings that do not go together.
    """

    # fmt: off
    group_id: str | None = setting(None, "The group to be a member of; None reads without one.", 1, kind=STRING,
        expected="the name of a group, or None to read without one")
    group_instance_id: str | None = setting(None, "The name of a static member (KIP-345).", kind=STRING)
    auto_offset_reset: str = setting("latest", "Where reading begins without a committed offset: none raises instead, "
        "by_duration:PT1H begins an hour ago (KIP-1106).", expected=RESET_FORMS)
    enable_auto_commit: bool = setting(True, "Whether finished records are committed without `commit`.")
    auto_commit_interval_ms: int = setting(5_000, "How often finished records are committed.", 1)
    session_timeout_ms: int = setting(45_000,
        "Classic protocol: a member that sends no heartbeat for so long is evicted.", 1)
    heartbeat_interval_ms: int = setting(3_000, "Classic protocol: how often heartbeats are sent.", 1)
    max_poll_interval_ms: int = setting(300_000, "A member that does not poll for so long leaves; its rebalance "
        "timeout.", 1)
    max_poll_records: int = setting(500, "How many records `poll` returns at most.", 1)
    fetch_min_bytes: int = setting(1, "How much data a broker waits for before it answers a fetch.", 0)
    fetch_max_wait_ms: int = setting(500, "How long a broker waits for fetch_min_bytes.", 0)
    fetch_max_bytes: int = setting(52_428_800, "How much one fetch returns at most, its first batch excepted.", 1)
    max_partition_fetch_bytes: int = setting(1_048_576,
        "How much of one partition a fetch returns at most, its first batch excepted.", 1)
    isolation_level: IsolationLevel = setting("read_uncommitted",
        "Whether records of open and aborted transactions are read.", choices=get_args(IsolationLevel))
    check_crcs: bool = setting(True, "Whether the checksum of each batch is checked.")
    assignors: Sequence[Assignor] = setting(DEFAULT_ASSIGNORS,
        "Classic protocol: the assignors that this member supports, as objects.", kind=OBJECT)
    group_protocol: GroupProtocol = setting("classic",
        "Which protocol members speak; auto moves to the new one when the group does.", choices=PROTOCOLS)
    group_remote_assignor: str | None = setting(None, "The assignor that the broker is to use.", kind=STRING)
    acceptable_recovery_lag: int = setting(10_000,
        "`report_standby_lag` is sent to the group once a copy is at most so many records behind.", 0)
    lag_growth_ms: int = setting(60_000, "`report_standby_lag` is sent, too, once a copy has grown for so long.", 1)
    protocol_check_ms: int = setting(60_000, "How often a member with `group_protocol=\"auto\"` that is in the classic "
        "protocol checks whether it may leave it.", 1)
    listener: RebalanceListener | None = setting(None, "Callbacks of rebalances.", kind=OBJECT, cls=RebalanceListener,
        expected="a kohort.RebalanceListener: derive its class from that one")
    exclude_internal_topics: bool = setting(True, "Whether a pattern leaves out Kafka's internal topics.")
    client_rack: str | None = setting(None, "The rack of this client: replicas of it are read.", kind=STRING)
    metadata_max_age_ms: int = setting(300_000, "How often metadata is fetched without a reason.", 1)
    key_deserializer: Deserializer | None = setting(None, "Makes keys of bytes that are not null; it must not block. "
        "Where it raises, `poll` raises `DeserializationFailed`, and the position stays.", kind=FUNCTION)
    value_deserializer: Deserializer | None = setting(None,
        "Makes values, as key_deserializer makes keys.", kind=FUNCTION)
    tracer_provider: TracerProvider | None = setting(None, "For spans of OpenTelemetry; None: the global one, if the "
        "program has set one.", kind=OBJECT, cls=TracerProvider, expected="a TracerProvider of OpenTelemetry")
    # fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        self.reset_timestamp()
        check_member(self, self.group_protocol, self.group_remote_assignor)

    @property
    def is_auto_committing(self) -> bool:
        """Whether finished records are committed without `commit`."""
        return self.enable_auto_commit and self.group_id is not None

    @property
    def isolation(self) -> int:
        """The isolation level as a number of the protocol."""
        return ISOLATION[self.isolation_level]

    def reset_timestamp(self) -> int | None:
        """Return the timestamp of ListOffsets that `auto_offset_reset` stands for now, None for "none"."""
        return reset_timestamp(self.auto_offset_reset, wall_clock()())

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


class MemberTimes(Protocol):
    """What `check_member` reads of the settings of a consumer, or of a Spark job."""

    @property
    def assignors(self) -> Sequence[Assignor]:
        """The assignors of the classic protocol."""

    @property
    def session_timeout_ms(self) -> int:
        """When a member without heartbeats is evicted."""

    @property
    def heartbeat_interval_ms(self) -> int:
        """How often heartbeats are sent."""


def check_member(
    member: MemberTimes,
    protocol: GroupProtocol,
    remote_assignor: str | None,
    names: tuple[str, str] = ("group_protocol", "group_remote_assignor"),
) -> None:
    """Refuse settings that do not go together, and those of the protocol that is not spoken, as Java does.

    `names` are those of the last two settings. Raises TypeError, ValueError.
    """
    protocol_name, remote_name = names
    if member.heartbeat_interval_ms >= member.session_timeout_ms:
        raise ValueError("heartbeat_interval_ms must be less than session_timeout_ms, a third of it at most")
    _check_assignors(member.assignors)
    if protocol == "classic" and remote_assignor is not None:
        raise ValueError(
            f"{remote_name}={remote_assignor!r} names an assignor of the broker, which the classic protocol"
            f" does not use: pass {protocol_name}='consumer' or 'auto', or an assignor of this client by assignors=(…)"
        )
    defaults = settings_of(ConsumerConfig)
    given = [] if tuple(member.assignors) == DEFAULT_ASSIGNORS else ["assignors"]
    times = ("session_timeout_ms", "heartbeat_interval_ms")
    given += [name for name in times if getattr(member, name) != defaults[name].default]
    if protocol == "consumer" and given:
        raise ValueError(
            f"{protocol_name}='consumer' has no {' and no '.join(given)}: the broker sets timeouts and intervals"
            " (group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms) and assigns;"
            f" {remote_name}='uniform' or 'range' selects how"
        )
