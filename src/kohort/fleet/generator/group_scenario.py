"""What a group of a generated fleet goes through, and what is to be found in it.

A story is a script for a scene, how its rests are spread over the days of the fleet, how the group commits, and the
findings that it must lead to (`expected`), that it may lead to (`permitted`), and that it only looks like (`near`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kohort.fleet.generator.simulated_group import Edit, Scene, member_token, topic_token
from kohort.sim.peers.client_kinds import Kind
from kohort.sim.peers.peer import Peer


class Commits(StrEnum):
    """How a group commits."""

    STEADY = "steady"
    """By day more often than by night."""
    OFFICE = "office"
    """From eight to eighteen only."""
    HALTED = "halted"
    """Steady, and for the last hours not at all."""
    ZOMBIE = "zombie"
    """Steady, and for an hour two commit for the same partitions, one of them far behind."""
    RESET = "reset"
    """Steady; whenever the group is empty somebody sets it back a little."""
    EXPIRING = "expiring"
    """Steady, and each commit says when it expires: soon after the last."""
    TRANSACTIONAL = "transactional"
    """Steady, in transactions; one in twenty is aborted."""
    FIRST = "first"
    """Steady, and once before there is a record of the group: its cleaned log has lost those of its former type."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Story:
    """One kind of group."""

    name: str
    script: Callable[[Scene], None]
    topics: Mapping[str, int]
    expected: frozenset[str] = frozenset()
    permitted: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    weight: float = 1.0
    """How many of a fleet's groups are such, against others."""
    commits: Commits = Commits.STEADY
    rests: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """How many hours the rest after a piece takes, from and to; the others share what is left of the fleet's days.
    Negative numbers count from the last piece."""
    edit: Edit | None = None
    raced: bool = False
    """Whether the log is as a loader sees it while a cleaner works, where some Kafka would fail."""
    settings: Mapping[str, str] = field(default_factory=dict)


def topics(*partitions: int) -> dict[str, int]:
    """Return topics with so many partitions each."""
    return {topic_token(number): count for number, count in enumerate(partitions)}


# -- what scripts are made of


def start(scene: Scene, count: int, kind: str | Kind, **config: object) -> None:
    """Start members 0 to `count`, all at once, and wait."""
    for number in range(count):
        scene.start(number, kind, **config)
    scene.settle()
    scene.cut()


def living(scene: Scene) -> list[Peer]:
    """Return the members that are there, in order."""
    return [peer for _, peer in sorted(scene.peers.items()) if not peer.is_over]


def roll(scene: Scene, kind: str | Kind, away_s: float = 8.0, **config: object) -> None:
    """Deploy: replace every member by another process, one after the other."""
    for peer in living(scene):
        scene.close(peer)
        scene.pass_s(away_s)
        again = {"instance_id": peer.config.instance_id, "topics": peer.config.topics} | config
        scene.start(int(peer.name[-2:]), kind, **again)
        scene.settle()
    scene.cut()


def stop(scene: Scene) -> None:
    """Stop everybody."""
    for peer in living(scene):
        scene.close(peer)
    scene.pass_s(5)
    scene.cut()


def scale(scene: Scene, kind: str | Kind, count: int, **config: object) -> None:
    """Have `count` members, by starting new ones or stopping the last."""
    there = living(scene)
    for peer in reversed(there[count:]):
        scene.close(peer)
    for number in range(len(there), count):
        scene.start(number, kind, **config)
    scene.settle()
    scene.cut()


def crash(scene: Scene, number: int, away_s: float) -> None:
    """Kill a member, and start it again after a while, where it was."""
    peer = scene.peers[member_token(number)]
    peer.kill()
    scene.pass_s(away_s)
    scene.again(peer)
