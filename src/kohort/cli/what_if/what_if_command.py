"""`kohort what-if GROUP`: forecast of a change to a group, simulated on a copy of it in virtual time.

It reads a live group, on our broker or on Apache Kafka, or a broker's data directory, and changes nothing there.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.cluster import require_group, with_admin
from kohort.cli.migrate import goal
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed
from kohort.cli.terminal.options import (
    add_cluster,
    add_json,
    add_option,
    amount,
    duration_ms,
    number,
    output_file,
    setting,
    verb,
)
from kohort.group.migration.migration_plan import Goal, LiveGroup

if TYPE_CHECKING:
    from kohort.cli.what_if.what_if_inputs import GroupInputs
    from kohort.client import Admin
    from kohort.what_if.change import PlannedChange
    from kohort.what_if.forecast import Forecast

EXAMPLES = """
kohort what-if readers --bounce rolling
kohort what-if readers --kill m-2 --add 3
kohort what-if readers --protocol consumer --assignor uniform --away 30s
kohort what-if readers --partitions orders=48 --data-dir ./kohort-data
kohort what-if readers --bounce rolling --compare --html roll.html
kohort what-if word-count --add 1
kohort what-if readers --add 2 --callback-ms 300 --produce-rate 5000 --json | jq .forecasts[0].lag_growth
"""

METADATA_MS = 300_000


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `what-if` to the command line."""
    summary = "forecast a change to a group: moves, rounds, duration, unread partitions meanwhile"
    parser = verb(verbs, "what-if", summary, run=run, examples=EXAMPLES)
    parser.add_argument("group", metavar="GROUP")
    change = parser.add_argument_group("the change (options add up; restarts come last)")
    add_option(change, "--add N", "N members join", number(1, "a number of members"), default=0)
    add_option(change, "--kill MEMBER", "a member dies without a word; may repeat", action="append", default=[])
    add_option(change, "--stop MEMBER", "a member leaves; may repeat", action="append", default=[])
    add_option(
        change,
        "--partitions TOPIC=N",
        "a topic grows to N partitions; may repeat",
        topic_size,
        action="append",
        default=[],
    )
    add_option(
        change, "--bounce", "restart every member: one after another, or all at once", choices=("rolling", "all")
    )
    add_option(
        change,
        "--protocol PROTOCOL",
        "restart every member with the protocol consumer, classic, or cooperative",
        goal,
        dest="goal",
    )
    add_option(change, "--assignor NAME", "restart every member so that the group's assignor is NAME")
    add_option(
        change,
        "--compare",
        "the same in the eager, the cooperative and the consumer protocol, and with static members, side by side "
        "(without another option: a rolling restart)",
    )
    add_times(parser)
    add_option(parser, "--data-dir DIR", "read a broker's data directory, not a cluster", Path)
    add_option(parser, "--html FILE", "write a page: who reads what before, meanwhile and after", output_file(".html"))
    add_json(parser)
    add_cluster(parser)


def add_times(parser: argparse.ArgumentParser) -> None:
    """Add how long things take."""
    times = parser.add_argument_group("how long things take (default: measured where that is possible)")
    add_option(
        times,
        "--callback-ms MS[,MS]",
        "how long on_partitions_revoked and on_partitions_assigned run (default: measured, from its events)",
        callback_ms,
    )
    add_option(
        times,
        "--poll-ms MS",
        "how long an application is away between two polls, for clients whose callbacks wait for a poll, as "
        "Java's do (default: 0)",
        milliseconds,
        default=0.0,
    )
    add_option(times, "--network-ms MS", "how long a message is on its way (default: measured)", milliseconds)
    add_time = partial(times.add_argument, metavar="TIME", type=duration_ms)
    away = "from the end of a restarted process to the start of the next (default: 10s)"
    add_time("--away", dest="away_ms", default=10_000, help=away)
    pause = "from a stable group to the next restart (default: 0s)"
    add_time("--pause", dest="pause_ms", default=0, help=pause)
    session = "classic members' session.timeout.ms (default: from the group's events, else 45s)"
    add_time("--session", dest="session_ms", help=session)
    heartbeat = "classic members' heartbeat.interval.ms (default: 3s, or a third of the session)"
    add_time("--heartbeat", dest="heartbeat_ms", help=heartbeat)
    age = "classic members' metadata.max.age.ms, after which they see that a topic has grown (default: 300s)"
    add_time("--metadata-age", dest="metadata_ms", default=METADATA_MS, help=age)
    add_option(
        times,
        "--produce-rate N",
        "records per second, all partitions together (default: measured for a second and a half)",
        amount("number of records per second such as 5000", below=1e12),
    )


# -- the types of options


def topic_size(text: str) -> tuple[str, int]:
    """Return the halves of TOPIC=N."""
    name, value = setting(text)
    return name, number(1, "a number of partitions")(value)


milliseconds = amount("number of milliseconds such as 250", below=86_400_000, unit="ms")


def callback_ms(text: str) -> tuple[float, float]:
    """Return the times of both callbacks; one number is used for both."""
    revoked, comma, assigned = text.partition(",")
    return milliseconds(revoked), milliseconds(assigned if comma else revoked)


# -- running


def run(args: argparse.Namespace) -> int:
    """Forecast, and return the exit status."""
    refuse_contradictions(args)
    if args.data_dir is None:
        return with_admin(forecast_live)(args)
    from kohort.cli.what_if.what_if_inputs import read_stored

    return forecast(args, read_stored(args))


