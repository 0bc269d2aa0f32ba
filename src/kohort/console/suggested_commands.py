"""The commands of kohort that show why a group stood still, what would avoid it, and how to get there."""

from __future__ import annotations

from typing import NamedTuple

from kohort.client.admin.group_descriptions import GroupDescription
from kohort.console.command_runs import command_words
from kohort.group.classic.group import COOPERATIVE


class SuggestedCommand(NamedTuple):
    """A command and what it is for. `words` are without those that name the cluster."""

    purpose: str
    words: list[str]


def suggested_commands(group_id: str, described: GroupDescription | None) -> list[SuggestedCommand]:
    """Return commands for a group that rebalances; those of a migration where it is not migrated."""
    found = [
        SuggestedCommand(
            "what a restart costs now, in each other protocol, and with static members",
            command_words(["what-if"], [group_id], ["--bounce", "rolling", "--compare"]),
        )
    ]
    goals = []
    if described is not None and described.group_type == "classic" and described.protocol_type == "consumer":
        goals.append(("consumer", "the coordinator moves single partitions, and no member waits for another"))
        if described.protocol and described.protocol not in COOPERATIVE:
            goals.append(("cooperative", "members give up only what moves, and read all else meanwhile"))
    found += [
        SuggestedCommand(
            f"the restarts to the {goal} protocol: {effect}",
            command_words(["migrate", "plan"], [group_id], ["--to", goal]),
        )
        for goal, effect in goals
    ]
    found.append(SuggestedCommand("every event", command_words(["explain"], [group_id], ["--verbose"])))
    return found
