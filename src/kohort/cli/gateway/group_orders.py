"""`kohort groups drain|undrain|rebalance`: orders to a classic group whose members come through `kohort gateway`.

An order is a record in a topic of the cluster; the gateway that the group's leader comes through carries it out. The
command waits until it is, and prints what may be missing where it is not.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import require_group, with_admin
from kohort.cli.group_state.group_events import now_ms
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed, unknown
from kohort.cli.terminal.options import add_cluster, add_json, add_option, duration_ms, verb
from kohort.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection

    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
    from kohort.gateway.server.order_topic import KnownOrders, Order

TIMEOUT_MS = 30_000
CONSUMER = "consumer"
_POLL_SECONDS = 0.2
_HINT = (
    "is `kohort gateway` in front of the cluster, does it read {topic} (Describe and Read), and do the group's members"
    " connect through it?"
)


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `drain`, `undrain` and `rebalance` to the verbs of groups."""
    example = "kohort groups drain billing 192.0.2.7 --reason 'deploy 118'\nkohort groups drain billing billing-pod-3"
    draining = verb(
        verbs,
        "drain",
        "let a member keep its place in a group and get no partitions (behind `kohort gateway`)",
        run=with_admin(drain),
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
    draining.add_argument("name", metavar="MEMBER|HOST", help="a member id, a group.instance.id, or a host's address")
    add_option(draining, "--force", "also all members of the group")
    undraining.add_argument("name", metavar="MEMBER|HOST", nargs="?", help="as it was drained")
    add_option(undraining, "--all", "everything that is drained in the group")
    for each in (draining, undraining, rebalancing):
        add_option(each, "--reason TEXT", "why, for `kohort explain`", default="")
        add_option(each, "--timeout TIME", "how long to wait (default: 30s)", duration_ms, default=TIMEOUT_MS)
        add_json(each)
        add_cluster(each)


async def drain(args: argparse.Namespace, admin: Admin) -> None:
    """Drain a member or a host, and wait until it owns nothing."""
    from kohort.gateway.server.order_topic import Order, OrderKind

    group = await _classic(admin, args.group)
    matching = [member for member in group.members if args.name in names_of(member)]
    if not matching:
        known = sorted({name for member in group.members for name in names_of(member)})
        raise unknown("member or host", args.name, known)
    taken, owned = (sum(len(each.assignment) for each in members) for members in (matching, group.members))
    several = output.counted(len(matching), "member")
    output.remark(f"{args.name}: {several} of {len(group.members)} with {taken} of {owned} partitions of {args.group}")
    topics = {topic.name for topic in await admin.list_topics()}
    drained = await drained_members(args, group, topics) | {member.member_id for member in matching}
    if len(drained) == len(group.members) and not args.force:
        raise CommandFailed(
            f"then every member of group {args.group} is drained, and no partition has an owner: name a"
            " member by its id or its group.instance.id (members behind one address share it), or give --force"
        )
    deadline_s = time.monotonic() + args.timeout / 1000
    order = Order(OrderKind.DRAINED, args.group, args.name, args.reason, now_ms())
    await _carried_out(args, admin, [order], deadline_s)
    members = {member.member_id for member in matching}
    while await _owned(admin, args.group, members):
        if time.monotonic() > deadline_s:
            raise CommandFailed(
                f"{args.name} still owns partitions of group {args.group} after {args.timeout / 1000:g} s: the order"
                f" stays, and `kohort groups describe {args.group} --members` shows when they are gone"
            )
        await _pause()
    several = output.counted(len(members), "member")
    document = {"group": args.group, "drained": args.name, "members": sorted(members)}
    output.put_result(args, document, f"drained {args.name} in group {args.group}: {several} own nothing")


async def undrain(args: argparse.Namespace, admin: Admin) -> None:
    """End drains, and wait until the group rebalances."""
    from kohort.gateway.server.order_topic import Order, OrderKind

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
    orders = [Order(OrderKind.DRAINED, args.group, name, args.reason, now_ms(), is_over=True) for name in names]
    await _carried_out(args, admin, orders, time.monotonic() + args.timeout / 1000)
    document = {"group": args.group, "undrained": names}
    output.put_result(args, document, f"undrained {', '.join(names)} in group {args.group}")


async def rebalance(args: argparse.Namespace, admin: Admin) -> None:
    """Have a group rebalance, and wait until it does."""
    from kohort.gateway.server.order_topic import Order, OrderKind

    await _classic(admin, args.group)
    order = Order(OrderKind.REBALANCE, args.group, reason=args.reason, at_ms=now_ms())
    await _carried_out(args, admin, [order], time.monotonic() + args.timeout / 1000)
    output.put_result(args, {"group": args.group, "rebalancing": True}, f"group {args.group} rebalances")


def names_of(member: MemberDescription) -> set[str]:
    """Return the names by which a member can be drained."""
    names = {member.member_id, member.instance_id, member.client_host, member.client_host.removeprefix("/")}
    return {name for name in names if name}


async def drained_members(args: argparse.Namespace, group: GroupDescription, topics: Collection[str]) -> set[str]:
    """Return the ids of a group's members that are drained; `topics` are the cluster's."""
    known = await _orders(args, topics)
    drained = set() if known is None else set(known.names(group.group_id))
    return {member.member_id for member in group.members if drained & names_of(member)} if drained else set()


async def _orders(args: argparse.Namespace, topics: Collection[str]) -> KnownOrders | None:
    if "__kohort_group_orders" not in topics:
        return None
    from kohort.gateway.server.order_topic import read_orders

    return await read_orders(args.bootstrap_server, args.security)


async def _classic(admin: Admin, group_id: str) -> GroupDescription:
    """Return a group's description. Raises CommandFailed for one that takes no orders."""
    await require_group(admin, group_id)
    group = (await admin.describe_groups([group_id]))[group_id]
    if group.group_type == CONSUMER:
        raise CommandFailed(
            f"group {group_id} uses the consumer protocol (KIP-848), whose assignments the coordinator computes:"
            " stop the member in place of a drain; the coordinator rebalances by itself"
        )
    if not group.members:
        raise CommandFailed(f"group {group_id} has no members")
    if group.protocol_type != CONSUMER:
        raise CommandFailed(
            f"group {group_id} is of the type {group.protocol_type!r}: orders are for groups of consumers"
        )
    return group


async def _owned(admin: Admin, group_id: str, members: set[str]) -> bool:
    group = (await admin.describe_groups([group_id]))[group_id]
    return any(member.assignment for member in group.members if member.member_id in members)


async def _carried_out(args: argparse.Namespace, admin: Admin, orders: list[Order], deadline_s: float) -> None:
    """Write orders of one group, and wait until a gateway has carried out the last one. Raises CommandFailed."""
    from kohort.client import Producer
    from kohort.gateway.server.order_topic import (
        ORDER_TOPIC,
        ORDERS,
        OrderKind,
        make_order_topic,
        order_consumer,
        orders_in,
    )

    try:
        await make_order_topic(admin)
        offset = -1
        async with Producer(args.bootstrap_server, **args.security) as producer:
            for order in orders:
                key, value = order.record()
                written: Any = await (await producer.send(ORDER_TOPIC, value, key=key, partition=0))
                offset = written.offset
    except KafkaError as error:
        if error.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise CommandFailed(
                f"orders are written to {ORDER_TOPIC}, which needs Create and Write: {error}"
            ) from error
        raise
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


async def _pause() -> None:
    import asyncio

    await asyncio.sleep(_POLL_SECONDS)
