"""What a change of a group's size costs, in partition-seconds without a reader: a forecast of `kohort what-if`.

A forecast takes seconds, so that one at a time is computed beside the answers to KEDA, where a decision depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kohort.cli.terminal.failure import CommandFailed
from kohort.cli.what_if.what_if_command import require_readable
from kohort.cli.what_if.what_if_inputs import read_live
from kohort.model.bounded_dict import BoundedDict
from kohort.model.errors import KafkaError
from kohort.what_if.change import PlannedChange
from kohort.what_if.group_facts import roster_of
from kohort.what_if.simulation import simulate

if TYPE_CHECKING:
    import argparse

    from kohort.client import Admin

log = logging.getLogger(__name__)

MOST_PRICES = 10_000
VALID_S = 1800.0
"""A group may change its protocol and its callbacks."""

GUESSED_S = 3.0
"""Where there is no forecast, each partition is taken to have no reader for an interval of heartbeats."""


class RebalancePrices:
    """The prices of the changes of all groups, by group and numbers of members."""

    def __init__(self, admin: Admin, arguments: argparse.Namespace) -> None:
        """`arguments` are those of `kohort what-if`, for any group."""
        self._admin, self._arguments = admin, arguments
        self._known: BoundedDict[tuple[str, int, int], tuple[float, float]] = BoundedDict(MOST_PRICES)
        self._wanted: asyncio.Queue[tuple[str, int, int, int]] = asyncio.Queue()
        self._awaited: set[tuple[str, int, int]] = set()

    def price(self, group_id: str, before: int, after: int, partitions: int) -> float | None:
        """Return the price of a change, None as long as it is being computed."""
        key = (group_id, before, after)
        found = self._known.get(key)
        if found is not None and asyncio.get_running_loop().time() - found[1] < VALID_S:
            return found[0]
        if key not in self._awaited:
            self._awaited.add(key)
            self._wanted.put_nowait((*key, partitions))
        return None

    async def run(self) -> None:
        """Compute what is asked for, until it is cancelled."""
        while True:
            group_id, before, after, partitions = await self._wanted.get()
            try:
                price = await self._forecast(group_id, after - before)
            except Exception as error:  # one forecast must not cost the others
                if not isinstance(error, CommandFailed | KafkaError | OSError):
                    log.exception("a fault of kohort itself")
                price = partitions * GUESSED_S
                log.warning(
                    "group %s: no forecast from %d to %d members, %.0f partition-seconds are assumed: %s",
                    group_id, before, after, price, error,
                )  # fmt: skip
            self._known[group_id, before, after] = (price, asyncio.get_running_loop().time())
            self._awaited.discard((group_id, before, after))

    async def _forecast(self, group_id: str, more: int) -> float:
        self._arguments.group = group_id
        found = await read_live(self._arguments, self._admin)
        require_readable(found.facts.group, found)
        members = sorted(member.member_id for member in found.facts.group.members)
        if not members:
            return 0.0
        stopped = tuple(members[max(1, len(members) + more) :])
        change = PlannedChange(add=max(0, more), stop=stopped)
        forecast = await asyncio.to_thread(
            simulate, found.facts, roster_of(found.facts.group), found.times, change, "", _ignored
        )
        return forecast.unread_partition_s


def _ignored(_: int) -> None:
    """A forecast's progress."""
