"""`kohort console`: a web page of a cluster's groups, on this machine.

It requests what any client may, changes nothing without --allow-changes, and fetches nothing from elsewhere.
"""

from __future__ import annotations

import argparse
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kohort.cli.cluster import run_against
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed, reason_of
from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, verb
from kohort.cli.terminal.registry_option import add_schema_registry, registry_settings

if TYPE_CHECKING:
    from kohort.console.web.console_access import ConsoleAccess
    from kohort.schemas.registry import Registry

PORT = 8383
REGISTRY_MS = 3_000

EXAMPLES = """
kohort console
kohort console --bootstrap-server kafka-1:9092 --command-config admin.properties
kohort console --port 0 --json
kohort console --schema-registry http://registry:8081
kohort console --path-prefix /kohort --allowed-host ops.example.org --login-header X-Forwarded-User
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `console` to the command line."""
    summary = "show groups, their rebalances and causes in a browser, as they happen"
    parser = verb(verbs, "console", summary, run=run, examples=EXAMPLES)
    add_option(
        parser, "--host HOST", "where to listen (default: 127.0.0.1, for this machine only)", default="127.0.0.1"
    )
    port = number(0, "a port", 65_535)
    add_option(parser, "--port PORT", f"0 takes a free one (default: {PORT})", port, default=PORT)
    add_option(parser, "--allow-changes", "offer actions that change groups: each shows its command and asks")
    behind = parser.add_argument_group("behind a reverse proxy")
    add_option(behind, "--path-prefix PATH", "what the path of each address begins with, such as /kohort", prefix)
    add_option(
        behind, "--allowed-host HOST", "a Host by which browsers know it; may be repeated", action="append", default=[]
    )
    add_option(behind, "--login-header NAME", "the header in which the proxy names the user that it has let log in")
    add_option(
        behind,
        "--proxy ADDRESS",
        "where requests of the proxy come from; may be repeated (default: 127.0.0.1)",
        action="append",
        default=[],
    )
    add_option(
        parser, "--fleet-report FILE", "the page that `kohort fleet report` has written, for the page Fleet", Path
    )
    add_schema_registry(parser)
    add_option(
        parser,
        "--metrics-from URL",
        "metrics of a kohort broker or gateway, such as http://host:9404/metrics; may be repeated",
        metrics_url,
        action="append",
        default=[],
    )
    add_json(parser, "the address as a JSON object once pages can be opened")
    add_cluster(parser)


def metrics_url(text: str) -> str:
    """Return the address of metrics; the path is /metrics where there is none."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as http://host:9404/metrics")
    return text if parts.path.strip("/") else f"{text.rstrip('/')}/metrics"


def prefix(text: str) -> str:
    """Return a path prefix without the slash at its end."""
    path = text.rstrip("/")
    if not path.startswith("/") or any(each in path for each in "?#%\\ \"'<>") or "//" in path:
        raise argparse.ArgumentTypeError(f"{text!r} is no path such as /kohort")
    return path


def run(args: argparse.Namespace) -> int:
    """Serve the console until a signal ends it, and return the exit status."""
    try:
        from kohort.console.web.http_server import serve as _  # noqa: F401
    except ImportError as error:
        raise CommandFailed(str(error)) from error
    try:
        listening = socket.create_server((args.host, args.port), family=_family(args.host))
    except OSError as error:
        text = "" if args.port == 0 else "; --port 0 takes a free one"
        raise CommandFailed(f"cannot listen on {args.host}:{args.port}: {reason_of(error)}{text}", USAGE) from error
    with listening:
        registry = _registry(args)
        return run_against(args.bootstrap_server, lambda: _serve(args, listening, registry))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _access(args: argparse.Namespace, host: str, port: int) -> ConsoleAccess:
    import secrets

    from kohort.console.web.console_access import ConsoleAccess, known_hosts

    return ConsoleAccess(
        secrets.token_urlsafe(24),
        known_hosts(host, port, args.allowed_host),
        f"kohort-console-{port}",  # a browser sends a cookie to all ports of a host
        args.login_header or "",
        frozenset(args.proxy or ["127.0.0.1", "::1"]),
    )


def _registry(args: argparse.Namespace) -> Registry | None:
    """Return the client of the schema registry, None where none is named. Raises CommandFailed."""
    from dataclasses import replace

    from kohort.schemas.registry import Registry

    if (settings := registry_settings(args)) is None:
        return None
    try:
        return Registry(replace(settings, timeout_ms=REGISTRY_MS, retry_ms=1))  # a page waits for it
    except ImportError as error:
        raise CommandFailed(str(error), USAGE) from error


async def _serve(args: argparse.Namespace, listening: socket.socket, registry: Registry | None) -> int:
    import asyncio

    from kohort.cli.group_state.cluster_watch import cluster_poller
    from kohort.cli.group_state.group_events import event_consumer, now_ms
    from kohort.console.command_runs import CommandRuns
    from kohort.console.metrics_sources import watch_gateways
    from kohort.console.web.console_access import is_loopback
    from kohort.console.web.console_app import Sources, console_app
    from kohort.console.web.http_server import serve
    from kohort.console.web.site import Site

    host, port = listening.getsockname()[:2]
    access = _access(args, args.host, port)
    path = args.path_prefix or ""
    poller = cluster_poller(args, "kohort-console")
    cluster, watched = poller.cluster, poller.watched
    runs = CommandRuns(args.cluster_options)
    new_consumer = partial(event_consumer, args.bootstrap_server, args.security)
    sources = Sources(poller, cluster, new_consumer, runs, args.fleet_report, registry, tuple(args.metrics_from))
    site = Site(watched, now_ms, args.bootstrap_server, path, args.allow_changes, args.cluster_options)
    shown = f"[{args.host}]" if ":" in args.host else args.host
    address = f"http://{shown}:{port}{path}/?token={access.token}"
    output.put_result(args, {"ready": True, "address": address, "port": port}, f"kohort console ready on {address}")
    output.flush()
    if not is_loopback(host):
        output.remark(f"other machines reach {host}:{port}, without TLS: put a proxy with TLS in front of it")
    polling = asyncio.create_task(poller.run(), name="kohort console looks")
    watching = asyncio.create_task(watch_gateways(sources.metrics_urls, watched, now_ms), name="kohort console metrics")
    try:
        with suppress(asyncio.CancelledError):  # a signal ends it
            await serve(console_app(site, sources, access), listening, polling)
    finally:
        polling.cancel()
        watching.cancel()
        await asyncio.gather(polling, watching, return_exceptions=True)
        await cluster.close()
    return 0
