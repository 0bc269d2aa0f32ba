"""A scenario: what one kind of generated group goes through, and which findings it must lead to.

It has a script for a simulated group, the rests between its steps over the fleet's days, a style of commits, and the
findings that it must lead to (`expected`), that it may lead to (`permitted`), and that it only resembles (`near`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kohort.fleet.generator.simulated_group import Edit, SimulatedGroup, member_token, topic_token
from kohort.sim.peers.client_kinds import Kind
from kohort.sim.peers.peer import Peer


class CommitStyle(StrEnum):
    """Style of a group's commits."""

    STEADY = "steady"
    """By day more often than by night."""
    OFFICE = "office"
    """From eight to eighteen only."""
    HALTED = "halted"
    """Steady, and for the last hours not at all."""
    ZOMBIE = "zombie"
    """Steady, and for an hour two processes commit for the same partitions, one of them far behind."""
    RESET = "reset"
    """Steady; whenever the group is empty its offsets are reset backwards."""
    EXPIRING = "expiring"
    """Steady, and each commit has an expiry time, soon after the log's end."""
    TRANSACTIONAL = "transactional"
    """Steady, in transactions; one in twenty is aborted."""
    FIRST = "first"
    """Steady, and once before the group's first record, as if records of its former type had been compacted."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of group."""

    name: str
    script: Callable[[SimulatedGroup], None]
    topics: Mapping[str, int]
    expected: frozenset[str] = frozenset()
    permitted: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    weight: float = 1.0
    """Relative number of a fleet's groups."""
    commits: CommitStyle = CommitStyle.STEADY
    rests: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """How many hours the rest after a piece takes, from and to; the others share what is left of the fleet's days.
    Negative numbers count from the last piece."""
    edit: Edit | None = None
    raced: bool = False
    """Whether the log is read during its compaction, at a moment at which some version of Kafka fails."""
    settings: Mapping[str, str] = field(default_factory=dict)


def topics(*partitions: int) -> dict[str, int]:
    """Return topics with so many partitions each."""
    return {topic_token(number): count for number, count in enumerate(partitions)}


# -- what scripts are made of


def start(scene: SimulatedGroup, count: int, kind: str | Kind, **config: object) -> None:
    """Start members 0 to `count`, all at once, and wait."""
    for number in range(count):
        scene.start(number, kind, **config)
    scene.converge()
    scene.cut()


def living(scene: SimulatedGroup) -> list[Peer]:
    """Return the running members in order."""
    return [peer for _, peer in sorted(scene.peers.items()) if not peer.is_over]


def roll(scene: SimulatedGroup, kind: str | Kind, away_s: float = 8.0, **config: object) -> None:
    """Deploy: replace every member by another process, one after the other."""
    for peer in living(scene):
        scene.close(peer)
        scene.pass_s(away_s)
        again = {"instance_id": peer.config.instance_id, "topics": peer.config.topics} | config
        scene.start(int(peer.name[-2:]), kind, **again)
        scene.converge()
    scene.cut()


def stop(scene: SimulatedGroup) -> None:
    """Stop all members."""
    for peer in living(scene):
        scene.close(peer)
    scene.pass_s(5)
    scene.cut()


def scale(scene: SimulatedGroup, kind: str | Kind, count: int, **config: object) -> None:
    """Scale to `count` members, by starting new ones or stopping the last."""
    there = living(scene)
    for peer in reversed(there[count:]):
        scene.close(peer)
    for number in range(len(there), count):
        scene.start(number, kind, **config)
    scene.converge()
    scene.cut()


def crash(scene: SimulatedGroup, number: int, away_s: float) -> None:
    """Kill a member, and start it again after a while on the same host."""
    peer = scene.peers[member_token(number)]
    peer.kill()
    scene.pass_s(away_s)
    scene.again(peer)
