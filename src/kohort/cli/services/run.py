"""`kohort run MODULE:NAME`: run a service until SIGTERM or SIGINT, with probes and metrics over HTTP.

The first signal stops it within --stop-timeout: handlers finish, what they did is committed. The second ends the
process at once. Exit status 0 after a signal, 1 where a handler or the cluster ended it or the stop took too long, 2
where the command line is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import threading
import traceback
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import sentence_of
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed
from kohort.cli.terminal.options import (
    BOOTSTRAP_VARIABLE,
    add_cluster,
    add_option,
    duration_ms,
    host_and_port,
    verb,
)

if TYPE_CHECKING:
    from kohort.client.service.running_service import RunningService

log = logging.getLogger(__name__)

_EXAMPLES = """
kohort run billing:app
kohort run billing:app --listen 0.0.0.0:8080 --log-format json --stop-timeout 25s
"""


_STOP_TIMEOUT_MS = 25_000
"""Less than the 30 seconds after which Kubernetes kills a container."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the command line."""
    parser = verb(
        verbs, "run", "run a service: call its functions with the records of topics", run=run, examples=_EXAMPLES
    )
    parser.add_argument("service", metavar="MODULE:NAME", help="where the kohort.Service is, such as billing:app")
    add_option(parser, "--listen HOST:PORT", "serve /live, /ready and /metrics there (default: nowhere)", host_and_port)
    text = "how long handlers may take to finish after a signal, commits included (default: 25s)"
    add_option(parser, "--stop-timeout TIME", text, duration_ms, default=_STOP_TIMEOUT_MS)
    text = "log lines as text, or as one JSON object each, with topic, partition, offset and key of the record"
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help=text)
    add_option(parser, "--quiet", "log warnings and errors only")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Run the service until a signal, and return the exit status."""
    from kohort.cli.services.service_module import service_of
    from kohort.cli.terminal.log_lines import log_to_stderr
    from kohort.client.service.record_context import record_fields
    from kohort.client.service.record_handler import THREADS
    from kohort.client.service.running_service import RunningService
    from kohort.model.errors import KafkaError
    from kohort.net import event_loop

    log_to_stderr(is_json=args.log_format == "json", is_quiet=args.quiet, context=record_fields)
    service = service_of(args.service)
    settings = _settings(args, service.settings)
    bound = _Bound(args.stop_timeout)
    try:
        running = RunningService(service, settings, stop_timeout_ms=args.stop_timeout, on_stopping=bound.begin)
    except (TypeError, ValueError) as error:
        raise CommandFailed(f"{args.service} cannot be run: {error}", USAGE) from None
    try:
        event_loop.run(_serve(args, running, bound))
    except CommandFailed:
        raise
    except KafkaError as error:
        raise CommandFailed(sentence_of(error, str(settings["bootstrap_servers"])), FAILED) from error
    except Exception as error:
        traceback.print_exception(error)
        raise CommandFailed(f"ended by {type(error).__name__}: {error}", FAILED) from None
    finally:
        for thread in threading.enumerate():  # of plain functions: Python would wait for them without an end
            if thread.name.startswith(THREADS):
                thread.join()
        bound.cancel()
    return 0


def _settings(args: argparse.Namespace, own: dict[str, Any]) -> dict[str, Any]:
    """Return the cluster: what was given to the command goes before what is in the program."""
    is_given = args.bootstrap_is_given or BOOTSTRAP_VARIABLE in os.environ or "bootstrap_servers" not in own
    return {"bootstrap_servers": args.bootstrap_server, **args.security} if is_given else own


async def _serve(args: argparse.Namespace, running: RunningService, bound: _Bound) -> None:
    from kohort.cli.terminal.interruption import first_signal
    from kohort.net.metrics_endpoint import MetricsEndpoint
    from kohort.node.configuration.listeners import address_text

    loop = asyncio.get_running_loop()
    endpoint = MetricsEndpoint(running.families, running.unready)
    if args.listen is not None:
        host, port = args.listen
        try:
            await endpoint.listen(host, port)
        except OSError as error:
            text = f"cannot listen on {host}:{port}: {error.strerror or error}: give another port with --listen"
            raise CommandFailed(text, FAILED) from None
        log.info("probes and metrics on http://%s", address_text((host, endpoint.port or port)))
    stopping: list[asyncio.Task[None]] = []

    def interrupt(_number: int) -> None:
        bound.begin()  # here: a handler may block the loop
        loop.call_soon_threadsafe(stop)

    def stop() -> None:
        log.info("stopping, within %g s; another signal ends the process at once", args.stop_timeout / 1000)
        stopping.append(loop.create_task(running.stop()))

    try:
        with first_signal(interrupt):
            await running.run()
            await asyncio.gather(*stopping)
    finally:
        endpoint.close()


class _Bound:
    """Ends the process a time after `begin`, whatever runs then."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000
        self._timer = threading.Timer(self._timeout_s, self._end)
        self._timer.daemon = True
        self._has_begun = False

    def begin(self) -> None:
        """Begin to count; a second time does nothing."""
        if not self._has_begun:
            self._has_begun = True
            self._timer.start()

    def cancel(self) -> None:
        """Count no more."""
        self._timer.cancel()

    def _end(self) -> None:
        output.remark(f"ended {self._timeout_s:g} s after it began to stop, although something still runs")
        os._exit(FAILED)
