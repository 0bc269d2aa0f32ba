"""`kohort users list|set|remove`: who may log in by SCRAM, on any cluster with such credentials."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.cluster import with_admin
from kohort.cli.terminal import output
from kohort.cli.terminal.confirmation import add_yes, asking, confirm
from kohort.cli.terminal.failure import USAGE, CommandFailed, reason_of, unknown
from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, verb, verb_of_verbs
from kohort.wire.scram import DEFAULT_MECHANISM, ITERATIONS, MIN_ITERATIONS, NUMBERS

if TYPE_CHECKING:
    from kohort.client import Admin

_COLUMNS = ("user", "mechanism", "iterations")


def register(verbs: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add `users` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "users", "list, set and remove users that log in by SCRAM")
    example = "kohort users list\nkohort users list ann --json"
    listing = verb(inner, "list", "list users and their mechanisms", run=with_admin(show_users), examples=example)
    listing.add_argument("user", metavar="USER", nargs="*", help="these alone (default: all)")
    example = "kohort users set ann\nkohort users set ann --password-file ann.password"
    example += "\nopenssl rand -base64 24 | tee ann.password | kohort users set ann --mechanism SCRAM-SHA-256"
    setting = verb(inner, "set", "add a user, or change its password", run=run_set, examples=example)
    setting.add_argument("user", metavar="USER")
    add_option(
        setting,
        "--password-file FILE",
        "whose first line is the password (default: stdin, or a question on a terminal)",
        Path,
    )
    add_option(setting, "--mechanism", f"default: {DEFAULT_MECHANISM}", choices=NUMBERS, default=DEFAULT_MECHANISM)
    add_option(
        setting,
        "--iterations COUNT",
        f"how often the password is hashed (default: {ITERATIONS})",
        number(MIN_ITERATIONS, "a number of iterations"),
        default=ITERATIONS,
    )
    example = "kohort users remove ann\nkohort users remove ann --mechanism SCRAM-SHA-256"
    removing = verb(inner, "remove", "remove a user's passwords", run=asking(with_admin(remove)), examples=example)
    add_yes(removing)
    removing.add_argument("user", metavar="USER")
    add_option(removing, "--mechanism", "this one alone (default: all)", choices=NUMBERS)
    for each in (listing, setting, removing):
        add_json(each)
        add_cluster(each)


async def show_users(args: argparse.Namespace, admin: Admin) -> None:
    """Print users, their mechanisms and iterations. Raises CommandFailed for a name that is no user."""
    found = await admin.describe_user_scram_credentials()
    for name in args.user:
        if name not in found:
            raise unknown("user", name, list(found), f"add it with `kohort users set {name}`")
    _show(args, {name: own for name, own in found.items() if not args.user or name in args.user})
    if not found and not args.json:
        output.remark("there are no users: add one with `kohort users set NAME`")


def run_set(args: argparse.Namespace) -> int:
    """Ask for the password before the cluster is asked for anything, and set it. Raises CommandFailed."""
    if not args.user:
        raise CommandFailed("a user has a name", USAGE)
    password = _password(args)

    async def set_password(args: argparse.Namespace, admin: Admin) -> None:
        from kohort.client.admin.access_messages import UserScramCredentialUpsertion

        wanted = UserScramCredentialUpsertion(args.user, password, args.mechanism, args.iterations)
        await admin.alter_user_scram_credentials([wanted])
        _show(args, {args.user: {args.mechanism: args.iterations}})

    return with_admin(set_password)(args)


def _password(args: argparse.Namespace) -> str:
    """Return the first line of a file or of stdin; on a terminal, the answer to a question."""
    if args.password_file is not None:
        try:
            password, source = _first_line(args.password_file.read_text()), str(args.password_file)
        except OSError as error:
            raise CommandFailed(f"the password cannot be read: {reason_of(error)}", USAGE) from error
        except UnicodeDecodeError as error:
            raise CommandFailed(f"the password cannot be read: {args.password_file}: {error}", USAGE) from error
    elif sys.stdin.isatty():
        password, source = getpass(f"password of {args.user}: "), "the answer"
        if getpass("once more: ") != password:
            raise CommandFailed("the passwords differ: nothing was changed", USAGE)
    else:
        password, source = _first_line(sys.stdin.readline()), "stdin"
    if not password:
        raise CommandFailed(f"{source} contains no password: nothing was changed", USAGE)
    return password


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0].removesuffix("\r")


async def remove(args: argparse.Namespace, admin: Admin) -> None:
    """Remove a user's passwords and print what is gone. Raises CommandFailed where there are none."""
    from kohort.client.admin.access_messages import UserScramCredentialDeletion

    found = await admin.describe_user_scram_credentials()
    if args.user not in found:
        raise unknown("user", args.user, list(found), "`kohort users list` shows them")
    own = found[args.user]
    if args.mechanism is not None and args.mechanism not in own:
        raise CommandFailed(f"{args.user!r} has no password by {args.mechanism}, but by {', '.join(own)}", USAGE)
    gone = own if args.mechanism is None else {args.mechanism: own[args.mechanism]}
    confirm(args, f"removes the passwords of user {args.user}: {', '.join(gone)}")
    await admin.alter_user_scram_credentials([UserScramCredentialDeletion(args.user, each) for each in gone])
    _show(args, {args.user: gone})


def _show(args: argparse.Namespace, users: dict[str, dict[str, int]]) -> None:
    rows = [(user, mechanism, iterations) for user, own in users.items() for mechanism, iterations in own.items()]
    document = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    output.put_result(args, document, output.table(_COLUMNS, [tuple(map(str, row)) for row in rows]))
