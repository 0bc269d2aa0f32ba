"""`--watch`: a command that prints what there is prints it again and again, until a signal ends it with status 0.

On a terminal each look takes the place of the one before. Elsewhere they follow each other, each below its time, and
with --json they are lines.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from kohort.cli.cluster import sentence_of, unreachable
from kohort.cli.group_state.group_events import now_ms
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import CommandFailed
from kohort.cli.terminal.options import add_option, duration_ms
from kohort.cli.terminal.record_lines import iso_time
from kohort.model.errors import KafkaError

ClientT = TypeVar("ClientT")
Work = Callable[[argparse.Namespace, ClientT], Coroutine[Any, Any, int | None]]

CLEAR = b"\x1b[H\x1b[2J"


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add --watch and --interval."""
    add_option(parser, "--watch", "print it again and again, until Ctrl-C")
    add_option(parser, "--interval TIME", "how often, with --watch (default: 2s)", duration_ms, default=2_000)


def watching(show: Work[ClientT]) -> Work[ClientT]:
    """Return the work of a command with --watch: `show`, until the task is cancelled.

    What fails at the first look fails the command; later ones are remarked on, and follow each other all the same.
    """

    async def watch(args: argparse.Namespace, client: ClientT) -> int | None:
        if not args.watch:
            return await show(args, client)
        is_screen, failure = sys.stdout.isatty() and not args.json, None
        with suppress(asyncio.CancelledError):
            while True:
                if is_screen:
                    output.put_bytes(CLEAR)
                elif not args.json:
                    output.put(iso_time(now_ms()))
                try:
                    await show(args, client)
                    failure = ""
                except (KafkaError, CommandFailed, OSError, TimeoutError) as error:
                    if failure is None:
                        raise
                    sentence = _sentence(error, args.bootstrap_server)
                    if is_screen or sentence != failure:
                        output.remark(sentence)
                    failure = sentence
                output.put_bytes(b"" if is_screen or args.json else b"\n")
                output.flush()
                await asyncio.sleep(args.interval / 1000)
        return 0

    return watch


def _sentence(error: Exception, bootstrap: str) -> str:
    if isinstance(error, CommandFailed):
        return error.sentence
    return sentence_of(error, bootstrap) if isinstance(error, KafkaError) else unreachable(bootstrap, error)
