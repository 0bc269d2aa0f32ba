"""Inputs of a forecast: the group, the times of its members and the network, from a cluster or a data directory.

Each figure has a sentence that states whether it was measured, given or assumed.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kohort.cli.cluster import ends_of
from kohort.cli.group_state.group_events import (
    GroupFilter,
    fold_recent,
    now_ms,
    require_directory,
    stored_events,
)
from kohort.cli.group_state.live_group import read_facts
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, reason_of, unknown
from kohort.group.classic.group import COOPERATIVE
from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, Rebalance
from kohort.group.migration.migration_plan import Limits, LiveGroup, LiveMember
from kohort.log.disk import StorageError
from kohort.model.ids import EVENT_TOPIC, TopicPartition
from kohort.what_if.group_facts import GroupFacts, Times

if TYPE_CHECKING:
    from kohort.broker.os_disk import OsDisk
    from kohort.client import Admin
    from kohort.log.memory_disk import MemoryDisk
    from kohort.what_if.streams_steps import StreamsMemberFacts

SAMPLE_S = 1.5
"""How long the produce rate is measured."""

_REQUESTS = 5
"""Requests whose median time is the network's."""


LATEST = 50
"""How many rebalances back are looked at."""

SETTLED_INTERVALS = 1.5
"""After so many stable intervals a heartbeat of each member is parked, and each learns of a round at once."""


@dataclass(slots=True)
class GroupInputs:
    """The inputs of a forecast, and how they are known."""

    facts: GroupFacts
    times: Times
    limits: Limits
    measured: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


async def read_live(args: argparse.Namespace, admin: Admin) -> GroupInputs:
    """Read a group from its cluster. Raises CommandFailed."""
    group, limits, settings, doubts, _ = await read_facts(args, admin)
    settings |= await own_settings(admin, args.group, "consumer")
    network_ms = await measured_network_ms(admin, args.group)
    measuring = await recent_measurements(args) if EVENT_TOPIC in group.topics else EventTimes(args.group)
    partitions = partitions_of(group)
    rates, lag = await sampled(args, admin, partitions)
    noted = GroupInputs(GroupFacts(group, settings, limits.is_ours, lag, rates), Times(network_ms=network_ms), limits)
    noted.assumed += doubts
    set_times(args, noted, measuring, network_ms)
    if args.produce_rate is None and rates is not None:
        noted.measured.append(f"{sum(rates.values()):,.0f} records/s are written, in {SAMPLE_S:g} s")
    return noted


async def own_settings(admin: Admin, group_id: str, kind: str) -> dict[str, str]:
    """Return what a group of this kind has set for itself, under the names of the broker's settings."""
    from kohort.client.admin.admin import ResourceType
    from kohort.model.errors import KafkaError

    try:
        own = await admin.describe_configs(ResourceType.GROUP, group_id)
    except KafkaError:
        return {}
    return {
        f"group.{name}": entry.value
        for name, entry in own.items()
        if name.startswith(f"{kind}.") and entry.value is not None
    }


async def measured_network_ms(admin: Admin, group_id: str) -> float:
    """Return how long a message is on its way, half the median time of some small requests."""
    took: list[float] = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        await admin.describe_groups([group_id])
        took.append(time.perf_counter() - began)
    return median(took) * 500


async def recent_measurements(args: argparse.Namespace) -> EventTimes:
    """Return measurements from the latest events of the group."""
    measuring = EventTimes(args.group)
    with output.Meter("reading group events", unit="events") as meter:
        await fold_recent(args.bootstrap_server, args.security, args.group, measuring.fold, meter.advance)
    return measuring


async def sampled(
    args: argparse.Namespace, admin: Admin, partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, float] | None, dict[TopicPartition, int]]:
    """Return how fast each partition grows, and how far the group is behind."""
    began = time.perf_counter()
    first = await ends_of(admin, partitions, "latest")
    committed = await admin.group_offsets(args.group)
    lag = {each: max(first[each] - committed[each].offset, 0) for each in partitions if each in committed}
    if args.produce_rate is not None:
        return given_rates(args.produce_rate, partitions), lag
    await asyncio.sleep(max(0.0, SAMPLE_S - (time.perf_counter() - began)))
    second = await ends_of(admin, partitions, "latest")
    took_s = time.perf_counter() - began
    return {each: max(0.0, second.get(each, 0) - first[each]) / took_s for each in partitions if each in first}, lag


def given_rates(records_s: float, partitions: list[TopicPartition]) -> dict[TopicPartition, float]:
    """Return a rate that is given, evenly spread."""
    return {each: records_s / len(partitions) for each in partitions}


