"""`kohort explain GROUP`: each rebalance as one sentence with its cost, and below it the chain of causes.

It reads the group events that the broker stores (docs/guide/rebalances.md): from the cluster, from the data directory
of a stopped broker, or from a file. It changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from argparse import ArgumentTypeError
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import admin_of, require_group, run_against
from kohort.cli.group_state.group_events import (
    GroupFilter,
    event_consumer,
    filed_events,
    live_events,
    now_ms,
    stored_events,
)
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed, unknown_group
from kohort.cli.terminal.options import add_cluster, add_json, add_option, moment_ms, number, output_file, verb
from kohort.cli.terminal.output import counted
from kohort.cli.terminal.record_lines import iso_time
from kohort.group.explain.explain import JOIN_REFUSED, Explanation
from kohort.group.explain.explain_text import (
    Names,
    chain,
    event_text,
    partition_seconds,
    refusal,
    sentence,
    unit,
    warm_up,
)
from kohort.group.explain.rebalance_report import GroupReport, Rebalance, Refused
from kohort.group.explain.remedy import Remedy
from kohort.model.ids import EVENT_TOPIC

if TYPE_CHECKING:
    from kohort.client import Admin, Consumer

EXAMPLES = """
kohort explain readers
kohort explain readers --last 1 --verbose
kohort explain readers --since 2h --json | jq '.rebalances[].unowned_partition_s'
kohort explain readers --follow
kohort explain readers --since 1d --html readers.html
kohort explain readers --data-dir ./kohort-data
"""

LAST = 10
SLOW_MS = 2_000
"""With --follow, how long a rebalance may run before it is reported as running."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explain` to the command line."""
    summary = "show why a group rebalanced, which member it waited for, and what it cost"
    parser = verb(verbs, "explain", summary, run=run, examples=EXAMPLES)
    parser.add_argument("group", metavar="GROUP")
    add_option(
        parser,
        "--last N",
        f"only the last N rebalances (default: {LAST}, or all with --since)",
        number(0, "a number of rebalances"),
    )
    add_option(
        parser,
        "--since WHEN",
        "only rebalances that ended after WHEN: an ISO 8601 time, or how long ago, such as 90s, 30m, 2h, 1d",
        since_ms,
    )
    add_option(parser, "--verbose", "print every event of each rebalance as well")
    add_option(parser, "--follow", "continue, and print each rebalance when it is over")
    add_option(
        parser, "--html FILE", "write them as a page with a drawing of who owned what, too", output_file(".html")
    )
    add_option(parser, "--svg FILE", "write the drawing alone", output_file(".svg"))
    where = parser.add_mutually_exclusive_group()
    add_option(where, "--data-dir DIR", "read a broker's data directory instead of a cluster", Path)
    add_option(where, "--events FILE", f"read lines of JSON, as in {EVENT_TOPIC}", Path)
    add_json(parser, "one JSON document; with --follow one for each rebalance, a line each")
    add_cluster(parser)


def since_ms(text: str) -> int:
    """Return the moment of an ISO 8601 time, or of so long ago, as milliseconds since the epoch."""
    if text[-1:] in _UNITS:
        with suppress(ValueError):
            return round((time.time() - float(text[:-1]) * _UNITS[text[-1]]) * 1000)
    try:
        return moment_ms(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r} is neither an ISO 8601 time such as 2026-01-31T12:00:00Z nor how long ago, such as 30m or 2h"
        ) from None


def new_explanation(args: argparse.Namespace) -> Explanation:
    """Return an explanation that buffers no more than the options need."""
    last = None if args.since is not None else LAST if args.last is None else args.last
    return Explanation(args.group, last=last, keeps_events=args.verbose)


def run(args: argparse.Namespace) -> int:
    """Explain a group, and return the exit status."""
    is_live = args.data_dir is None and args.events is None
    if args.follow and (args.html or args.svg):
        raise CommandFailed("--html and --svg show what is over: leave --follow away, or open `kohort console`", USAGE)
    if args.follow and not is_live:
        raise CommandFailed("--follow needs a broker that runs: leave --data-dir and --events away", USAGE)
    if not is_live:
        return explain_stored(args)
    return run_against(args.bootstrap_server, lambda: explain_live(args))


def explain_stored(args: argparse.Namespace) -> int:
    """Explain from files."""
    group_filter = GroupFilter(args.group)
    explanation = new_explanation(args)
    with output.Meter("reading group events", unit="events") as meter:
        source = stored_events if args.data_dir is not None else filed_events
        for event in source(args.data_dir or args.events, group_filter, meter.advance):
            explanation.fold(event)
    # It is unknown how long a rebalance continued after the last stored event.
    show(args, explanation.report(0), group_filter, 0)
    return 0