async def forecast_live(args: argparse.Namespace, admin: Admin) -> int:
    """Forecast for a group of a cluster."""
    from kohort.cli.what_if.what_if_inputs import read_live

    if (await require_group(admin, args.group)).group_type == "streams":
        from kohort.cli.what_if.streams_forecast import forecast_streams

        return await forecast_streams(args, admin)
    return forecast(args, await read_live(args, admin))


def refuse_contradictions(args: argparse.Namespace) -> None:
    """Raise CommandFailed for contradictory options, before anything is read or connected."""
    if args.compare and (args.goal is not None or args.assignor is not None):
        raise CommandFailed(
            "--compare tries every protocol by itself: leave --protocol and --assignor away, or --compare", USAGE
        )
    given = (args.add, args.kill, args.stop, args.partitions, args.bounce, args.goal, args.assignor, args.compare)
    if not any(given):
        raise CommandFailed(
            "give a change: --add, --kill, --stop, --partitions, --bounce, --protocol or --assignor", USAGE
        )


def forecast(args: argparse.Namespace, found: GroupInputs) -> int:
    """Simulate the change, and print the forecasts."""
    from kohort.cli.what_if.what_if_report import document, put_forecasts
    from kohort.what_if.group_facts import roster_of
    from kohort.what_if.simulation import simulate
    from kohort.what_if.variants import compare

    group = found.facts.group
    require_readable(group, found)
    change = change_of(args, group)
    require_safe(args, found)
    with output.Meter(f"simulating {args.group}", unit="events") as meter:
        if args.compare:
            has_consumer, server = found.limits.has_consumer_protocol, found.limits.server_assignor
            forecasts = compare(found.facts, found.times, change, server, meter.advance, has_consumer=has_consumer)
        else:
            forecasts = [simulate(found.facts, roster_of(group), found.times, change, "", meter.advance)]
    if args.html is not None:
        from kohort.cli.what_if.what_if_page import forecast_page

        output.write_file(args.html, forecast_page(args, found, change, forecasts))
    if args.json:
        output.put_json(document(args, found, change, forecasts))
    else:
        put_forecasts(args, found, change, forecasts)
    return complain(forecasts)


def complain(forecasts: list[Forecast]) -> int:
    """Print which forecasts failed, and return the exit status."""
    for each in forecasts:
        name = f"{each.label}: " if each.label else ""
        for text in dict.fromkeys(each.failures):
            output.remark(f"{name}a member would fail: {text}")
        if not each.is_settled and not each.failures:
            output.remark(f"{name}the group would not be stable within half an hour: figures are up to then")
    return 0 if all(each.is_settled and not each.failures for each in forecasts) else FAILED


def require_readable(group: LiveGroup, found: GroupInputs) -> None:
    """Raise CommandFailed for a group that no copy can be made of."""
    from kohort.what_if.group_facts import CLIENT_SIDE

    if group.group_type == "classic" and group.protocol_type not in ("consumer", ""):
        raise CommandFailed(f"{group.group_id} is a group of {group.protocol_type}, whose members cannot be simulated")
    if group.members and group.state != "Stable":
        raise CommandFailed(f"{group.group_id} is {group.state}: owners are known once it is Stable; try again then")
    if unreadable := [each.name for each in group.members if not each.is_readable]:
        raise CommandFailed(f"the metadata of {', '.join(unreadable)} cannot be read: no copy can be made of the group")
    if group.members and group.group_type == "classic" and group.assignor not in CLIENT_SIDE:
        raise CommandFailed(
            f"the assignor {group.assignor} cannot be simulated, because its assignments are unknown; "
            f"there are {', '.join(sorted(CLIENT_SIDE))}"
        )
    without_offers = [each.name for each in group.members if not each.is_native and each.offers is None]
    if without_offers and group.group_type == "classic":
        found.assumed.append(f"classic members offer no assignor but {group.assignor}, since there are no events")
    if any(each.regex for each in group.members):
        found.assumed.append("members that subscribe with an expression are simulated as if they had named its topics")


def change_of(args: argparse.Namespace, group: LiveGroup) -> PlannedChange:
    """Return what the options ask for. Raises CommandFailed."""
    from kohort.cli.what_if.what_if_inputs import member_id_of
    from kohort.what_if.change import Impossible, Pace, PlannedChange, check, restarts_for

    pace = None if args.bounce is None else Pace(args.bounce)
    if args.compare and not (args.add or args.kill or args.stop or args.partitions or args.bounce):
        pace = Pace.ROLLING
    try:
        restarts = restarts_for(group, args.goal, args.assignor, pace)
        members = {each.member_id: each for each in group.members}
        kill, stop = (
            tuple(member_id_of(name, group.group_id, members) for name in dict.fromkeys(names))
            for names in (args.kill, args.stop)
        )
        change = PlannedChange(args.add, kill, stop, dict(args.partitions), restarts)
        check(change, group)
    except Impossible as error:
        raise CommandFailed(str(error), USAGE) from None
    return change


def require_safe(args: argparse.Namespace, found: GroupInputs) -> None:
    """Raise CommandFailed where a plan of the migration would be refused."""
    if args.goal is None:
        return
    from kohort.group.migration.migration_plan import refusals

    default = "cooperative-sticky" if args.goal is Goal.COOPERATIVE else "range"
    stands = refusals(found.facts.group, found.limits, args.goal, args.assignor or default)
    if stands:
        text = "; ".join(each.text for each in stands)
        raise CommandFailed(f"{args.group} cannot go to {args.goal}: {text} (see `kohort migrate plan`)")
