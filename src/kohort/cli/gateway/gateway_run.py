"""`kohort gateway`: run a gateway in front of a Kafka cluster until SIGTERM or SIGINT.

Prints one line with its ports once clients can connect. The first signal drains it: what waits passes, and
connections end as soon as they are idle; the second one ends it at once. Exit status 1 when it cannot start, 2 when a
setting or an option is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.gateway import gateway_measure, gateway_plan
from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, verb

if TYPE_CHECKING:
    from kohort.gateway.gateway_settings import GatewaySettings
    from kohort.gateway.server.gateway_server import GatewayServer

_EXAMPLES = """
kohort gateway --bootstrap-server kafka-1:9092 --mode listener --advertised gateway.example
kohort gateway --bootstrap-server kafka-1:9092 --mode listener --advertised gateway.example --park 'billing-*'
kohort gateway --bootstrap-server kafka-1:9092 --mode rewrite --advertised gateway.example:9192
kohort gateway --config gateway.toml --assignors 'billing-*=billing.assignors:audit_first'
kohort gateway --config gateway.toml --metrics 0.0.0.0:9404 --events groups.jsonl
"""
MODES = ("listener", "coordinators", "rewrite")
_OPTIONS = (
    "mode", "advertised", "listen_host", "node_names", "events", "metrics", "instances", "instances_listen",
    "instances_secret_file", "share_ports", "max_connections", "drain_ms", "proxy_protocol_from",
)  # fmt: skip
"""Options whose values are written in a file of settings as they are here, under the same names."""

_TABLES = {"listener_tls": ("certificate", "key", "client_authority"), "broker_tls": ("authority",)}
"""Tables of such a file, and what of them is an option."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `gateway` to the command line."""
    summary = "run a proxy for groups in front of a Kafka cluster until SIGTERM or SIGINT"
    parser = verb(verbs, "gateway", summary, run=run, examples=_EXAMPLES)
    add_cluster(parser, "--bootstrap-servers")
    add_option(parser, "--config FILE", "settings from a .toml file; options go before it", Path)
    add_mode(parser)
    add_option(parser, "--listen-host HOST", "the address to listen on (default: all of this machine)")
    add_option(
        parser, "--node-ports NODE=PORT", "rewrite: the port of one node; may be repeated", _node_port, action="append"
    )
    add_option(
        parser,
        "--node-names PATTERN",
        "rewrite, with TLS: a host name for each node in place of a port: broker-$(nodeId).kafka.example.com",
    )
    _add_policies(parser)
    add_option(
        parser,
        "--assignors GROUPS=ASSIGNOR",
        "classic groups: replace the leader's assignment by this assignor's, such as"
        " 'billing-*=mypackage:by_lag'; may be repeated",
        _assignor,
        action="append",
    )
    add_option(parser, "--events WHERE", "keep events of groups: none, topic, or a file's path")
    add_option(parser, "--metrics HOST:PORT", "serve Prometheus' metrics here, at /metrics")
    add_option(parser, "--listener-tls-certificate FILE", "TLS for clients: the certificate (PEM)")
    add_option(parser, "--listener-tls-key FILE", "its key, where it is not in the same file")
    add_option(parser, "--listener-tls-client-authority FILE", "demand certificates of clients, signed by this one")
    add_option(parser, "--broker-tls-authority FILE", "TLS to brokers: the authority that signs theirs (PEM)")
    add_option(parser, "--instances HOST:PORT", "another instance of this gateway; may be repeated", action="append")
    add_option(parser, "--instances-listen HOST:PORT", "where other instances reach this one")
    add_option(parser, "--instances-secret-file FILE", "the secret that all instances share")
    add_option(parser, "--share-ports", "let other instances on this machine listen on the same ports")
    add_option(
        parser,
        "--proxy-protocol-from NETWORK",
        "a load balancer whose connections begin with a PROXY header; may be repeated",
        action="append",
    )
    add_option(parser, "--max-connections COUNT", "of clients, at most", number(1, "a number of connections"))
    add_option(
        parser, "--drain-ms MS", "how long an end may take (default: 30000)", number(0, "a time in milliseconds")
    )
    add_json(parser, "the ports as a JSON object once clients can connect, and log lines as JSON")
    add_option(parser, "--quiet", "log warnings and errors only")
    inner = parser.add_subparsers(metavar="VERB", title="before one decides")
    gateway_plan.register(inner)
    gateway_measure.register(inner)


def _add_policies(parser: argparse.ArgumentParser) -> None:
    policies = parser.add_argument_group("policies, in the order given, before those of the file")
    for treatment, text in (
        ("park", "let heartbeats of these groups wait for a rebalance"),
        ("observe", "only observe these groups, as all others"),
        ("off", "do not read the requests of these groups"),
    ):
        policies.add_argument(
            f"--{treatment}",
            metavar="GROUPS",
            action="append",
            dest="policies",
            type=lambda pattern, treatment=treatment: (treatment, pattern),  # type: ignore[misc]
            help=f"{text}: a pattern such as 'billing-*'",
        )


