"""`kohort broker`: run a broker until SIGTERM or SIGINT.

Prints one line with its address once clients can connect. Exit status 1 when it cannot start, 2 when a setting or an
option is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.terminal.options import add_json, add_option, host_and_port, number, setting, verb

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_EXAMPLES = """
kohort broker --data /var/lib/kohort
kohort broker --data ./kohort --port 9092 --set num.partitions=12 --set group.initial.rebalance.delay.ms=0
kohort broker --data ./kohort --config server.properties
kohort broker --data ./kohort --set 'kohort.sasl.scram.users=ann:${env:PASSWORD}' --set listeners=SASL_PLAINTEXT://127.0.0.1:9093
kohort broker --data ./kohort --assignor billing.assignors:by_hand
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `broker` to the command line."""
    summary = "run a broker on one data directory until SIGTERM or SIGINT"
    parser = verb(verbs, "broker", summary, run=run, examples=_EXAMPLES)
    add_option(parser, "--data DIR", "the data directory; made where there is none", required=True)
    add_option(parser, "--host HOST", "the address to listen on (default: that of listeners)")
    add_option(parser, "--port PORT", "the port, 0 for any (default: that of listeners)", number(0, "a port", 65535))
    add_option(parser, "--advertised HOST:PORT", "where clients shall connect to")
    add_option(
        parser,
        "--set NAME=VALUE",
        "one setting; ${env:VARIABLE} in it, as in a file, is that environment variable",
        setting,
        action="append",
        default=[],
    )
    add_option(parser, "--config FILE", "settings from a .properties or .toml file", Path)
    add_option(
        parser,
        "--compatible VERSION",
        "behave as this version of Apache Kafka: kafka-4.3 switches off what improves on it",
    )
    add_option(
        parser,
        "--assignor MODULE:FUNCTION",
        "a server-side assignor of your own, looked for in this folder too",
        action="append",
        default=[],
    )
    add_option(parser, "--metrics HOST:PORT", "serve Prometheus' metrics here, at /metrics", host_and_port)
    add_json(parser, "the address as a JSON object once clients can connect")
    add_option(parser, "--quiet", "log errors only")


def run(args: argparse.Namespace) -> int:
    """Run the broker until it is stopped, and return the exit status."""
    import logging

    from kohort.broker.broker import Broker
    from kohort.broker.descriptors import raise_limit
    from kohort.model.setting import SettingsError
    from kohort.net.event_loop import run as run_loop

    level = logging.ERROR if args.quiet else logging.INFO
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = _of_file(args.config) if args.config is not None else {}
        settings.update(_given(args.set))
        if args.assignor:
            sys.path.insert(0, "")  # as `python -m` does; a console script starts without it
        broker = Broker(
            args.data,
            args.host,
            args.port,
            settings,
            advertised=args.advertised,
            assignors=args.assignor,
            compatible=args.compatible,
            metrics=args.metrics,
        )
    except SettingsError as error:
        print(f"kohort broker: {error}", file=sys.stderr)
        return 2
    raise_limit()
    try:
        run_loop(_serve(broker, args.json))
    except SettingsError as error:
        print(f"kohort broker: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"kohort broker: {_reason(error, broker, args.data)}", file=sys.stderr)
        return 1
    return 0


def _of_file(path: Path) -> dict[str, str]:
    """Return the settings of a .properties or .toml file. Raises SettingsError."""
    from kohort.net.settings_files import read_file, texts_of

    is_toml = path.suffix == ".toml"
    settings = read_file(path, is_toml=is_toml)
    return texts_of(settings) if is_toml else settings


def _given(options: list[tuple[str, str]]) -> dict[str, str]:
    """Return the settings of the command line. Raises SettingsError."""
    from kohort.model.setting import SettingKind
    from kohort.net.settings_files import with_variables
    from kohort.node.configuration.config import find_broker_setting

    settings = {}
    for name, text in options:
        settings[name] = value = with_variables(text, name)
        if value == text and find_broker_setting(name).kind is SettingKind.PASSWORD:
            print(
                f"kohort broker: warning: every user of this machine can read {name} in the list of processes: set it"
                f" in a file for --config, or as --set '{name}=${{env:VARIABLE}}'",
                file=sys.stderr,
            )
    return settings


async def _serve(broker: Broker, is_json: bool) -> None:
    import asyncio
    import json

    from kohort.cli.terminal.interruption import first_signal
    from kohort.node.configuration.listeners import address_text

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    with first_signal(lambda _number: loop.call_soon_threadsafe(stopped.set)):
        await broker.start()
        address = address_text(broker.address)
        listeners = {listener.name: address_text(listener.address) for listener in broker.listeners}
        others = ", ".join(f"{name} {each}" for name, each in list(listeners.items())[1:])
        ready = f"kohort broker ready on {address}" + (f" ({others})" if others else "")
        if is_json:
            port = {} if broker.metrics is None else {"metrics_port": broker.metrics.endpoint.port}
            ready = json.dumps({"ready": True, "address": address, "listeners": listeners, **port})
        print(ready, flush=True)
        for _ in broker.prepare():
            await asyncio.sleep(0)
        await stopped.wait()
        await broker.stop()


def _reason(error: OSError, broker: Broker, directory: str) -> str:
    import errno
    import socket

    from kohort.log.disk import StorageError

    if isinstance(error, StorageError):
        if error.errno == errno.EROFS:
            advice = "mount a volume there that can be written, or give --data another directory"
            return f"no permission to write {directory}: its file system is read-only; {advice}"
        if error.errno in (errno.EACCES, errno.EPERM):
            return _no_permission(directory)
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            return f"{directory} is not a directory: give --data a directory, or a path where one can be made"
        return f"{error.strerror or error} ({directory})"
    host, port = broker.address
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another process"
    if error.errno == errno.EACCES:
        return f"no permission to listen on {host}:{port}"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine"
    return str(error)


def _no_permission(directory: str) -> str:
    """Return who may not write the data directory, whose it is, and what to do."""
    import os

    place = os.path.abspath(directory)
    while not os.path.exists(place):  # as where a directory above it may not be listed
        place = os.path.dirname(place)
    user, owner = os.geteuid(), os.stat(place).st_uid
    return (
        f"no permission to write {directory} as user {user}: {place} belongs to user {owner}."
        f" Run `chown -R {user} {place}` and `chmod -R u+rwX {place}`, or give --data a directory of this user"
    )
