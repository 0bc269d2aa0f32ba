"""What would have avoided the cost of a rebalance: sentences, each with the command that forecasts or plans it.

Eager members revoke all of their partitions in each round, a member that joins late has all others wait, and no other
member reads the partitions of a member that died before its session times out.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.group.explain.explain_text import Names, duration, partitions
from kohort.group.explain.rebalance_report import Rebalance, Slowest

COST_S = 1.0
"""Partition-seconds, unowned and without heartbeats; a rebalance that cost less needs no remedy."""

REMEDIED_WAIT_MS = 1_000
"""A wait for one member from here on is worth a remedy."""


class Remedy(NamedTuple):
    """A way to avoid the cost: why, and the verb and options of a command of kohort about the group."""

    text: str
    verb: tuple[str, ...]
    options: tuple[str, ...]


def remedies(rebalance: Rebalance, names: Names) -> list[Remedy]:
    """Return what would have avoided the cost, what avoids most of it first; nothing for what cost little."""
    if rebalance.unowned_partition_s + rebalance.silent_partition_s < COST_S:
        return []
    is_classic = rebalance.to_type == "classic"
    found = []
    idle = {gap.partition for gap in rebalance.gaps if gap.before is not None and gap.before == gap.after}
    if idle and is_classic:
        text = (
            f"{partitions(len(idle))} stood still and went back to the owner they had: with an eager assignor each "
            "round takes all partitions from all members. In the consumer protocol only those that move stand still."
        )
        found.append(Remedy(text, ("migrate", "plan"), ("--to", "consumer")))
    waits = [each for each in (rebalance.slowest_rejoin, rebalance.longest_missed) if each is not None]
    slow = max(waits, key=lambda each: each.took_ms, default=Slowest("", 0))
    if slow.took_ms >= REMEDIED_WAIT_MS:
        text = (
            f"All members waited {duration(slow.took_ms)} for {names(slow.member_id)}: a member joins again in its "
            "next poll. Fewer records for each poll (max.poll.records) make it join earlier; in the consumer protocol "
            "no member waits for another. The forecast compares a rolling restart of members that are so slow:"
        )
        options = ("--bounce", "rolling", "--poll-ms", str(slow.took_ms), "--compare")
        found.append(Remedy(text, ("what-if",), options))
    revoke = rebalance.slowest_revoke
    if revoke is not None and revoke.took_ms >= REMEDIED_WAIT_MS:
        text = (
            f"The next owners waited {duration(revoke.took_ms)} for {names(revoke.member_id)} to revoke partitions: "
            "its on_partitions_revoked, or its work between two polls, took so long. What it costs if they take 0.1 s:"
        )
        found.append(Remedy(text, ("what-if",), ("--bounce", "rolling", "--callback-ms", "100")))
    if rebalance.silences:
        longest = max(rebalance.silences, key=lambda gap: gap.duration_ms)
        setting = "session.timeout.ms" if is_classic else "consumer.session.timeout.ms of the group"
        text = (
            f"{names(longest.before)} sent no heartbeat for {duration(longest.duration_ms)}, and no other member read "
            f"its partitions. A process that ends by SIGTERM leaves at once; after a crash, a shorter {setting} ends "
            "the wait. "
        )
        others = sorted(rebalance.shares.keys() - {longest.before})
        if others and is_classic:
            text += f"What the death of {names(others[0])} would cost with ten seconds:"
            found.append(Remedy(text, ("what-if",), (f"--kill={others[0]}", "--session", "10s")))
        else:
            found.append(Remedy(text + "What restarts cost in each protocol:", ("what-if",), ("--compare",)))
    if not any("--compare" in each.options for each in found):
        text = (
            "A static member (group.instance.id) keeps its partitions while it is restarted, and moves nothing. What a "
            "rolling restart costs in each protocol, and with static members:"
        )
        found.append(Remedy(text, ("what-if",), ("--bounce", "rolling", "--compare")))
    return found
