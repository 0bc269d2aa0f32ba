"""`kohort groups drain|undrain|rebalance`: orders to a classic group whose members come through `kohort gateway`.

An order is a record in a topic of the cluster; the gateway that the group's leader comes through carries it out. The
command waits until it is, and prints what may be missing where it is not. `drain --wait` is for a hook that runs before
a process ends: it is about the members that run now, and what cannot be drained is no failure.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import principal_of, require_group, with_admin
from kohort.cli.group_state.group_events import now_ms
from kohort.cli.terminal import output
from kohort.cli.terminal.confirmation import add_yes, asking, confirm
from kohort.cli.terminal.failure import USAGE, CommandFailed, unknown
from kohort.cli.terminal.options import add_cluster, add_json, add_option, duration_ms, verb
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
    from kohort.gateway.server.order_topic import KnownOrders, Order
    from kohort.model.assignment import Partitions

TIMEOUT_MS = 30_000
CONSUMER, STABLE = "consumer", "Stable"
_POLL_SECONDS = 0.2
_PROGRESS_SECONDS = 5.0
_HINT = (
    "is `kohort gateway` in front of the cluster, does it read {topic} (Describe and Read), and do the group's members"
    " connect through it?"
)


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `drain`, `undrain` and `rebalance` to the verbs of groups."""
    example = "kohort groups drain billing 192.0.2.7 --reason 'deploy 118'"
    example += "\nkohort groups drain billing $HOSTNAME --wait --yes"
    draining = verb(
        verbs,
        "drain",
        "let a member keep its place in a group and get no partitions (behind `kohort gateway`)",
        run=asking(with_admin(drain)),
        examples=example,
    )
    example = "kohort groups undrain billing 192.0.2.7\nkohort groups undrain billing --all"
    undraining = verb(
        verbs, "undrain", "let drained members get partitions again", run=with_admin(undrain), examples=example
    )
    example = "kohort groups rebalance billing --reason 'a partition is stuck'"
    rebalancing = verb(
        verbs,
        "rebalance",
        "have a group rebalance now (behind `kohort gateway`)",
        run=with_admin(rebalance),
        examples=example,
    )
    for each in (draining, undraining, rebalancing):
        each.add_argument("group", metavar="GROUP")
    draining.add_argument(
        "name",
        metavar="MEMBER|HOST",
        help="a member id, a group.instance.id, a client id or its beginning (such as a pod's name), a host's address",
    )
    add_option(
        draining,
        "--wait",
        "for a hook before a process ends: drain the members that run now, and wait until they own nothing or are gone;"
        " the drain ends with them, and that no member is there, or could take over, is no failure",
    )
    add_option(draining, "--force", "also all members of the group")
    add_yes(draining)
    undraining.add_argument("name", metavar="MEMBER|HOST", nargs="?", help="as it was drained")
    add_option(undraining, "--all", "everything that is drained in the group")
    for each in (draining, undraining, rebalancing):
        add_option(each, "--reason TEXT", "why, for `kohort explain`", default="")
        add_option(each, "--timeout TIME", "how long to wait (default: 30s)", duration_ms, default=TIMEOUT_MS)
        add_json(each)
        add_cluster(each)


class NoMember(CommandFailed):
    """An order to drain is about no member that is there."""


async def drain(args: argparse.Namespace, admin: Admin) -> None:
    """Drain members, and wait until their group rebalances; with --wait, until they own nothing or are gone."""
    deadline_s = time.monotonic() + args.timeout / 1000
    try:
        group, matching = await _named(args, admin)
    except NoMember as absent:
        if not args.wait:
            raise
        _put_drained(args, "not_found", [], 0, f"nothing is drained: {absent.sentence}")
        return
    members = {member.member_id: member.assignment for member in matching}
    taken, owned = (sum(len(each.assignment) for each in several) for several in (matching, group.members))
    several = output.counted(len(members), "member")
    output.remark(f"{args.name}: {several} of {len(group.members)} with {taken} of {owned} partitions of {args.group}")
    topics = {topic.name for topic in await admin.list_topics()}
    drained = await drained_members(args, group, topics) | members.keys()
    if len(drained) == len(group.members) and not args.force:
        if args.wait:
            text = f"{args.name} is not drained: no other member of group {args.group} could get its partitions"
            _put_drained(args, "last", list(members), taken, text)
            return
        raise CommandFailed(
            f"then every member of group {args.group} is drained, and no partition has an owner: name a"
            " member by its id or its group.instance.id (members behind one address share it), or give --force"
        )
    asked_s = time.monotonic()
    confirm(args, f"takes {output.counted(taken, 'partition')} from {several} of group {args.group}")
    deadline_s += time.monotonic() - asked_s
    orders = [_drain_order(args, name) for name in (sorted(members) if args.wait else [args.name])]
    offset = await _write(args, admin, orders)
    try:
        await _carried_out(args, offset, deadline_s)
    except CommandFailed:
        if args.wait:  # a gateway that starts later must not carry it out
            await _write(args, admin, [replace(order, is_over=True, is_tombstone=True) for order in orders])
        raise
    if not args.wait:
        text = f"drained {args.name} in group {args.group}, which rebalances: {several}"
        _put_drained(args, "rebalancing", list(members), taken, text)
        return
    await _emptied(args, admin, members, deadline_s)
    text = f"drained {args.name} in group {args.group}: {several} without partitions"
    _put_drained(args, "drained", list(members), taken, text)