def partitions_of(group: LiveGroup) -> list[TopicPartition]:
    """Return the partitions of the topics that the group reads."""
    wanted = sorted({topic for member in group.members for topic in member.topics if topic in group.topics})
    return [TopicPartition(topic, number) for topic in wanted for number in range(group.topics[topic][1])]


def member_id_of(name: str, group_id: str, members: Mapping[str, LiveMember | StreamsMemberFacts]) -> str:
    """Return the id of a member by its name, its instance id or its id. Raises CommandFailed."""
    if name in members:
        return name
    named = [member_id for member_id, each in members.items() if name in (each.name, each.instance_id)]
    if len(named) == 1:
        return named[0]
    if named:
        raise CommandFailed(f"{len(named)} members are called {name}: name one by its id, {', '.join(named)}", USAGE)
    known = [each.name for each in members.values()]
    raise unknown("member", name, known, f"{group_id} has {', '.join(sorted(known))}")


# -- a data directory


def read_stored(args: argparse.Namespace) -> GroupInputs:
    """Read a group from a broker's data directory, which stays as it is. Raises CommandFailed."""
    from kohort.what_if.data_directory import ReplayedGroups

    directory: Path = args.data_dir
    require_directory(directory)
    try:
        disk = copy_of(directory, args.group)
        replayed = ReplayedGroups(disk, now_ms())
    except StorageError as error:
        raise CommandFailed(f"{directory} cannot be read: {reason_of(error)}", FAILED) from None
    measuring = EventTimes(args.group)
    try:
        with output.Meter("reading group events", unit="events") as meter:
            for event in stored_events(directory, GroupFilter(args.group), meter.advance):
                measuring.fold(event)
    except CommandFailed as failure:
        if failure.status == FAILED:
            raise
        # A group without events is one without measurements.
    group = replayed.group(args.group, measuring.offers)
    if group is None and args.group in replayed.group_ids:
        raise CommandFailed(
            f"{args.group} is a streams group: it is forecast from its cluster, without --data-dir", USAGE
        )
    if group is None:
        raise unknown("group", args.group, replayed.group_ids, f"{directory} has no record of it")
    rates = None if args.produce_rate is None else given_rates(args.produce_rate, partitions_of(group))
    noted = GroupInputs(GroupFacts(group, replayed.settings(args.group), True, {}, rates), Times(), replayed.limits())
    set_times(args, noted, measuring, None)
    noted.assumed.append("settings that the broker was started with are in no log: its defaults are assumed")
    return noted


def copy_of(directory: Path, group_id: str) -> MemoryDisk:
    """Return a copy of the logs that a broker needs for one group, in memory."""
    from kohort.broker.os_disk import OsDisk
    from kohort.log.memory_disk import MemoryDisk
    from kohort.node.metadata_log import DIRECTORY
    from kohort.what_if.data_directory import offsets_directory

    source, copy = OsDisk(directory, is_read_only=True), MemoryDisk()
    try:
        if not source.exists(DIRECTORY):
            raise CommandFailed(
                f"{directory} is not the --data directory of a kohort broker: it has no metadata", USAGE
            )
        copy_directory(source, copy, DIRECTORY)
        wanted = offsets_directory(copy, group_id, now_ms())
        if wanted is not None and source.exists(wanted):
            copy_directory(source, copy, wanted)
    finally:
        source.close()
    return copy


def copy_directory(source: OsDisk, copy: MemoryDisk, name: str) -> None:
    """Copy the files of one directory."""
    from kohort.log.disk import read_file

    copy.make_directory(name)
    for each in source.list(name):
        copy.open(f"{name}/{each}", create=True).append([read_file(source, f"{name}/{each}")])


# -- times


