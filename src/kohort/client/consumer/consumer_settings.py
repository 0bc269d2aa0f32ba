"""Which settings of a consumer go together: some belong to one group protocol, and mean nothing in the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, cast

from kohort.assign.range import RangeAssignor
from kohort.assign.spec import Assignor
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.client.cluster.list_offsets import READ_COMMITTED, READ_UNCOMMITTED
from kohort.client.consumer.deserializers import Deserializer, Deserializers
from kohort.client.consumer.topic_subscription import Wanted
from kohort.client.membership.protocol_switch import PROTOCOLS, GroupProtocol
from kohort.client.settings import SecuritySettings
from kohort.member.rebalance_strategy import strategy_for

ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
DEFAULT_ASSIGNORS: tuple[Assignor, ...] = (RangeAssignor(), CooperativeStickyAssignor())
DEFAULT_SESSION_TIMEOUT_MS = 45_000
DEFAULT_HEARTBEAT_INTERVAL_MS = 3_000


def check_settings(isolation_level: str, group_id: str | None, session_timeout_ms: int, heartbeat_ms: int) -> None:
    """Refuse what cannot be meant, in whichever protocol. Raises ValueError."""
    if isolation_level not in ISOLATION:
        raise ValueError(f"isolation_level={isolation_level!r} is not one of {', '.join(ISOLATION)}")
    if heartbeat_ms >= session_timeout_ms:
        raise ValueError("heartbeat_interval_ms must be less than session_timeout_ms, a third of it at most")
    if group_id == "":
        raise ValueError("group_id is empty: name a group, or pass None to read without one")


class NativeSettings(TypedDict, total=False):
    """Settings that only mean something in the consumer protocol.

    `acceptable_recovery_lag` (10,000) and `lag_growth_ms` (60,000) say when the group is sent what
    `report_standby_lag` reports. `protocol_check_ms` (60,000) is how often a member of `group_protocol="auto"` that is
    in the classic protocol looks whether it may leave it.
    """

    acceptable_recovery_lag: int
    lag_growth_ms: int
    protocol_check_ms: int


class ConsumerSettings(NativeSettings, SecuritySettings, total=False):
    """Those, those of security, and old names.

    `group_remote_assignor` is the assignor that the broker is to use. `key_deserializer` and `value_deserializer` make
    what a `Record` holds of its bytes, except of nulls; they must not block. Where one raises, `poll` raises
    `DeserializationFailed`, and the position stays at the record.
    """

    group_remote_assignor: str | None
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    assignor: str | None
    protocol: GroupProtocol


def native_settings(settings: ConsumerSettings) -> NativeSettings:
    """Return the settings that go to the membership as they are."""
    return cast(
        NativeSettings, {name: value for name, value in settings.items() if name in NativeSettings.__annotations__}
    )


def _check_assignors(assignors: Sequence[Assignor]) -> None:
    """Refuse what is no assignor, and what does not go together. Raises TypeError, ValueError."""
    if isinstance(assignors, str) or not isinstance(assignors, Sequence):
        raise TypeError(f"assignors={assignors!r}: expected a list of assignors, such as [CooperativeStickyAssignor()]")
    for each in assignors:
        if isinstance(each, type | str) or not hasattr(each, "assign"):
            raise TypeError(f"assignors: {each!r} is no assignor; pass objects, such as CooperativeStickyAssignor()")
    strategy_for(assignors)


def check_protocol(
    protocol: GroupProtocol,
    assignors: Sequence[Assignor],
    session_timeout_ms: int,
    heartbeat_interval_ms: int,
    assignor: str | None,
) -> None:
    """Refuse settings of the protocol that is not spoken, as Java does. Raises TypeError, ValueError."""
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
            " group_remote_assignor='uniform' or 'range' says how"
        )


def deserializers(settings: ConsumerSettings) -> Deserializers | None:
    """Return the functions that make keys and values, None where there are none."""
    key, value = settings.get("key_deserializer"), settings.get("value_deserializer")
    return None if key is None and value is None else Deserializers(key, value)


def check_wanted(protocol: GroupProtocol, group_id: str | None, wanted: Wanted) -> None:
    """Refuse expressions that nobody there can resolve. Raises ValueError."""
    if not wanted.for_broker:
        return
    if protocol == "classic" or group_id is None:
        raise ValueError(
            "a SubscriptionPattern is resolved by the broker, for a group of the consumer protocol: pass a group_id and"
            " group_protocol='consumer' or 'auto', or a compiled expression for this client to resolve"
        )
    if protocol == "auto" and (text := wanted.unreadable()) is not None:
        raise ValueError(
            f"Python cannot read the expression {text!r}, which group_protocol='auto' needs where the group is classic:"
            " pass group_protocol='consumer', or an expression that both RE2 and Python read"
        )
