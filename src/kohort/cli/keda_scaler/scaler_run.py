"""`kohort keda-scaler`: serve KEDA's external scaler until SIGTERM or SIGINT.

Prints one line with its address once KEDA can connect. Exit status 1 when it cannot start, 2 when an option is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, verb

_EXAMPLES = """
kohort keda-scaler --bootstrap-server kafka-1:9092
kohort keda-scaler --command-config client.properties --host 0.0.0.0 --tls-certificate tls.crt --tls-key tls.key
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `keda-scaler` to the command line."""
    summary = "scale groups on Kubernetes: serve KEDA's external scaler until SIGTERM or SIGINT"
    parser = verb(verbs, "keda-scaler", summary, run=run, examples=_EXAMPLES)
    add_option(parser, "--host HOST", "the address to listen on (default: 127.0.0.1)", default="127.0.0.1")
    add_option(parser, "--port PORT", "the port, 0 for any (default: 9097)", number(0, "a port", 65535), default=9097)
    add_option(parser, "--tls-certificate FILE", "TLS for KEDA: the certificate (PEM)", Path)
    add_option(parser, "--tls-key FILE", "its key, where it is not in the same file", Path)
    add_option(parser, "--tls-client-authority FILE", "demand certificates of clients, signed by this one", Path)
    add_json(parser, "the address as a JSON object once KEDA can connect, and log lines as JSON")
    add_option(parser, "--quiet", "log warnings and errors only")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal, and return the exit status."""
    from kohort.cli.cluster import sentence_of
    from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed
    from kohort.cli.terminal.log_lines import log_to_stderr
    from kohort.model.errors import KafkaError

    log_to_stderr(is_json=args.json, is_quiet=args.quiet)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # its core logs each failed handshake
    if args.tls_certificate is None and (args.tls_key or args.tls_client_authority):
        raise CommandFailed("give the certificate of the key with --tls-certificate FILE", USAGE)
    try:
        asyncio.run(_serve(args))
    except KafkaError as error:
        raise CommandFailed(sentence_of(error, args.bootstrap_server), FAILED) from error
    return 0


async def _serve(args: argparse.Namespace) -> None:
    from kohort.cli.cluster import admin_of, principal_of
    from kohort.cli.keda_scaler.drain_orders import DrainOrders
    from kohort.cli.keda_scaler.external_scaler import ExternalScaler, TlsFiles
    from kohort.cli.keda_scaler.rebalance_prices import RebalancePrices
    from kohort.cli.keda_scaler.scaled_groups import ScaledGroups
    from kohort.cli.main import parser_for
    from kohort.cli.terminal.interruption import first_signal

    what_if = parser_for(["what-if"]).parse_args(["what-if", "any", "--produce-rate", "0"])
    what_if.bootstrap_server, what_if.security = args.bootstrap_server, args.security
    tls = None
    if args.tls_certificate is not None:
        tls = TlsFiles(args.tls_certificate, args.tls_key or args.tls_certificate, args.tls_client_authority)
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    async with admin_of(args) as admin:
        prices = RebalancePrices(admin, what_if)
        drains = DrainOrders(admin, args.bootstrap_server, args.security, principal_of(args))
        groups = ScaledGroups(admin, args.bootstrap_server, prices, drains)
        scaler = ExternalScaler(groups)
        with first_signal(lambda _number: loop.call_soon_threadsafe(stopped.set)):
            await scaler.start(args.host, args.port, tls)
            work = [loop.create_task(each) for each in (groups.run(), prices.run(), stopped.wait())]
            address = f"{args.host}:{scaler.port}"
            text = f"kohort keda-scaler ready on {address}"
            print(json.dumps({"ready": True, "address": address}) if args.json else text, flush=True)
            try:
                done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                await scaler.stop()
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