def _node_port(text: str) -> tuple[int, int]:
    node_id, _, port = text.partition("=")
    if not (node_id.isascii() and node_id.isdigit() and port.isascii() and port.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NODE=PORT, such as 1=9201")
    return int(node_id), int(port)


def _assignor(text: str) -> tuple[str, str]:
    groups, _, assignor = text.rpartition("=")
    if not groups or not assignor:
        raise argparse.ArgumentTypeError(f"{text!r} is not GROUPS=ASSIGNOR, such as 'billing-*=mypackage:by_lag'")
    return groups, assignor


def add_mode(parser: argparse.ArgumentParser) -> None:
    """Add the options of how clients reach the gateway."""
    add_option(parser, "--mode", "how clients come to the gateway", choices=MODES)
    add_option(
        parser,
        "--advertised HOST[:PORT]",
        "the gateway's name in the brokers' advertised.listeners, may be repeated; with --mode rewrite"
        " HOST:PORT for clients to begin at: node n has PORT + 1 + n",
        action="append",
    )


def run(args: argparse.Namespace) -> int:
    """Run the gateway until it is stopped, and return the exit status."""
    from kohort.broker.descriptors import raise_limit
    from kohort.cli.cluster import sentence_of
    from kohort.cli.terminal.log_lines import log_to_stderr
    from kohort.gateway.server.cluster_topology import TopologyError
    from kohort.gateway.server.gateway_ports import ListenFailed
    from kohort.model.errors import KafkaError
    from kohort.model.setting import SettingsError
    from kohort.net.event_loop import run as run_loop

    log_to_stderr(is_json=args.json, is_quiet=args.quiet)
    raise_limit()
    try:
        settings = settings_from(args)
        if settings.assignors or args.config is not None:
            sys.path.insert(0, "")  # as `python -m` does; a console script starts without it
        run_loop(_serve(settings, args))
    except SettingsError as error:
        print(f"kohort gateway: {error}", file=sys.stderr)
        return 2
    except (TopologyError, ListenFailed) as error:
        print(f"kohort gateway: {error}", file=sys.stderr)
        return 1
    except KafkaError as error:
        print(f"kohort gateway: {sentence_of(error, settings.bootstrap_servers)}", file=sys.stderr)
        return 1
    return 0


def settings_from(args: argparse.Namespace) -> GatewaySettings:
    """Return the settings of a command line and of the file that it names. Raises SettingsError."""
    from kohort.gateway.gateway_settings import GatewaySettings, read_settings, read_settings_file
    from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
    from kohort.model.setting import SettingsError
    from kohort.net.settings_files import located

    settings: dict[str, Any] = read_settings_file(args.config) if args.config is not None else {}
    rows = tuple(Policy(groups=groups, treatment=Treatment(treatment)) for treatment, groups in args.policies or ())
    settings["policies"] = PolicyTable(rows + settings.get("policies", PolicyTable()).rows)
    given = {name: getattr(args, name) for name in _OPTIONS}
    given["share_ports"] = args.share_ports or None
    given["node_ports"] = dict(args.node_ports or ()) or None
    given["assignors"] = [{"groups": groups, "assignor": assignor} for groups, assignor in args.assignors or ()]
    for table, names in _TABLES.items():
        columns = {name: value for name in names if (value := getattr(args, f"{table}_{name}")) is not None}
        given[table] = columns or None
    read = read_settings({name: value for name, value in given.items() if value is not None})
    read["assignors"] = read.get("assignors", ()) + settings.get("assignors", ())
    settings.update(read)
    if args.bootstrap_is_given or "bootstrap_servers" not in settings:
        settings["bootstrap_servers"] = args.bootstrap_server
    for name, option in (
        ("mode", f"--mode {', '.join(MODES[:-1])} or {MODES[-1]}"),
        ("advertised", "--advertised HOST"),
    ):
        if name not in settings:
            raise SettingsError(f"{name} is not set: give {option}, or write it into the file of --config")
    try:
        return GatewaySettings(**settings, security=args.security)
    except SettingsError as error:
        raise error if args.config is None else located(args.config, error) from None


async def _serve(settings: GatewaySettings, args: argparse.Namespace) -> None:
    import asyncio
    import signal

    from kohort.cli.terminal.interruption import first_signal
    from kohort.gateway.server.gateway_server import GatewayServer
    from kohort.gateway.server.settings_reload import SettingsSource

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    source = None if args.config is None else SettingsSource(args.config, lambda: settings_from(args))
    server = GatewayServer(settings, source)
    if server.reload is not None and hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, server.reload.order)
    with first_signal(lambda _number: loop.call_soon_threadsafe(stopped.set)):
        starting = loop.create_task(server.start())
        ending = loop.create_task(stopped.wait())
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        print(_ready(server, is_json=args.json), flush=True)
        await ending
        await server.drain()


def _ready(server: GatewayServer, *, is_json: bool) -> str:
    upstreams = server.follower.topology.upstreams
    if is_json:
        ports = {
            str(port): {"node": upstream.node_id, "address": f"{upstream.host}:{upstream.port}"}
            for port, upstream in sorted(upstreams.items())
        }
        return json.dumps(
            {"ready": True, "mode": server.settings.mode, "ports": ports, "metrics_port": server.metrics.port}
        )
    served = ", ".join(f"port {port} for {upstream}" for port, upstream in sorted(upstreams.items()))
    return f"kohort gateway ready: {served}"