def _drain_order(args: argparse.Namespace, name: str, **more: Any) -> Order:
    from kohort.gateway.server.order_topic import Order, OrderKind

    return Order(OrderKind.DRAINED, args.group, name, args.reason, now_ms(), principal=principal_of(args), **more)


def _put_drained(args: argparse.Namespace, outcome: str, members: list[str], partitions: int, text: str) -> None:
    document = {"group": args.group, "drained": args.name, "members": sorted(members), "partitions": partitions}
    output.put_result(args, document | {"outcome": outcome}, text)


async def _named(args: argparse.Namespace, admin: Admin) -> tuple[GroupDescription, list[MemberDescription]]:
    """Return a group and its members of the name. Raises NoMember, and CommandFailed for one that takes no orders."""
    group = await _classic(admin, args.group)
    matching = [member for member in group.members if args.name in _names_of(member)]
    if not matching:
        ids = [(each.member_id, each.instance_id, each.client_id, each.client_host) for each in group.members]
        known = {(name or "").removeprefix("/") for member in ids for name in member} - {""}
        raise NoMember(unknown("member or host", args.name, sorted(known)).sentence, USAGE)
    return group, matching


async def _emptied(
    args: argparse.Namespace, admin: Admin, members: Mapping[str, Partitions], deadline_s: float
) -> None:
    """Wait until members own nothing, and others own what they had, or until they are gone. Raises CommandFailed.

    What others did not subscribe to remains without an owner.
    """
    had = frozenset[TopicPartition]().union(*members.values())
    shown_s = time.monotonic()
    while True:
        try:
            group = (await admin.describe_groups([args.group]))[args.group]
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return
        # While a round runs no member has an assignment.
        is_empty, now_s = group.state == STABLE, time.monotonic()
        here = [member for member in group.members if member.member_id in members]
        left = sum(len(member.assignment) for member in here)
        elsewhere = frozenset[TopicPartition]().union(*(each.assignment for each in group.members))
        is_empty &= not left
        if not here or (is_empty and had <= elsewhere):
            return
        if now_s > deadline_s:
            if is_empty:
                return
            raise CommandFailed(
                f"{args.name} still owns {left} partitions of group {args.group}, which is {group.state}, after"
                f" {args.timeout / 1000:g} s: the drain stays as long as its members"
            )
        if now_s - shown_s >= _PROGRESS_SECONDS:
            shown_s = now_s
            output.remark(f"{args.name} owns {left} of {len(had)} partitions, the group is {group.state}")
        await asyncio.sleep(_POLL_SECONDS)


async def undrain(args: argparse.Namespace, admin: Admin) -> None:
    """End drains, and wait until the group rebalances."""
    if bool(args.name) == args.all:
        raise CommandFailed("name a member or a host, or give --all", USAGE)
    topics = {topic.name for topic in await admin.list_topics()}
    known = await _orders(args, topics)
    drained = {} if known is None else dict(known.names(args.group))
    if not drained:
        raise CommandFailed(f"nothing is drained in group {args.group}")
    if args.name and args.name not in drained:
        raise unknown("drained member or host", args.name, sorted(drained))
    names = sorted(drained) if args.all else [args.name]
    ends = [_drain_order(args, name, is_over=True) for name in names]
    # The value has who ended it and why; the tombstone behind it has compaction remove both.
    forgotten = [replace(each, is_tombstone=True) for each in ends]
    offset = await _write(args, admin, [*ends, *forgotten])
    await _carried_out(args, offset, time.monotonic() + args.timeout / 1000)
    document = {"group": args.group, "undrained": names}
    output.put_result(args, document, f"undrained {', '.join(names)} in group {args.group}")


