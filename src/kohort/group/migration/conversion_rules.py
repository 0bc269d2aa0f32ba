"""What a group must be to change its type while it lives, rule by rule: for the coordinator, and for plans.

Kafka refuses in these cases as well, with GROUP_ID_NOT_FOUND, but for the version of the embedded protocol, which the
specification demands, with INVALID_REQUEST, and `kohort.group.migration.min.embedded.version` lowers. Groups without
members change type under every policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kohort.assign.user_data import MARK, decode_generation, encode_generation
from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.cause import first_few
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

UPGRADING = ("bidirectional", "upgrade")
DOWNGRADING = ("bidirectional", "downgrade")
_COOPERATIVE_STICKY = "cooperative-sticky"  # whose members send the generation of their assignment, and no more


class Obstacle(NamedTuple):
    """Something that prevents a group's conversion: the rule that is broken, who breaks it, and that in words."""

    rule: str
    member_ids: tuple[str, ...]
    text: str


def upgrade_refusal(group: ClassicGroup, settings: GroupSettings) -> tuple[ErrorCode, str] | None:
    """Return why a classic group cannot become a consumer group, naming the members, or None. Walks all members."""
    obstacles = upgrade_obstacles(group, settings)
    if not obstacles:
        return None
    reasons = "; ".join(obstacle.text for obstacle in obstacles)
    is_old = any(obstacle.rule == "version" for obstacle in obstacles)
    error = ErrorCode.INVALID_REQUEST if is_old else ErrorCode.GROUP_ID_NOT_FOUND
    return error, f"group {group.group_id} cannot become a consumer group: {reasons}"


def upgrade_obstacles(group: ClassicGroup, settings: GroupSettings) -> tuple[Obstacle, ...]:
    """Return all that prevents a classic group from becoming a consumer group. Walks all members.

    A group without members has none.
    """
    return tuple(_upgrade_obstacles(group, settings)) if group.members else ()


def _upgrade_obstacles(group: ClassicGroup, settings: GroupSettings) -> Iterator[Obstacle]:
    if settings.migration_policy.lower() not in UPGRADING:
        yield Obstacle("policy", (), f"the migration policy is {settings.migration_policy}")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        yield Obstacle("type", (), f"its protocol type is {group.protocol_type}, not {CONSUMER_PROTOCOL_TYPE}")
        return
    if len(group.members) > settings.consumer_max_size:
        text = f"it has {len(group.members)} members, and a consumer group {settings.consumer_max_size} at most"
        yield Obstacle("size", (), text)
    old: dict[int, list[str]] = {}
    unreadable: list[str] = []
    custom: list[str] = []
    for member_id, member in sorted(group.members.items()):
        subscription = subscription_of(member, settings)
        if subscription is None or not _is_readable(member, settings):
            unreadable.append(member_id)
        elif subscription.version < settings.min_embedded_version:
            old.setdefault(subscription.version, []).append(member_id)
        elif _has_state(group, member, settings):
            custom.append(member_id)
    for version, member_ids in sorted(old.items()):
        text = f"embedded protocol version {version} where {settings.min_embedded_version} is needed"
        yield _of_members("version", member_ids, text)
    if unreadable:
        yield _of_members("format", unreadable, "a subscription or an assignment that cannot be read")
    if custom:
        yield _of_members("assignor", custom, ASSIGNOR_DATA)


ASSIGNOR_DATA = (
    "an assignment with an assignor's own data, which would be lost: an unsupported custom assignor is in use;"
    " switch to a default assignor before the upgrade"
)


def _of_members(rule: str, member_ids: list[str], text: str) -> Obstacle:
    subject, verb = ("members", "have") if len(member_ids) > 1 else ("member", "has")
    return Obstacle(rule, tuple(member_ids), f"{subject} {first_few(member_ids)} {verb} {text}")


def subscription_of(member: Member, settings: GroupSettings) -> Subscription | None:
    """Return the subscription that counts for a consumer group: that of the protocol which the member likes best."""
    return settings.subscription_of(member.protocols[0][1]) if member.protocols else None


def _is_readable(member: Member, settings: GroupSettings) -> bool:
    return not member.assignment or settings.assignment_of(member.assignment) is not None


def _has_state(group: ClassicGroup, member: Member, settings: GroupSettings) -> bool:
    """Whether an assignor left something of its own in the member's assignment."""
    assignment = settings.assignment_of(member.assignment) if member.assignment else None
    user_data = None if assignment is None else assignment.user_data
    subscriptions = (settings.subscription_of(metadata) for _, metadata in member.protocols)
    return is_state(group.protocol_name, user_data, subscriptions, ignores_echoed=settings.ignores_echoed_data)


def is_state(
    assignor: str | None, user_data: bytes | None, subscriptions: Iterable[Subscription | None], *, ignores_echoed: bool
) -> bool:
    """Whether the user data of an assignment prevents its group's conversion: any does, but our leaders' error code.

    With `ignores_echoed` what the member sent itself does not, which librdkafka's leaders send back.
    """
    if not user_data or user_data.startswith(MARK):
        return False
    if not ignores_echoed:
        return True
    if assignor == _COOPERATIVE_STICKY:
        return user_data.removesuffix(MARK) != encode_generation(decode_generation(user_data))
    return all(each is None or each.user_data != user_data for each in subscriptions)


def downgrade_refusal(group: ConsumerGroup, settings: GroupSettings) -> str | None:
    """Return why a consumer group cannot become a classic group, naming the members, or None."""
    obstacles = downgrade_obstacles(group, settings)
    if not obstacles:
        return None
    reasons = "; ".join(obstacle.text for obstacle in obstacles)
    return f"group {group.group_id} cannot become a classic group: {reasons}"


def downgrade_obstacles(group: ConsumerGroup, settings: GroupSettings) -> tuple[Obstacle, ...]:
    """Return all that prevents a consumer group from becoming a classic group. A group without members has none."""
    return tuple(_downgrade_obstacles(group, settings)) if group.members else ()


def _downgrade_obstacles(group: ConsumerGroup, settings: GroupSettings) -> Iterator[Obstacle]:
    if settings.migration_policy.lower() not in DOWNGRADING:
        yield Obstacle("policy", (), f"the migration policy is {settings.migration_policy}")
    if len(group.members) > settings.max_size:
        text = f"it has {len(group.members)} members, and a classic group {settings.max_size} at most"
        yield Obstacle("size", (), text)
    if group.natives:
        native = sorted(member_id for member_id, member in group.members.items() if member.classic is None)
        yield _of_members("native", native, "the consumer protocol")