async def explain_live(args: argparse.Namespace) -> int:
    """Explain from a cluster."""
    async with admin_of(args) as admin:
        await require_events(args, admin)
    async with event_consumer(args.bootstrap_server, args.security) as consumer:
        if args.follow:
            with suppress(asyncio.CancelledError):
                await EventFollower(args).follow(consumer)
            return 0
        group_filter, explanation = GroupFilter(args.group), new_explanation(args)
        with output.Meter("reading group events", unit="events") as meter:
            async for event in live_events(consumer, group_filter, meter.advance):
                if event is not None:
                    explanation.fold(event)
        at_ms = now_ms()
        show(args, explanation.report(at_ms), group_filter, at_ms)
    return 0


async def require_events(args: argparse.Namespace, admin: Admin) -> None:
    """Raise CommandFailed, with what is known instead, for a cluster without group events."""
    if any(topic.name == EVENT_TOPIC for topic in await admin.list_topics()):
        return
    group = await require_group(admin, args.group)
    raise CommandFailed(
        f"{args.bootstrap_server} does not store why its groups rebalance (it has no topic {EVENT_TOPIC}; Apache "
        f"Kafka has none). The current state of {args.group} is {group.state}: "
        f"`kohort groups describe {args.group} --members`. The reasons are in the coordinator's log, in lines that "
        "contain 'Preparing to rebalance group'"
    )


class EventFollower:
    """One run of `--follow`: what has been printed, and whether a running rebalance was reported."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.filter = GroupFilter(args.group)
        self.explanation = new_explanation(args)
        self.is_caught_up = False
        self.reported_slow_ms: int | None = None

    async def follow(self, consumer: Consumer) -> None:
        """Print rebalances as they end."""
        with output.Meter("reading group events", unit="events") as meter:

            def events_read(count: int) -> None:
                if not self.is_caught_up:
                    meter.advance(count)

            async for event in live_events(consumer, self.filter, events_read, following=True):
                if event is None:
                    self._idle()
                    continue
                ended = self.explanation.fold(event)
                is_refused = event.get("event") == JOIN_REFUSED
                if self.is_caught_up and (ended is not None or is_refused):
                    known = self.explanation.report(now_ms())
                    self._print(known, [] if ended is None else [ended], known.refused[-1:] if is_refused else [])

    def _idle(self) -> None:
        """Handle an idle wait: the past is read; report a rebalance that runs for long."""
        known = self.explanation.report(now_ms())
        if not self.is_caught_up:
            self.is_caught_up = True
            if not known.is_seen:
                output.remark(f"{self.args.group} has no events yet: waiting for its first member")
            self._print(known, chosen(self.args, known.rebalances), refused_since(self.args, known))
        running = known.running
        if running is None or running.started_ms == self.reported_slow_ms or running.duration_ms(now_ms()) < SLOW_MS:
            return
        self.reported_slow_ms = running.started_ms
        output.remark(sentence(running, Names(known.identities), now_ms()))

    def _print(self, known: GroupReport, rebalances: Iterable[Rebalance], refused: Iterable[Refused]) -> None:
        page = ExplanationPage(known, self.args.verbose)
        for each in rebalances:
            output.put_result(self.args, page.document(each), page.text(each))
        for join in refused:
            output.put_result(self.args, {"group": known.group_id, "refused": join.to_json()}, page.refused_line(join))
        output.flush()


def show(args: argparse.Namespace, known: GroupReport, group_filter: GroupFilter, at_ms: int) -> None:
    """Print a group's rebalances, and write the files. Raises CommandFailed for a group without events."""
    if not known.is_seen:
        raise unknown_group(args.group, group_filter.others)
    rebalances = chosen(args, known.rebalances)
    running = known.running
    write_files(args, known, [*rebalances, *([] if running is None else [running])], at_ms)
    page = ExplanationPage(known, args.verbose)
    if args.json:
        output.put_json(
            {
                "group": known.group_id,
                "type": known.group_type,
                "state": known.state,
                "generation": known.generation,
                "members": known.members,
                "partitions": known.partitions,
                "rebalances_total": known.total,
                "rebalances_avoided": known.avoided,
                "refused": [each.to_json() for each in refused_since(args, known)],
                "rebalances": [page.document(each) for each in rebalances],
                "running": None if running is None else page.document(running),
                "warmups": [each.to_json() for each in known.warmups],
            }
        )
        return
    output.put(headline(known))
    names = Names(known.identities)
    for warming in known.warmups:
        output.put(f"  {warm_up(warming, names)}")
    for each in [*rebalances, *([running] if running is not None else [])]:
        output.put("\n" + page.text(each))
    if refused := refused_since(args, known):
        output.put("\n" + "\n".join(map(page.refused_line, refused)))
    left_out = known.total - len(rebalances)
    if left_out and args.last is None and args.since is None:
        output.remark(f"{left_out} earlier ones are not shown: ask for more with --last N or --since WHEN")