async def rebalance(args: argparse.Namespace, admin: Admin) -> None:
    """Have a group rebalance, and wait until it does."""
    from kohort.gateway.server.order_topic import Order, OrderKind

    await _classic(admin, args.group)
    order = Order(OrderKind.REBALANCE, args.group, "", args.reason, now_ms(), principal=principal_of(args))
    offset = await _write(args, admin, [order])
    await _carried_out(args, offset, time.monotonic() + args.timeout / 1000)
    output.put_result(args, {"group": args.group, "rebalancing": True}, f"group {args.group} rebalances")


def _names_of(member: MemberDescription) -> set[str]:
    from kohort.gateway.assigning.orders import names_of

    return names_of(member.member_id, member.instance_id, member.client_id, member.client_host)


async def drained_members(args: argparse.Namespace, group: GroupDescription, topics: Collection[str]) -> set[str]:
    """Return the ids of a group's members that are drained; `topics` are the cluster's."""
    known = await _orders(args, topics)
    drained = set() if known is None else set(known.names(group.group_id))
    return {member.member_id for member in group.members if drained & _names_of(member)} if drained else set()


async def _orders(args: argparse.Namespace, topics: Collection[str]) -> KnownOrders | None:
    if "__kohort_group_orders" not in topics:
        return None
    from kohort.gateway.server.order_topic import read_orders

    return await read_orders(args.bootstrap_server, args.security)


async def _classic(admin: Admin, group_id: str) -> GroupDescription:
    """Return a group's description. Raises NoMember for one without members, CommandFailed if it takes no orders."""
    try:
        await require_group(admin, group_id)
    except CommandFailed as failure:
        raise NoMember(failure.sentence, failure.status) from None
    group = (await admin.describe_groups([group_id]))[group_id]
    if not group.members:
        raise NoMember(f"group {group_id} has no members")
    if group.group_type == CONSUMER:
        raise CommandFailed(
            f"group {group_id} uses the consumer protocol (KIP-848), whose assignments the coordinator computes:"
            " stop the member in place of a drain; the coordinator rebalances by itself"
        )
    if group.protocol_type != CONSUMER:
        raise CommandFailed(
            f"group {group_id} is of the type {group.protocol_type!r}: orders are for groups of consumers"
        )
    return group


async def _write(args: argparse.Namespace, admin: Admin, orders: list[Order]) -> int:
    """Write orders, and return the offset of the last one that begins a round, or -1. Raises CommandFailed."""
    from kohort.client import Producer
    from kohort.gateway.server.order_topic import ORDER_TOPIC, make_order_topic

    offset = -1
    try:
        await make_order_topic(admin)
        async with Producer(args.bootstrap_server, **args.security) as producer:
            for order in orders:
                key, value = order.record()
                written: Any = await (await producer.send(ORDER_TOPIC, value, key=key, partition=0))
                offset = offset if order.is_tombstone else written.offset
    except KafkaError as error:
        if error.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise CommandFailed(
                f"orders are written to {ORDER_TOPIC}, which needs Create and Write: {error}"
            ) from error
        raise
    return offset


async def _carried_out(args: argparse.Namespace, offset: int, deadline_s: float) -> None:
    """Wait until a gateway has carried out the order at an offset. Raises CommandFailed."""
    from kohort.gateway.server.order_topic import ORDER_TOPIC, ORDERS, OrderKind, order_consumer, orders_in

    output.remark(f"waiting for a gateway to rebalance group {args.group}")
    async with order_consumer(args.bootstrap_server, args.security) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, offset)
        while time.monotonic() < deadline_s:
            for batch in await consumer.poll(timeout_ms=200):
                for _, order in orders_in(batch):
                    is_done = order.kind is OrderKind.DONE and order.group_id == args.group
                    if is_done and order.carried_out >= offset:
                        return
    raise CommandFailed(
        f"no gateway has carried out the order to group {args.group} within {args.timeout / 1000:g} s: "
        + _HINT.format(topic=ORDER_TOPIC)
    )
