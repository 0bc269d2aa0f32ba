"""Members that `kohort gateway` holds parked: memory and CPU time of each, with the gateway on a core of its own.

The generator's members do what Java's consumers do: each on a connection of its own, ten in a group, joined, synced,
then heartbeats at their default times. Behind it is `kohort broker`, which parks nothing; broker and generator have the
other cores. Mode `rewrite`, in which frames are also searched for addresses.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from interop.kohort_broker import KohortBroker
from interop.kohort_gateway import KohortGateway

from bench.coordinator import loadgen
from bench.result import Aim, Outcome, Result

PER_GROUP = 10
PER_PROCESS = 6_700
"""With two descriptors for each member, and a margin, what fits in a common limit of 20,000."""
SPARE_DESCRIPTORS = 200
UNPARKED = {
    "kohort.group.heartbeat.park": "false",
    "kohort.group.sync.hold.ms": "0",
    "kohort.group.consumer.heartbeat.park.ms": "0",
}
SAMPLES = 4
"""How often the members that have a heartbeat held are counted: each look costs the gateway some time."""
CALM_S = {"held": 12.0, "cgheld": 40.0}
"""From the last join until what is measured is the rest: a consumer is stable after half a minute without news."""
MOST = Aim(20_000, of_ratio=False)
MEMORY = Aim(30, of_ratio=False, at_most=True)


@dataclass(frozen=True, slots=True)
class Held:
    """What was measured of members at rest."""

    members: int
    share: float
    """Of one core."""
    kib: float
    """Of resident memory, for each member."""
    join_ms: float
    """CPU time until a member has joined and its group has settled."""
    held: float
    """Which part of the members had a heartbeat held, on average."""
    lag_ms: float
    """How late the event loops were on average."""
    heartbeats_per_s: float


class Crowd:
    """Members that the generator makes, `per_group` in a group: they come to `bootstrap`."""

    def __init__(self, stack: ExitStack, bootstrap: str, mode: str, members: int, per_group: int = PER_GROUP) -> None:
        wanted = {"mode": mode, "members": members, "groups": members // per_group, "conns": 1}
        arguments = [f"-{name}={value}" for name, value in wanted.items()]
        command = [str(loadgen()), *arguments, "-bootstrap", bootstrap]
        self._generator = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self._generator.kill)

    def joined(self) -> None:
        """Wait until all members have joined."""
        assert self._generator.stdout is not None, "its output is piped"
        if "ready_s" not in self._generator.stdout.readline():
            raise RuntimeError("the generator ended before all had joined")

    def end(self) -> None:
        """End the members. Raises RuntimeError where one saw an error, or its connection ended."""
        seen = json.loads(self._generator.communicate("", timeout=60)[0])
        if seen["ended"] or seen["errors"]:
            raise RuntimeError(f"{seen['ended']} members have ended, errors: {seen['errors']}")


class Way(Crowd):
    """A broker, the gateway before it, and the members that come through it."""

    def __init__(self, stack: ExitStack, mode: str, members: int, cores: Cores) -> None:
        with cores.others():
            broker = stack.enter_context(KohortBroker(UNPARKED))
        with cores.one():
            self.gateway = stack.enter_context(KohortGateway(broker.bootstrap, "--park", "*", "--quiet"))
        self.empty_mib, self.started_s = self.gateway.child.rss_mib(), self.gateway.child.cpu_s()
        with cores.others():
            super().__init__(stack, self.gateway.bootstrap, mode, members)


class Cores:
    """The cores of this machine: one for the gateways, the others for all else."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._one = {max(self._all)}

    @contextmanager
    def _on(self, cores: set[int]) -> Iterator[None]:
        os.sched_setaffinity(0, cores)  # which processes inherit
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._all)

    def one(self) -> AbstractContextManager[None]:
        """Let processes start on the gateway's core."""
        return self._on(self._one)

    def others(self) -> AbstractContextManager[None]:
        """Let processes start on the other cores."""
        return self._on(self._all - self._one or self._all)


def held(mode: str, members: int, rest_s: float) -> Held:
    """Let so many members join, then measure them at rest."""
    with ExitStack() as stack:
        way = Way(stack, mode, members, Cores())
        way.joined()
        gateway = way.gateway
        join_s = gateway.child.cpu_s() - way.started_s
        time.sleep(CALM_S[mode])
        names = ("heartbeats_released_total", "loop_lag_seconds_sum", "loop_lag_seconds_count")
        before = {name: gateway.metric(name) for name in names}
        used_s, began_s = gateway.child.cpu_s(), time.monotonic()
        parked = []
        for _ in range(SAMPLES):
            time.sleep(rest_s / SAMPLES)
            parked.append(gateway.metric("heartbeats_held"))
        took_s = time.monotonic() - began_s
        found = {name: gateway.metric(name) - before[name] for name in names}
        result = Held(
            members=members,
            share=(gateway.child.cpu_s() - used_s) / took_s,
            kib=1024 * (gateway.child.rss_mib() - way.empty_mib) / members,
            join_ms=1000 * join_s / members,
            held=statistics.fmean(parked) / members,
            lag_ms=1000 * found["loop_lag_seconds_sum"] / found["loop_lag_seconds_count"],
            heartbeats_per_s=found["heartbeats_released_total"] / took_s,
        )
        way.end()
        return result


def gateway_held(quick: bool) -> Iterator[Outcome]:
    """Measure members of both protocols, as many as one process has descriptors for."""
    room = (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE_DESCRIPTORS) // 2 // PER_GROUP * PER_GROUP
    members = min(200 if quick else PER_PROCESS, room)
    for mode, what in (("held", "classic"), ("cgheld", "consumer")):
        found = held(mode, members, 5 if quick else 20)
        note = (
            f"measured with {found.members:,} in one process:"
            f" {100 * found.share:.0f} % of a core, {found.heartbeats_per_s:,.0f} heartbeats/s,"
            f" {100 * found.held:.1f} % of the members held at any time, loop lag {found.lag_ms:.1f} ms"
        )
        most = found.members / found.share
        yield Result(f"gateway, {what} members for a core", "members", [most], [], "", MOST, note)
        yield Result(f"gateway, a {what} member", "KiB", [found.kib], [], "", MEMORY, "resident, its connections too")
        note = "CPU time of the gateway until it has joined and its group of ten has settled"
        yield Result(f"gateway, a {what} member joins", "ms", [found.join_ms], [], "", None, note)
