"""The page that forecasts a change to a group: `kohort what-if`, today beside what would be, and the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kohort.console.command_runs import CommandRuns, command_words
from kohort.console.web.site import Shown, Site

CHANGES: dict[str, tuple[str, str]] = {
    "rolling": ("restart every member, one after another", ""),
    "all": ("restart every member at once", ""),
    "compare": ("a rolling restart in every protocol, and with static members", ""),
    "add": ("members join", "how many"),
    "stop": ("a member leaves", "its id or name"),
    "kill": ("a member dies without a word", "its id or name"),
    "consumer": ("upgrade to the consumer protocol (KIP-848)", ""),
    "cooperative": ("go over to cooperative rebalances", ""),
    "classic": ("go back to the classic protocol", ""),
    "assignor": ("another assignor", "its name"),
    "partitions": ("a topic grows", "TOPIC=N"),
}
"""Changes by name: their words, and what the field beside them is."""

_BOUNCES = ("rolling", "all")
_PROTOCOLS = ("consumer", "cooperative", "classic")

FIGURES = (
    ("duration_s", "Duration", "s"),
    ("rebalances", "Rebalances", ""),
    ("rounds", "Rounds", ""),
    ("moves", "Partitions that move", ""),
    ("unowned_partition_s", "Unowned", "partition-s"),
    ("unread_partition_s", "Unread", "partition-s"),
    ("longest_unread_s", "Longest unread partition", "s"),
    ("lag_growth", "Growth of the lag", "records"),
)
BEFORE_AND_AFTER = (
    ("members", "Members"),
    ("partitions", "Partitions"),
    ("least", "Fewest of a member"),
    ("most", "Most of a member"),
)


def options_of(change: str, value: str) -> list[str]:
    """Return the options of `kohort what-if` for a change; nothing for one that is not known."""
    if change in _BOUNCES:
        return ["--bounce", change]
    if change == "compare":
        return ["--bounce", "rolling", "--compare"]
    if change in _PROTOCOLS:
        return ["--protocol", change]
    return [f"--{change}={value}"] if change in CHANGES and value else []


async def plan_page(site: Site, runs: CommandRuns, values: Mapping[str, str]) -> Shown:
    """Return the page; with a group and a change it has the forecast."""
    group_id, change, value = values.get("id", ""), values.get("change", ""), values.get("value", "").strip()[:300]
    options = options_of(change, value)
    command, document, failure = "", None, ""
    if group_id and options:
        words = command_words(["what-if"], [group_id], options)
        command = site.command(*words)
        outcome = await runs.run(command_words(["what-if"], [group_id], [*options, "--json"]))
        document = outcome.json if outcome.status == 0 else None
        failure = "" if isinstance(document, dict) else outcome.sentence
    elif group_id and change in CHANGES:
        failure = f"this change needs {CHANGES[change][1]}"
    forecasts: list[dict[str, Any]] = document.get("forecasts", []) if isinstance(document, dict) else []
    more = {
        "changes": CHANGES,
        "figures": FIGURES,
        "before_and_after": BEFORE_AND_AFTER,
        "group_id": group_id,
        "change": change,
        "value": value,
        "command_line": command,
        "document": document,
        "forecasts": forecasts,
        "failure": failure,
        "group_ids": sorted(site.watched.groups)[:1000],
    }
    return Shown("plan.html", more)
