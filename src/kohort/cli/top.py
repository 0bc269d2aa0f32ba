"""`kohort top`: groups, rebalances and their causes in a terminal, as they happen; with --once as a table.

It watches the cluster as the console does, requests what any client may, and changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import run_against
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, duration_ms, verb

if TYPE_CHECKING:
    from kohort.console.top.top_app import TopApp

LEAST_MS = 200

EXAMPLES = """
kohort top
kohort top --bootstrap-server kafka-1:9092 --command-config admin.properties
kohort top --once
kohort top --once --json | jq '.[] | select(.lag > 1000) | .group'
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `top` to the command line."""
    summary = "show groups, their rebalances and causes in a terminal, as they happen"
    parser = verb(verbs, "top", summary, run=run, examples=EXAMPLES)
    add_option(parser, "--once", "print a table of the groups and end; it needs no terminal")
    add_option(
        parser,
        "--interval TIME",
        "how often to look at the cluster (default: 2s, 1s where a group that is shown rebalances)",
        duration_ms,
    )
    add_json(parser, "with --once one JSON document instead of a table")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Show the screen until it is left, or print the table; return the exit status."""
    if args.json and not args.once:
        raise CommandFailed("--json needs --once: a screen has no JSON", USAGE)
    if args.interval is not None and args.interval < LEAST_MS:
        raise CommandFailed(f"--interval is {args.interval} ms: the least is {LEAST_MS} ms", USAGE)
    if args.once:
        return run_against(args.bootstrap_server, lambda: _once(args))
    try:
        from kohort.console.top.top_app import TopApp
    except ImportError as error:
        raise CommandFailed(str(error)) from error
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        raise CommandFailed("kohort top draws a screen and needs a terminal: kohort top --once prints a table", USAGE)
    logging.basicConfig(handlers=[logging.NullHandler()])  # a line of the log would be drawn across the screen
    return run_against(args.bootstrap_server, lambda: _screen(args, TopApp))


async def _screen(args: argparse.Namespace, top_app: type[TopApp]) -> int:
    from kohort.cli.group_state.cluster_watch import cluster_poller
    from kohort.cli.group_state.group_events import now_ms
    from kohort.console.command_runs import command_line

    poller = cluster_poller(args, "kohort-top", None if args.interval is None else args.interval / 1000)
    app = top_app(poller, args.bootstrap_server, now_ms, lambda words: command_line(words, args.cluster_options))
    polling = asyncio.create_task(poller.run(), name="kohort top looks")
    shown = asyncio.create_task(app.run_async(mouse=False), name="kohort top screen")
    try:
        await asyncio.wait([shown, polling], return_when=asyncio.FIRST_COMPLETED)
        if polling.done():
            polling.result()
    finally:
        app.exit()  # the terminal becomes what it was, also where a signal ends the command
        await shown
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await poller.cluster.close()
    return app.return_code or 0


async def _once(args: argparse.Namespace) -> int:
    from kohort.cli.group_state.cluster_watch import cluster_poller
    from kohort.cli.group_state.group_events import now_ms
    from kohort.console.history.watched_cluster import GroupQuery
    from kohort.console.top.group_lines import summary_document, table_cells

    poller = cluster_poller(args, "kohort-top")
    watched = poller.watched
    try:
        await poller.look_once()
    finally:
        await poller.cluster.close()
    rows = watched.selected(GroupQuery(order="unwell"), now_ms())
    documents: list[dict[str, Any]] = [summary_document(row) for row in rows]
    output.put_result(args, documents, output.table_of([table_cells(row) for row in rows]))
    for each in watched.remarks[:5]:
        output.remark(each)
    if rows and not watched.has_events and not args.json:
        output.remark("this cluster writes no events of its groups: causes are unknown to a single look")
    return 0
