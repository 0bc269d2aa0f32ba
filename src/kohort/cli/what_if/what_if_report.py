"""Output of `kohort what-if`: one forecast as before and after, several as one table, and JSON."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kohort.cli.terminal import output
from kohort.drawing.display_text import listed
from kohort.group.migration.migration_plan import LiveGroup
from kohort.model.assignment import by_topic
from kohort.what_if.change import Pace, PlannedChange
from kohort.what_if.forecast import Forecast
from kohort.what_if.variants import NOW, name_of_now

if TYPE_CHECKING:
    from kohort.cli.what_if.what_if_inputs import GroupInputs


def description(args: argparse.Namespace, change: PlannedChange) -> str:
    """Describe a change in a clause."""
    parts = []
    if args.kill:
        parts.append(f"{listed(args.kill, len(args.kill))} {'dies' if len(args.kill) == 1 else 'die'}")
    if args.stop:
        parts.append(f"{listed(args.stop, len(args.stop))} {'leaves' if len(args.stop) == 1 else 'leave'}")
    if change.add:
        parts.append(f"{change.add} member{'s join' if change.add != 1 else ' joins'}")
    parts += [f"{topic} grows to {count} partitions" for topic, count in sorted(change.partitions.items())]
    at_once = listed(parts, len(parts))
    if not change.restarts:
        return at_once
    pace = "one after another" if change.restarts[0].pace is Pace.ROLLING else "all at once"
    into = f" into the {args.goal} protocol" if args.goal is not None else ""
    into += f" with assignor {args.assignor}" if args.assignor else ""
    twice = " twice" if len(change.restarts) > 1 else ""
    return f"{at_once}{', then ' if at_once else ''}every member is restarted{twice}{into}, {pace}"


def headline(group: LiveGroup, found: GroupInputs) -> str:
    """Return a group as it is, in a line."""
    partitions = sum(len(member.owned) for member in group.members)
    lag = f", lag {sum(found.facts.lag.values()):,}" if found.facts.lag else ""
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    return (
        f"{group.group_id}: {group.group_type}, {group.state}, {output.counted(len(group.members), 'member')}, "
        f"{output.counted(partitions, 'partition')}{assignor}{lag}"
    )


def put_forecasts(
    args: argparse.Namespace, found: GroupInputs, change: PlannedChange, forecasts: list[Forecast]
) -> None:
    """Print forecasts for people."""
    output.put(headline(found.facts.group, found))
    output.put(f"what if {description(args, change)}:\n")
    if args.compare:
        output.put(output.table_of(compared(found, forecasts)))
    else:
        put_one(forecasts[0])
    for name, sentences in (("measured", found.measured), ("assumed", found.assumed)):
        if sentences:
            output.put(f"\n{name}:\n" + "\n".join(f"- {each}" for each in sentences))


def put_one(forecast: Forecast) -> None:
    """Print one forecast: what was and will be, and what lies between."""
    before, after = forecast.before, forecast.after
    rows: list[list[output.Cell]] = [
        ["members", before.members, after.members],
        ["partitions", before.partitions, after.partitions],
        ["fewest of a member", before.least, after.least],
        ["most of a member", before.most, after.most],
    ]
    output.put(output.table(["", "before", "after"], rows))
    costs = costs_of(forecast)
    width = max(len(name) for name, _ in costs)
    output.put("\n" + "\n".join(f"{name.ljust(width)}  {text}" for name, text in costs))


def costs_of(forecast: Forecast) -> list[tuple[str, str]]:
    """Return what a change costs, each figure with its name."""
    return [
        ("moves", f"{forecast.moves}"),
        ("rounds", f"{forecast.rounds}, in {output.counted(forecast.rebalances, 'rebalance')}"),
        ("duration", f"{forecast.duration_ms / 1000:.1f} s"),
        ("unowned", f"{forecast.unowned_partition_s:.1f} partition-s, by the coordinator's books"),
        (
            "unread",
            f"{forecast.unread_partition_s:.1f} partition-s, one partition for {forecast.longest_unread_s:.1f} s",
        ),
        ("lag growth", growth_text(forecast)),
    ]


def growth_text(forecast: Forecast) -> str:
    """Return the growth of the lag as text."""
    growth = forecast.growth
    if growth is None:
        return "not known without a rate: give --produce-rate"
    if growth.worst is None:
        return "none"
    return f"{growth.records:,.0f} records, at most {growth.worst_records:,.0f} of one partition, {growth.worst}"


def compared(found: GroupInputs, forecasts: list[Forecast]) -> list[dict[str, output.Cell]]:
    """Return forecasts as rows beside each other."""
    now = name_of_now(found.facts)
    rows: list[dict[str, output.Cell]] = []
    for each in forecasts:
        after = each.after
        rows.append(
            {
                "protocol": f"{each.label} (now)" if each.label == now and now != NOW else each.label,
                "moves": each.moves,
                "rounds": each.rounds,
                "duration": f"{each.duration_ms / 1000:.1f} s",
                "unowned partition-s": f"{each.unowned_partition_s:.1f}",
                "unread partition-s": f"{each.unread_partition_s:.1f}",
                "longest unread": f"{each.longest_unread_s:.1f} s",
                "lag growth": None if each.growth is None else f"{each.growth.records:,.0f}",
                "partitions each": f"{after.least}" if after.least == after.most else f"{after.least} to {after.most}",
            }
        )
    return rows


def document(
    args: argparse.Namespace, found: GroupInputs, change: PlannedChange, forecasts: list[Forecast]
) -> dict[str, Any]:
    """Return the documented JSON."""
    facts, times = found.facts, found.times
    group = facts.group
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "assignor": group.assignor or None,
        "change": description(args, change),
        "now": name_of_now(facts) if args.compare else None,
        "members": [
            {
                "member": each.member_id,
                "name": each.name,
                "instance": each.instance_id,
                "protocol": "consumer" if each.is_native else "classic",
                "owned": by_topic(each.owned),
            }
            for each in sorted(group.members, key=lambda each: (each.name, each.member_id))
        ],
        "lag": sum(facts.lag.values()) if facts.lag else None,
        "produce_rate": None if facts.rates is None else round(sum(facts.rates.values()), 3),
        "times": {
            "network_ms": round(times.network_ms, 3),
            "revoked_callback_ms": round(times.revoked_ms, 3),
            "assigned_callback_ms": round(times.assigned_ms, 3),
            "poll_ms": times.poll_ms,
            "away_ms": times.away_ms,
            "session_timeout_ms": times.session_timeout_ms,
            "heartbeat_interval_ms": times.heartbeat_interval_ms,
            "metadata_ms": times.metadata_ms,
        },
        "forecasts": [{**each.to_json(), "variant": each.label or None} for each in forecasts],
        "measured": found.measured,
        "assumed": found.assumed,
    }