def write_files(args: argparse.Namespace, known: GroupReport, rebalances: list[Rebalance], at_ms: int) -> None:
    """Write the page and the drawing, where they are asked for. Raises CommandFailed."""
    if not (args.html or args.svg):
        return
    from kohort.console.command_runs import command_line, command_words
    from kohort.console.history.explanation_page import explanation_page, strip_of
    from kohort.drawing.markup import Markup, tag
    from kohort.drawing.ownership_drawing import svg_file

    is_live = args.data_dir is None and args.events is None

    def command(remedy: Remedy) -> Markup:
        words = command_words(remedy.verb, [args.group], remedy.options)
        return tag("span", tag("code", command_line(words, args.cluster_options if is_live else ())), class_="command")

    if args.html:
        output.write_file(args.html, explanation_page(known, rebalances, refused_since(args, known), at_ms, command))
    if args.svg:
        output.write_file(args.svg, svg_file(strip_of(known, rebalances, at_ms)))


def refused_since(args: argparse.Namespace, known: GroupReport) -> list[Refused]:
    """Return the refused joins that the options ask for, the latest last."""
    return [each for each in known.refused if args.since is None or each.last_ms >= args.since]


def chosen(args: argparse.Namespace, rebalances: list[Rebalance]) -> list[Rebalance]:
    """Return the rebalances that the options ask for, the latest last."""
    if args.since is not None:
        rebalances = [each for each in rebalances if (each.ended_ms or 0) >= args.since]
    last = args.last if args.last is not None else LAST if args.since is None else len(rebalances)
    return rebalances[len(rebalances) - min(last, len(rebalances)) :]


def headline(known: GroupReport) -> str:
    """Return the group in one line: its state, and the number and cost of its rebalances."""
    clock = "generation" if known.group_type == "classic" else "group epoch"
    return (
        f"{known.group_id}: {known.state}, {clock} {known.generation}, {counted(known.members, 'member')}, "
        f"{counted(known.partitions, unit(known.group_type))}; "
        f"{counted(known.total, 'rebalance')}, {known.avoided} avoided, "
        f"{partition_seconds(known.unowned_partition_s)} unowned"
    )


class ExplanationPage:
    """Rebalances and refused joins of a group as lines and as the documented JSON."""

    def __init__(self, known: GroupReport, is_verbose: bool) -> None:
        self.group_id = known.group_id
        self.names = Names(known.identities)
        self.is_verbose = is_verbose

    def text(self, rebalance: Rebalance) -> str:
        """Return a rebalance as lines: the sentence, its chain, and its events if asked."""
        lines = [f"{iso_time(rebalance.started_ms)}  {sentence(rebalance, self.names)}"]
        if rebalance.avoided_before:
            lines.append(f"  {counted(rebalance.avoided_before, 'rebalance')} avoided since the one before")
        lines += [f"  {since(link.at_ms, rebalance)}  {link.text}" for link in chain(rebalance, self.names)]
        if self.is_verbose:
            lines.append("  events:")
            for each in rebalance.events:
                lines.append(f"  {since(int(each['at_ms']), rebalance)}  {event_text(each, self.names)}")
        return "\n".join(lines)

    def document(self, rebalance: Rebalance) -> dict[str, Any]:
        """Return a rebalance as JSON."""
        document = {"group": self.group_id, "sentence": sentence(rebalance, self.names), **rebalance.to_json()}
        document["chain"] = [{"at_ms": link.at_ms, "text": link.text} for link in chain(rebalance, self.names)]
        return document | ({"events": rebalance.events} if self.is_verbose else {})

    def refused_line(self, refused: Refused) -> str:
        """Return refused joins as one line."""
        return f"{iso_time(refused.first_ms)}  {refusal(refused, self.names, iso_time)}"


def since(at_ms: int, rebalance: Rebalance) -> str:
    """Return a time relative to the start of its rebalance."""
    return f"{(at_ms - rebalance.started_ms) / 1000:+9.3f} s"
