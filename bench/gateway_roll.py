"""The rolling restart of `bench.roll` through a gateway, beside the direct connection to the same Apache Kafka.

What the members read is counted too: none of the records written meanwhile may be lost. The gateway parks every group,
lists aiokafka by its client id, since it reports no name, and holds commits, which members make by themselves. Then it
does it again with nothing but `--park '*'`: the group must stand still no longer than directly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway

from bench.result import Aim, Outcome, Result
from bench.roll import AUTOMATIC, MAKES, RATIOS, REPORTED, each, roll, rolling

SETTINGS = """
[[policies]]
groups = "*"
client_ids = "aiokafka*"
treatment = "park"
commit_hold_ms = 5000

[[policies]]
groups = "*"
treatment = "park"
commit_hold_ms = 5000
"""
READ_S = 60
"""How long the last records may take to be read."""


def rolled(
    bootstrap: str, name: str, protocol: str, quick: bool, *, kills: bool = True
) -> tuple[list[float], float, int, int]:
    """Do it to a new group; return what `roll` does, and how many records were written and how many of them lost."""
    with rolling(bootstrap, f"{protocol} {name}", topic=f"{protocol}-{name.replace(' ', '-')}") as (group, load):
        closes, killed = roll(group, protocol, quick, kills=kills, more=AUTOMATIC | REPORTED)
        written = load.stop().keys()
        try:
            group.await_(lambda: written <= group.positions_read().keys(), "all is read", READ_S)
        except AssertionError:
            lost = len(written - group.positions_read().keys())
            print(f"{'':34} {group.name}: {lost} of {len(written)} records were not read", flush=True)
        return closes, killed, len(written), len(written - group.positions_read().keys())


def gateway_rolls(quick: bool, *, protocol: str) -> Iterator[Outcome]:
    """Measure one protocol directly, then through the gateway."""
    with ExitStack() as stack:
        settings = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "gateway.toml"
        settings.write_text(SETTINGS)
        kafka = stack.enter_context(ApacheKafka())
        gateway = stack.enter_context(KohortGateway(kafka.bootstrap, "--config", str(settings), "--quiet"))
        plain = stack.enter_context(KohortGateway(kafka.bootstrap, "--park", "*", "--quiet"))
        direct, direct_kill, _, direct_lost = rolled(kafka.bootstrap, "directly", protocol, quick)
        through, kill, written, lost = rolled(gateway.bootstrap, "gateway", protocol, quick)
        by_default = rolled(plain.bootstrap, "by default", protocol, quick, kills=False)[0]
        fallbacks = [line for line in gateway.child.text().splitlines() if "only observed" in line]
    aim = Aim(RATIOS[protocol], of_ratio=True, at_most=True)
    note = f"partition-seconds without an owner; {', '.join(MAKES[protocol])}: {each(through)}; directly {each(direct)}"
    if fallbacks:
        note += f"; {len(fallbacks)} times the group fell back to being observed"
    yield Result(f"gateway, roll, {protocol}", "s", [sum(through)], [sum(direct)], "directly", aim, note)
    no_more = Aim(1, of_ratio=True, at_most=True)
    note = f"--park '*' and nothing else: {each(by_default)}"
    name = f"gateway, roll, {protocol}, by default"
    yield Result(name, "s", [sum(by_default)], [sum(direct)], "directly", no_more, note)
    none = Aim(0, of_ratio=False, at_most=True)
    note = f"of {written:,}"
    yield Result(f"gateway, roll, {protocol}, lost", "records", [lost], [direct_lost], "directly", none, note)
    if not quick:
        note = "one member killed and started again at once; its session lasts 45 s"
        yield Result(f"gateway, kill, {protocol}", "s", [kill], [direct_kill], "directly", no_more, note)
