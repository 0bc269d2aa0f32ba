"""Our server-side assignors beside Kafka's: the time of assign(), the balance it reaches, and what it moves.

python -m bench.server_assignors [--quick] [SIZE ...]     SIZE is MEMBERSxTOPICSxPARTITIONS

As `bench.assignors` does for the client's: the same groups, `full` and `join`, ours and a JVM in turns, CPU time of the
calling thread. `cold` is the first call of a JVM, and of a new Python process with everything imported; `warm` the
least of many. Kafka's are given who has which partition by partition too, as its coordinator keeps it; ours find out.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from bench.assignors import KINDS, SIZES, Group, Java
from bench.result import Aim, Outcome, Result, line
from kohort.assign.quality import measure_target
from kohort.assign.server.catalog import server_assignors
from kohort.assign.server.spec import ServerAssignor, ServerGroup, ServerMember, ServerTopic
from kohort.model.assignment import Assignment, IdPartitions, id_partitions

ASSIGNORS = ("uniform", "range")
COLD_PEER = "Kafka's, first call of a JVM"
WARM_PEER = "Kafka's, in a warm JVM"
UNIFORM_GENERAL = 1.0
WARM = 3.0


def topic_id(name: str) -> bytes:
    """Return the id of a topic: ids are random on a real cluster, so not in order of the names."""
    return blake2b(name.encode(), digest_size=16).digest()


def server_group(group: Group, is_join: bool, target: Mapping[str, IdPartitions]) -> ServerGroup:
    """Return the group as a coordinator's assignor sees it; `target` is in force, and with `is_join` one came."""
    spec = group.join({}, "") if is_join else group.full()
    ids = {name: topic_id(name) for name in spec.topics}
    wanted: dict[int, frozenset[bytes]] = {}
    members = {}
    for name, member in spec.members.items():
        names = member.subscription.topics
        topics = wanted.get(id(names))
        if topics is None:
            topics = wanted[id(names)] = frozenset(map(ids.__getitem__, names))
        members[name] = ServerMember(topics, target.get(name, ()))
    # A coordinator gives members and topics in order of their ids.
    topics_by_id = {
        ids[name]: ServerTopic(name, spec.topics[name].partitions) for name in sorted(ids, key=ids.__getitem__)
    }
    return ServerGroup(members, topics_by_id, len(wanted) == 1)


def our_times_ms(assignor: ServerAssignor, group: ServerGroup, budget_ms: int) -> list[float]:
    """Call assign() for so long, at least once."""
    found: list[float] = []
    end = time.thread_time() + budget_ms / 1000
    while not found or time.thread_time() < end:
        start = time.thread_time()
        assignor.assign(group)
        found.append(1000 * (time.thread_time() - start))
    return found


def our_first_ms(name: str, size: str, kind: str) -> list[float]:
    """Return the first calls, full and join, of a new process."""
    line = [sys.executable, "-m", "bench.server_assignors", "--first", name, size, kind]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return [float(each) for each in done.stdout.split()]


def first_calls(name: str, size: str, kind: str) -> None:
    """Print how long the first calls take; what `our_first_ms` runs."""
    assignor = server_assignors([name])[name]
    group = Group(size, kind)
    full = server_group(group, False, {})
    print(our_times_ms(assignor, full, 0)[0], end=" ")
    print(our_times_ms(assignor, server_group(group, True, assignor.assign(full)), 0)[0])


def compare(group: Group, kind: str, name: str, quick: bool) -> Iterator[Result]:
    """Yield the rows of one assignor on one group: cold, then warm, each full and join."""
    assignor = server_assignors([name])[name]
    start = f"full server-{name} {group.members} {group.topics} {group.size.split('x')[2]} {kind}"
    our_cold: list[list[float]] = []
    their_cold: list[list[float]] = []
    for _ in range(1 if quick else 3):
        our_cold.append(our_first_ms(name, group.size, kind))
        with Java() as java:
            java.ask(start)
            first = java.times_ms(0)[0]
            # A first call of its own: join's comes after full's, as in our process.
            java.ask("join")
            their_cold.append([first, java.times_ms(0)[0]])
    for at, scenario in enumerate(("full", "join")):
        yield Result(
            f"server {name} {group.size} {kind[:3]} {scenario} cold",
            "ms",
            [each[at] for each in our_cold],
            [each[at] for each in their_cold],
            COLD_PEER,
            Aim(1, of_ratio=True, at_most=True),
        )
    with Java() as java:
        java.ask(start)
        yield from _warm(java, assignor, group, kind, quick)


def _warm(java: Java, assignor: ServerAssignor, group: Group, kind: str, quick: bool) -> Iterator[Result]:
    target: dict[str, IdPartitions] = {}
    their_target: dict[str, IdPartitions] = {}
    is_general = kind == "heterogeneous" and assignor.name == "uniform"
    for scenario in ("full", "join"):
        if scenario == "join":
            java.ask("join")
        spec = server_group(group, scenario == "join", target)
        java.times_ms(100 if quick else 2000)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(2 if quick else 5):
            # The least of many calls: what else the machine does can only add to it.
            ours.append(min(our_times_ms(assignor, spec, 150)))
            theirs.append(min(java.times_ms(150)))
        found, their_found = dict(assignor.assign(spec)), _by_id(java.result())
        quality = measure_target(spec, found)
        their_quality = measure_target(server_group(group, scenario == "join", their_target), their_found)
        target, their_target = found, their_found
        yield Result(
            f"server {assignor.name} {group.size} {kind[:3]} {scenario} warm",
            "ms",
            ours,
            theirs,
            WARM_PEER,
            Aim(UNIFORM_GENERAL if is_general else WARM, of_ratio=True, at_most=True),
            f"loads {quality.least:.0f}–{quality.most:.0f} (score {quality.score:.0f}), moved {quality.moved}; theirs"
            f" {their_quality.least:.0f}–{their_quality.most:.0f} ({their_quality.score:.0f}), {their_quality.moved}",
            {
                "score": quality.score,
                "their_score": their_quality.score,
                "moved": quality.moved,
                "their_moved": their_quality.moved,
            },
        )
        assert quality.is_valid, quality.faults[:3]


def _by_id(found: Mapping[str, Assignment]) -> dict[str, IdPartitions]:
    return {
        member: id_partitions((topic_id(topic), (number,)) for topic, number in each.partitions)
        for member, each in found.items()
    }


def rows(quick: bool, sizes: tuple[str, ...] = SIZES) -> Iterator[Outcome]:
    """Yield all rows: each size, each kind of group, each assignor."""
    for size in sizes:
        for kind in KINDS:
            group = Group(size, kind)
            for name in ASSIGNORS:
                yield from compare(group, kind, name, quick)


def server_rows(quick: bool) -> Iterator[Outcome]:
    """The row of `python -m bench`."""
    yield from rows(quick, SIZES[:2] if quick else SIZES)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--first"]:
        first_calls(*words[1:])
        sys.exit()
    chosen = tuple(word for word in words if not word.startswith("-")) or SIZES
    for outcome in rows("--quick" in words, chosen):
        print(line(outcome), flush=True)