def set_times(args: argparse.Namespace, noted: GroupInputs, events: EventTimes, network_ms: float | None) -> None:
    """Set the times: given ones before measured ones, measured ones before assumed ones."""
    measured, assumed, times = noted.measured, noted.assumed, noted.times
    if args.network_ms is not None:
        times = replace(times, network_ms=args.network_ms)
    elif network_ms is not None:
        measured.append(f"a message is {network_ms:.1f} ms on its way")
    else:
        assumed.append(f"a message is {times.network_ms:g} ms on its way (--network-ms)")
    is_classic = any(not member.is_native for member in noted.facts.group.members)
    session_ms = args.session_ms or events.session_timeout_ms
    if session_ms is None and is_classic:
        assumed.append(f"classic members' sessions time out after {times.session_timeout_ms / 1000:g} s (--session)")
    session_ms = session_ms or times.session_timeout_ms
    heartbeat_ms = args.heartbeat_ms or min(times.heartbeat_interval_ms, max(1, session_ms // 3))
    if args.heartbeat_ms is None and is_classic:
        assumed.append(f"classic members send a heartbeat every {heartbeat_ms / 1000:g} s (--heartbeat)")
    found = events.measured(times.network_ms, heartbeat_ms)
    if args.callback_ms is not None:
        times = replace(times, revoked_ms=args.callback_ms[0], assigned_ms=args.callback_ms[1])
    elif found.callback_ms is not None:
        times = replace(times, revoked_ms=found.callback_ms, assigned_ms=found.callback_ms)
        many = output.counted(found.members, "member")
        measured.append(f"a member takes {found.callback_ms:.0f} ms to revoke partitions (median of {many})")
        assumed.append("it takes as long to take partitions over, which cannot be measured")
    else:
        assumed.append("callbacks take no time (--callback-ms)")
    noted.times = replace(
        times,
        poll_ms=args.poll_ms,
        away_ms=args.away_ms,
        pause_ms=args.pause_ms,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        rebalance_timeout_ms=events.rebalance_timeout_ms or times.rebalance_timeout_ms,
        metadata_ms=args.metadata_ms,
    )


# -- measurements in events


@dataclass(frozen=True, slots=True)
class CallbackTime:
    """What a group's events show; None where they show nothing."""

    callback_ms: float | None = None
    """How long a member takes to revoke: the median of each member's shortest time."""
    members: int = 0
    """The number of members of that median."""


class EventTimes:
    """The times of one group, folded from its events."""

    def __init__(self, group_id: str) -> None:
        self._explanation = Explanation(group_id, last=LATEST, keeps_events=False)
        self._sessions: dict[str, int] = {}
        self._rebalances: dict[str, int] = {}
        """The timeouts of members by their ids, in the order in which they joined."""

    def fold(self, event: EventFields) -> None:
        """Take one event."""
        self._explanation.fold(event)
        member_id = str(event.get("member"))
        if event.get("event") in ("member_joined", "member_subscribed"):
            for name, known in (("session_timeout_ms", self._sessions), ("rebalance_timeout_ms", self._rebalances)):
                if int(event.get(name) or 0) > 0:
                    known[member_id] = int(event[name])

    def measured(self, network_ms: float, heartbeat_ms: float) -> CallbackTime:
        """Return what was found; the network and the wait for a heartbeat are not part of a callback."""
        report = self._explanation.report(0)
        shortest: dict[str, float] = {}
        rested_ms: int | None = None
        for each in report.rebalances:
            rest_ms = 0 if rested_ms is None else each.started_ms - rested_ms
            is_parked = rest_ms > SETTLED_INTERVALS * heartbeat_ms
            rested_ms = each.ended_ms or each.started_ms
            for member_id, took_ms in callbacks_of(each, is_parked=is_parked):
                took_ms = max(0.0, took_ms - 2 * network_ms)
                shortest[member_id] = min(took_ms, shortest.get(member_id, took_ms))
        return CallbackTime(median(shortest.values()) if shortest else None, len(shortest))

    @property
    def offers(self) -> dict[str, tuple[str, ...]]:
        """The client-side assignors of each classic member, by its id."""
        return dict(self._explanation.report(0).protocols)

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout of the classic member that joined last."""
        return next(reversed(self._sessions.values()), None)

    @property
    def rebalance_timeout_ms(self) -> int | None:
        """The rebalance timeout of the member that joined last."""
        return next(reversed(self._rebalances.values()), None)


def callbacks_of(rebalance: Rebalance, *, is_parked: bool) -> Iterator[tuple[str, float]]:
    """Yield the members that revoked partitions, and how long it took them, in milliseconds.

    An eager member runs its callback between the moment when it learns of a round and its JoinGroup: at the opening if
    its heartbeat is parked then, or when the broker answers the heartbeats of all members together. A
    cooperative one runs both, to revoke and to assign, between its assignment and the round that it opens; a native
    one between a target and the heartbeat that acknowledges it. What two took together is halved.
    """
    for each in rebalance.rounds[:1] if is_parked else ():
        if each.protocol and each.protocol not in COOPERATIVE and not each.is_initial:
            for member_id, took_ms in each.rejoin_ms.items():
                if member_id != each.cause.member_id and took_ms >= each.announced_ms:
                    yield member_id, took_ms - each.announced_ms
    for first, second in zip(rebalance.rounds, rebalance.rounds[1:], strict=False):
        opener = second.cause.member_id
        if first.protocol in COOPERATIVE and first.stored_ms is not None and opener is not None:
            yield opener, (second.opened_ms - first.stored_ms) / 2
    for epoch in rebalance.epochs:
        yield from ((member_id, took_ms / 2) for member_id, took_ms in epoch.revoke_ms.items())
