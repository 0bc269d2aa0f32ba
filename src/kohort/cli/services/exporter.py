"""`kohort exporter`: metrics of the groups of any cluster for Prometheus, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys

from kohort.cli.cluster import admin_of, run_against
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, duration_ms, host_and_port, verb

_EXAMPLES = """
kohort exporter --bootstrap-server kafka-1:9092
kohort exporter --listen 0.0.0.0:9308 --group 'billing-.*' --interval 30s --command-config client.properties
"""

_ADDRESS = ("127.0.0.1", 9308)


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `exporter` to the command line."""
    summary = "serve metrics of groups for Prometheus: lag in records and seconds, owners, rebalances"
    parser = verb(verbs, "exporter", summary, run=run, examples=_EXAMPLES)
    add_option(parser, "--listen HOST:PORT", "where (default: 127.0.0.1:9308)", host_and_port, default=_ADDRESS)
    add_option(parser, "--group REGEX", "groups whose whole name matches (default: all)", default=".*")
    add_option(parser, "--interval TIME", "how often to look (default: 15s)", duration_ms, default=15_000)
    parser.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="that of the groups' members: with read_committed, records of open and aborted transactions are no lag",
    )
    add_json(parser, "the address as a JSON object once metrics are served")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; return the exit status."""
    try:
        wanted = re.compile(args.group)
    except re.error as error:
        raise CommandFailed(f"--group {args.group!r} is no regular expression: {error}") from None
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    return run_against(args.bootstrap_server, lambda: _serve(args, wanted))


async def _serve(args: argparse.Namespace, wanted: re.Pattern[str]) -> int:
    from kohort.cli.group_state.exported_groups import ExportedGroups
    from kohort.net.metrics_endpoint import MetricsEndpoint
    from kohort.node.configuration.listeners import address_text

    async with admin_of(args) as admin:

        def is_wanted(group_id: str) -> bool:
            return wanted.fullmatch(group_id) is not None

        groups = ExportedGroups(admin, args.bootstrap_server, args.security, is_wanted, args.isolation_level)
        endpoint = MetricsEndpoint(groups.families, groups.unready)
        host, port = args.listen
        try:
            await endpoint.listen(host, port)
        except OSError as error:
            raise CommandFailed(f"cannot listen on {host}:{port}: {error.strerror or error}", FAILED) from None
        address = address_text((host, endpoint.port or port))
        output.put_result(
            args, {"ready": True, "address": address}, f"kohort exporter ready on http://{address}/metrics"
        )
        output.flush()
        looking = asyncio.create_task(groups.run(args.interval / 1000))
        try:
            await looking
        finally:
            looking.cancel()
            endpoint.close()
    return 0
