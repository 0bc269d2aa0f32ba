"""Facts of a live group for `migrate` and `what-if`: descriptions, settings of its coordinator, and its events."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kohort.assign.server.catalog import UnknownAssignor, server_assignors
from kohort.assign.server.spec import ServerAssignor
from kohort.cli.cluster import require_group
from kohort.cli.group_state.group_events import recent_history
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import GroupReport, Identity
from kohort.group.migration.conversion_rules import is_state
from kohort.group.migration.migration_plan import Goal, Limits, LiveGroup, LiveMember
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import EVENT_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription

ECHOED = "kohort.group.migration.ignore.echoed.data"
POLICY = "group.consumer.migration.policy"
EMBEDDED = "kohort.group.migration.min.embedded.version"
CONSUMER_SIZE = "group.consumer.max.size"
CLASSIC_SIZE = "group.max.size"
ASSIGNORS = "group.consumer.assignors"

_UNREADABLE = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST)


class ReadGroup(NamedTuple):
    """A group, what is only assumed of it, and its recent history where there are events.

    `limits` and `settings` are those of its coordinator, the settings as far as they may be read.
    """

    group: LiveGroup
    limits: Limits
    settings: dict[str, str]
    doubts: list[str]
    history: GroupReport | None


async def read_facts(args: argparse.Namespace, admin: Admin) -> ReadGroup:
    """Return the facts of a group. Raises CommandFailed."""
    kind = (await require_group(admin, args.group)).group_type
    if kind not in ("", "classic", "consumer"):
        raise CommandFailed(f"{args.group} is a {kind} group: this command knows classic and consumer groups only")
    described = (await admin.describe_groups([args.group]))[args.group]
    topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in await admin.list_topics()}
    history = await recent_history(args.bootstrap_server, args.security, args.group) if EVENT_TOPIC in topics else None
    offers: Mapping[str, tuple[str, ...]] = {} if history is None else history.protocols
    settings = await coordinator_settings(admin, args.group)
    doubts: list[str] = []
    assignor = server_side(args, described, settings, doubts)
    limits = group_limits(settings, assignor, has_consumer_protocol=await admin.has_consumer_protocol(args.group))
    return ReadGroup(live_group(described, topics, limits, offers), limits, settings, doubts, history)


def group_limits(settings: Mapping[str, str], assignor: ServerAssignor, *, has_consumer_protocol: bool) -> Limits:
    """Return what the cluster allows a group, by the settings of its coordinator."""
    return Limits(
        has_consumer_protocol=has_consumer_protocol,
        server_assignor=assignor,
        policy=(settings.get(POLICY) or "").lower() or None,
        min_embedded_version=as_number(settings.get(EMBEDDED)),
        max_consumer_size=as_number(settings.get(CONSUMER_SIZE)),
        max_classic_size=as_number(settings.get(CLASSIC_SIZE)),
        is_ours=EMBEDDED in settings,
        ignores_echoed_data=settings.get(ECHOED) == "true",
    )


def live_group(
    described: GroupDescription,
    topics: Mapping[str, tuple[bytes, int]],
    limits: Limits,
    offers: Mapping[str, tuple[str, ...]],
) -> LiveGroup:
    """Return a group as plans see it. `offers` are the assignors that members offer, as far as events show them."""
    names = Names({each.member_id: Identity(each.client_id, each.instance_id) for each in described.members})
    return LiveGroup(
        described.group_id,
        described.group_type,
        described.state,
        described.protocol_type,
        described.protocol,
        tuple(
            live_member(each, names(each.member_id), offers.get(each.member_id), has_state(each, described, limits))
            for each in described.members
        ),
        topics,
    )


def has_state(member: MemberDescription, group: GroupDescription, limits: Limits) -> bool:
    """Whether a conversion would lose an assignor's user data, which for Apache Kafka any bytes are."""
    if not limits.is_ours:
        return bool(member.assignor_data)
    subscriptions = [member.subscription]
    return is_state(group.protocol, member.assignor_data, subscriptions, ignores_echoed=limits.ignores_echoed_data)


def live_member(
    member: MemberDescription, name: str, offers: tuple[str, ...] | None, has_assignor_data: bool
) -> LiveMember:
    """Return a member as plans see it."""
    topics = frozenset(member.topics) | {partition.topic for partition in member.assignment | member.target}
    return LiveMember(
        member.member_id,
        name,
        member.is_native,
        topics,
        member.assignment,
        member.instance_id,
        member.rack,
        None if member.subscription is None else member.subscription.version,
        member.is_readable,
        has_assignor_data,
        None if member.is_native else offers,
        member.regex,
    )


async def coordinator_settings(admin: Admin, group_id: str) -> dict[str, str]:
    """Return the settings of the broker that coordinates a group, as far as they may be read."""
    from kohort.client.admin.admin import ResourceType

    coordinator = await admin.group_coordinator(group_id)
    try:
        found = await admin.describe_configs(ResourceType.BROKER, str(coordinator.node_id))
    except KafkaError as error:
        if error.code not in _UNREADABLE:
            raise
        return {}
    return {name: entry.value for name, entry in found.items() if entry.value is not None}


def server_side(
    args: argparse.Namespace, group: GroupDescription, settings: Mapping[str, str], doubts: list[str]
) -> ServerAssignor:
    """Return the assignor that the coordinator will run."""
    if args.goal is Goal.CONSUMER and args.assignor is not None:
        try:
            return next(iter(server_assignors([args.assignor]).values()))
        except UnknownAssignor as error:
            raise CommandFailed(f"{error}; of others it cannot be predicted what they move", USAGE) from None
    name = group.protocol if group.group_type == "consumer" and group.protocol else ""
    name = name or settings.get(ASSIGNORS, "uniform").split(",")[0].strip()
    with suppress(UnknownAssignor):
        return next(iter(server_assignors([name]).values()))
    doubts.append(f"the server-side assignor {name} is not one of kohort's: uniform is assumed instead")
    return server_assignors(["uniform"])["uniform"]


def as_number(text: str | None) -> int | None:
    """Return a setting's number, or None."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
