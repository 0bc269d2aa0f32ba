"""What a user reads when its member cannot continue: why, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.member.member_state import MemberConfig
from kohort.model.errors import ErrorCode


def failure_text(code: ErrorCode, config: MemberConfig, protocols: Iterable[str]) -> str:
    """Return the sentence for a fatal error code of JoinGroup, SyncGroup, Heartbeat or OffsetCommit."""
    match code:
        case ErrorCode.FENCED_INSTANCE_ID:
            return (
                f"another member took over group.instance.id {config.instance_id!r}: this one is out of the group for"
                " good; give every static member an id of its own and start it again"
            )
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return (
                f"the group's other members support none of this member's assignors ({', '.join(protocols)}),"
                " or the group belongs to another kind of client: use an assignor that all members have"
            )
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"the broker does not allow session_timeout_ms={config.session_timeout_ms}: stay between its"
                " group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            return "the group is full: raise the broker's group.max.size or stop another member"
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return "this user may not use the group: have READ on the group granted to it"
        case ErrorCode.INVALID_GROUP_ID:
            return "the group id is empty or invalid: pass a group_id"
        case ErrorCode.UNSUPPORTED_VERSION if config.instance_id is not None:
            return "the broker is too old for static members: remove group_instance_id or use Kafka 2.3 or newer"
        case _:
            return code.text


def consumer_failure_text(code: ErrorCode, config: MemberConfig, broker_text: str | None, regex: str | None) -> str:
    """Return the sentence for a fatal error code of ConsumerGroupHeartbeat; `broker_text` is the broker's own."""
    match code:
        case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.GROUP_AUTHORIZATION_FAILED | ErrorCode.INVALID_GROUP_ID:
            return failure_text(code, config, ())
        case ErrorCode.UNRELEASED_INSTANCE_ID:
            advice = (
                f"another live member has group.instance.id {config.instance_id!r}: give every static member an id of"
                " its own, or end the other one first"
            )
        case ErrorCode.UNSUPPORTED_ASSIGNOR:
            advice = (
                f"the broker has no assignor {config.server_assignor!r}: name one of its group.consumer.assignors, or"
                " none for its default"
            )
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            advice = "the group is full: raise the broker's group.consumer.max.size or stop another member"
        case ErrorCode.UNSUPPORTED_VERSION:
            advice = (
                "the broker does not offer the consumer protocol, or not all that this member asks of it: use"
                " group_protocol='classic', or 'auto', or Kafka 4.0 or newer with group.version=1"
            )
        case ErrorCode.GROUP_ID_NOT_FOUND:
            advice = (
                "the broker does not take this member into the group: its members use the classic protocol and cannot"
                " be moved, or the group was deleted; use group_protocol='classic', or 'auto', or another group_id"
            )
        case ErrorCode.INVALID_REGULAR_EXPRESSION:
            advice = f"the broker cannot read the expression {regex!r}: it takes RE2 syntax, without look-around or \\1"
        case ErrorCode.INVALID_REQUEST:
            advice = (
                "the broker refuses this member: use group_protocol='classic', or 'auto', or end the members it names"
            )
        case _:
            advice = code.text
    return advice if not broker_text else f"{advice} (the broker says: {broker_text})"
