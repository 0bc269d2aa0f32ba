"""Access of commands to a cluster: an admin client, its errors as sentences, and look-ups of topics and offsets."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.terminal import interruption
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, unknown, unknown_group
from kohort.cli.terminal.log_lines import log_as_remarks
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net.tls import ListenerMismatch

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupListing

START_TIMEOUT_MS = 2_000
"""How long a command tries to reach a broker before it fails."""
USAGE_ERRORS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""Errors of a broker that another command line would avoid: exit status 2."""


def run_against(
    bootstrap: str, work: Callable[[], Coroutine[Any, Any, int]], grace_s: float = interruption.GRACE_S
) -> int:
    """Run a command's coroutine against a cluster and return its exit status; a signal gives it `grace_s` to end.

    Raises CommandFailed with the error of the cluster; OutputClosed; Interrupted.
    """
    log_as_remarks()
    try:
        return interruption.run(work(), grace_s)
    except KafkaError as error:
        raise CommandFailed(sentence_of(error, bootstrap), USAGE if error.code in USAGE_ERRORS else FAILED) from error
    except (OSError, TimeoutError) as error:
        raise CommandFailed(unreachable(bootstrap, error)) from error


def with_admin(
    work: Callable[[argparse.Namespace, Admin], Coroutine[Any, Any, int | None]],
) -> Callable[[argparse.Namespace], int]:
    """Return the `run` function of a command that needs an admin client: it calls `work` with one."""

    def run(args: argparse.Namespace) -> int:
        async def session() -> int:
            async with admin_of(args) as admin:
                return await work(args, admin) or 0

        return run_against(args.bootstrap_server, session)

    return run


def admin_of(args: argparse.Namespace) -> Admin:
    """Return an admin client, not started, of the cluster that the options name."""
    from kohort.client import Admin

    client_id = getattr(args, "client_id", "kohort")
    return Admin(args.bootstrap_server, start_timeout_ms=START_TIMEOUT_MS, client_id=client_id, **args.security)


def principal_of(args: argparse.Namespace) -> str:
    """Return who a command logs in as, such as User:alice or User:CN=ops. Brokers may map a certificate's name."""
    import ssl

    from kohort.client.config_file import certificate_in
    from kohort.model.acl import ANONYMOUS, Principal
    from kohort.node.configuration.principal_mapping import subject

    if (sasl := args.security.get("sasl")) is not None:
        return str(Principal("User", sasl.username))
    if "tls" not in args.security or (path := certificate_in(args.properties)) is None:
        return str(ANONYMOUS)
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    first = text[text.index(ssl.PEM_HEADER) : text.index(ssl.PEM_FOOTER)] + ssl.PEM_FOOTER
    return str(Principal("User", subject(ssl.PEM_cert_to_DER_cert(first))))


async def require_topics(admin: Admin, names: Sequence[str], *, are_made: bool = False) -> dict[str, int]:
    """Return partition counts of topics. Raises CommandFailed, with the nearest name, where one does not exist.

    With `are_made`, for a command whose topic may as well be new, it advises to create it.
    """
    known = {topic.name: topic for topic in await admin.list_topics()}
    for name in names:
        if name not in known:
            visible = [topic.name for topic in known.values() if not topic.is_internal]
            advice = f"create it with `kohort topics create {name}`" if are_made else "`kohort topics list` lists them"
            raise unknown("topic", name, visible, advice)
    return {name: len(known[name].partitions) for name in names}


def require_partitions(topic: str, count: int, partitions: Iterable[int]) -> None:
    """Raise CommandFailed for a partition that a topic of `count` partitions does not have."""
    if absent := sorted(each for each in partitions if each >= count):
        raise CommandFailed(f"topic {topic!r} has partitions 0 to {count - 1}, and no {absent[0]}", USAGE)


async def require_group(admin: Admin, group_id: str) -> GroupListing:
    """Return a group's listing. Raises CommandFailed, with the nearest name, where there is none."""
    known = {group.group_id: group for group in await admin.list_groups()}
    if group_id not in known:
        raise unknown_group(group_id, known)
    return known[group_id]


async def ends_of(admin: Admin, partitions: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """Return the "earliest" or "latest" offset of each partition."""
    found = await admin.list_offsets(dict.fromkeys(partitions, which))
    return {partition: entry.offset for partition, entry in found.items() if entry is not None}


def sentence_of(error: KafkaError, bootstrap: str) -> str:
    """Return an error of a cluster as a sentence for the user."""
    if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
        return unreachable(bootstrap, error)
    if error.text == error.code.text:
        return f"{bootstrap} answered {error.code.name}: {error.text}"
    return error.text  # the client's own text names the request and the reason


def unreachable(bootstrap: str, error: BaseException) -> str:
    """Return the sentence for a cluster that does not answer, with what to do."""
    if isinstance(error.__cause__, ListenerMismatch):
        where = "commands read it from the file of --command-config, or from the context"
        return f"{error.__cause__.text} ({where})"
    return (
        f"{no_answer(bootstrap, error)}: start one with `kohort broker --data DIR`, "
        "or name another with --bootstrap-server or KOHORT_BOOTSTRAP"
    )


def no_answer(bootstrap: str, error: BaseException) -> str:
    """Return where no broker answers, and why; the addresses that were tried, where `bootstrap` is empty."""
    attempts: list[tuple[str, str]] = list(getattr(error, "attempts", ()))
    bootstrap = bootstrap or ",".join(dict.fromkeys(address for address, _ in attempts)) or "the cluster"
    whys = [why.removeprefix(f"cannot connect to {address}: ") for address, why in attempts]
    reason = "; ".join(dict.fromkeys(whys)) or str(error) or type(error).__name__
    return f"no broker answers at {bootstrap} ({reason})"
