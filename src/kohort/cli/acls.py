"""`kohort acls list|add|remove`: rules of who may do what, on any cluster with an authorizer."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

from kohort.cli.cluster import with_admin
from kohort.cli.terminal import output
from kohort.cli.terminal.confirmation import add_yes, asking, confirm
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, verb, verb_of_verbs
from kohort.model.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Principal,
    ResourceType,
    WireNumber,
)

if TYPE_CHECKING:
    from kohort.client import Admin

_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}
_COLUMNS = ("principal", "permission", "operation", "resource_type", "name", "pattern_type", "host")


def register(verbs: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add `acls` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "acls", "list, add and remove rules of who may do what")
    example = "kohort acls list\nkohort acls list --topic orders --match\nkohort acls list --principal User:ann --json"
    listing = verb(inner, "list", "list rules", run=with_admin(show_acls), examples=example)
    example = "kohort acls add --allow User:ann --operation read --topic orders --group billing"
    example += "\nkohort acls add --allow User:ann --operation write,describe --topic orders. --prefixed"
    example += "\nkohort acls add --deny User:bob --operation all --topic '*' --host 192.0.2.7"
    adding = verb(inner, "add", "add rules", run=run_add, examples=example)
    example = "kohort acls remove --principal User:ann --topic orders\nkohort acls remove --group billing --dry-run"
    summary = "remove the rules that match all options"
    removing = verb(inner, "remove", summary, run=asking(run_remove), examples=example)
    add_yes(removing)
    add_option(removing, "--dry-run", "print the rules, and remove none")
    permission = adding.add_mutually_exclusive_group(required=True)
    add_option(permission, "--allow TYPE:NAME", "the principal that may", principal)
    add_option(permission, "--deny TYPE:NAME", "the principal that may not", principal)
    text = "what it may do, several with commas: " + ", ".join(each.name.lower() for each in _OPERATIONS)
    add_option(adding, "--operation NAME", text, operations, required=True)
    add_option(adding, "--host ADDRESS", "from this address only (default: any)", default=WILDCARD)
    for each in (listing, removing):
        add_option(each, "--principal TYPE:NAME", "rules of this principal", principal)
        add_option(each, "--operation NAME", "rules of these operations", operations)
        add_option(each, "--host ADDRESS", "rules of this address; '*' for those of any")
        add_option(each, "--match", "all rules that apply to the named resource")
    for each in (listing, adding, removing):
        for name in _RESOURCES:
            add_option(each, f"--{name.replace('_', '-')} NAME", f"a {name.replace('_', ' ')}")
        add_option(each, "--cluster", "the cluster itself")
        add_option(each, "--prefixed", "the name is the beginning of names")
        add_json(each)
        add_cluster(each)


_OPERATIONS = tuple(each for each in AclOperation if each > AclOperation.ANY)


def principal(text: str) -> str:
    """Check the text of a principal."""
    try:
        return str(Principal.parse(text))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def operations(text: str) -> list[AclOperation]:
    """Return operations of their names, in any case."""
    names = {each.name.replace("_", ""): each for each in _OPERATIONS}
    found = []
    for name in text.split(","):
        operation = names.get(name.strip().upper().replace("_", "").replace("-", ""))
        if operation is None:
            known = ", ".join(each.name.lower() for each in _OPERATIONS)
            raise ArgumentTypeError(f"{name!r} is no operation: there are {known}")
        found.append(operation)
    return found


def resources(args: argparse.Namespace) -> list[tuple[ResourceType, str]]:
    """Return the type and name of each resource that the options name."""
    named = [(kind, getattr(args, option)) for option, kind in _RESOURCES.items() if getattr(args, option) is not None]
    if not all(name for _, name in named):
        raise CommandFailed("a resource has a name: give it, or '*' for all", USAGE)
    return named + [(ResourceType.CLUSTER, CLUSTER_NAME)] * args.cluster


def run_add(args: argparse.Namespace) -> int:
    """Add rules, one for each operation on each resource."""
    if not resources(args):
        raise CommandFailed("no resource: give --topic, --group, --transactional-id or --cluster", USAGE)
    if args.prefixed and args.cluster:
        raise CommandFailed("the cluster has no name that could begin otherwise: leave --prefixed out", USAGE)
    return with_admin(add)(args)


async def add(args: argparse.Namespace, admin: Admin) -> None:
    """Add the rules and print them."""
    acls = [
        AclBinding(
            kind,
            name,
            PatternType.PREFIXED if args.prefixed else PatternType.LITERAL,
            args.allow or args.deny,
            args.host,
            operation,
            AclPermission.ALLOW if args.allow else AclPermission.DENY,
        )
        for (kind, name), operation in product(resources(args), args.operation)
    ]
    await admin.create_acls(acls)
    _show(args, acls)


def filters(args: argparse.Namespace) -> list[AclFilter]:
    """Return the filters that the options name: one for each operation of each resource."""
    pattern = PatternType.ANY
    if args.prefixed or args.match:
        pattern = PatternType.MATCH if args.match else PatternType.PREFIXED
    if args.match and not resources(args):
        raise CommandFailed("--match is about a resource: give --topic, --group or --transactional-id", USAGE)
    if args.match and args.prefixed:
        raise CommandFailed("--match takes a whole name: leave --prefixed out", USAGE)
    named: list[tuple[ResourceType, str | None]] = [*resources(args)]
    return [
        AclFilter(kind, name, pattern, args.principal, args.host, operation)
        for (kind, name), operation in product(
            named or [(ResourceType.ANY, None)], args.operation or [AclOperation.ANY]
        )
    ]


async def show_acls(args: argparse.Namespace, admin: Admin) -> None:
    """Print the rules that match all options."""
    acls = await _selected(admin, filters(args))
    _show(args, acls)
    if not acls and not args.json:
        output.remark("there are no such rules: add one with `kohort acls add`")


async def _selected(admin: Admin, wanted: Iterable[AclFilter]) -> list[AclBinding]:
    return sorted({acl for each in wanted for acl in await admin.describe_acls(each)})


def run_remove(args: argparse.Namespace) -> int:
    """Remove the rules that match all options; refuse to remove every rule. Raises CommandFailed."""
    if filters(args) == [AclFilter()]:
        raise CommandFailed("that would remove every rule: name a principal, a resource, a host or operations", USAGE)
    return with_admin(remove)(args)


async def remove(args: argparse.Namespace, admin: Admin) -> None:
    """Remove the rules that match all options, and print them."""
    wanted = filters(args)
    acls = await _selected(admin, wanted) if args.dry_run or not args.yes else []
    if acls and not args.dry_run:
        confirm(args, f"removes {output.counted(len(acls), 'rule')}:\n{_table(acls)}\n")
    if not args.dry_run:
        acls = sorted({acl for each in wanted for acl in await admin.delete_acls(each)})
    _show(args, acls)
    if not args.json and not acls:
        output.remark("there are no such rules: nothing was removed")
    elif args.dry_run:
        output.remark(f"nothing was removed: leave --dry-run out to remove {output.counted(len(acls), 'rule')}")


def _show(args: argparse.Namespace, acls: list[AclBinding]) -> None:
    output.put_result(args, [dict(zip(_COLUMNS, row, strict=True)) for row in _rows(acls)], _table(acls))


def _rows(acls: list[AclBinding]) -> list[tuple[str, ...]]:
    return [tuple(_text(getattr(acl, name)) for name in _COLUMNS) for acl in acls]


def _table(acls: list[AclBinding]) -> str:
    return output.table([name.replace("_type", "").replace("_", " ") for name in _COLUMNS], _rows(acls))


def _text(value: object) -> str:
    return value.name.lower() if isinstance(value, WireNumber) else str(value)
