"""Scenarios of a fleet's groups: what each kind of group goes through, and which findings it must lead to.

Healthy groups, groups that resemble a fault, and groups with a fault that a rule must find. A scenario has a script for
a simulated group, the rests between its steps over the fleet's days, a style of commits, and the findings that it must
lead to (`expected`), that it may lead to (`permitted`), and that it only resembles (`near`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec

from tests.fleets.generated_commits import CommitStyle
from tests.fleets.simulated_group import (
    Edit,
    SimulatedGroup,
    instance_token,
    member_token,
    number_of,
    topic_token,
)

from kohort.group.events import GroupStored, HardEvent
from kohort.model.assignment import Assignment
from kohort.wire.consumer_protocol import decode_assignment, encode_assignment

ParamsT = ParamSpec("ParamsT")
Script = Callable[[SimulatedGroup], None]

READY = frozenset({"ready_for_consumer"})
NOT_READY = frozenset({"not_ready_for_consumer"})
EXPIRING = frozenset({"offsets_expiring"})
STORM = frozenset({"rebalance_storm"})
SLOW = frozenset({"poll_timeout_loop"})
EAGER = frozenset({"eager_group"})
STUCK = frozenset({"stuck_group"})
IDLE = frozenset({"idle_members"})
UNEVEN = frozenset({"skewed_assignment"})
ABANDONED = frozenset({"abandoned_group"})
REWOUND = frozenset({"rewound_offsets"})
ZOMBIES = frozenset({"zombie_commits"})
UNLOADABLE = frozenset({"unloadable_log"})

NIGHTS = 7
RARELY_MS = 10_000
"""Heartbeat interval in scenarios that last for hours: three times the default."""
PATIENCE_MS, TO_REVOKE_US = 12 * 3_600_000, 40 * 3_600_000_000
"""A rebalance timeout of hours, and how long members take to revoke that hardly ever do so in time."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of group."""

    name: str
    script: Script
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


def topics(*partitions: int) -> dict[str, int]:
    """Return topics with so many partitions each."""
    return {topic_token(number): count for number, count in enumerate(partitions)}


# -- scripts


def script(play: Callable[Concatenate[SimulatedGroup, ParamsT], None]) -> Callable[ParamsT, Script]:
    """Return a function that takes what a script needs besides the scene, and returns the script."""
    return lambda *args, **kwargs: lambda scene: play(scene, *args, **kwargs)


@script
def deployed(scene: SimulatedGroup, kind: str, members: int, deploys: int, threads: int = 1) -> None:
    """Members that run, and are replaced by the next version now and then."""
    scene.start_all(members, kind, threads=threads)
    for _ in range(deploys):
        scene.roll(kind)


@script
def moved(scene: SimulatedGroup, *kinds: str) -> None:
    """A group that is moved to other protocols, member by member."""
    scene.start_all(3, "cooperative-java")
    for kind in kinds:
        scene.roll(kind)


@script
def static(scene: SimulatedGroup, kind: str) -> None:
    """Static members, restarted one by one within their session."""
    scene.start_all(3, kind, static=True)
    for _ in range(2):
        for peer in scene.running:
            scene.close(peer, leave=False)
            scene.pass_s(6)
            scene.start(number_of(peer), kind, instance_id=scene.config_of(peer).instance_id)
            scene.converge()
        scene.cut()


@script
def restarted(scene: SimulatedGroup) -> None:
    """A static member that is restarted four times within an hour."""
    scene.start_all(3, "cooperative-java", static=True)
    for _ in range(4):
        peer = scene.peers[member_token(1)]
        scene.close(peer, leave=False)
        scene.pass_s(6)
        scene.again(peer)
        scene.pass_s(600)
    scene.settle()


@script
def two_of_one_name(scene: SimulatedGroup) -> None:
    """Two processes with one group.instance.id, each restarted by its supervisor when the other has fenced it."""
    scene.start_all(3, "eager-java", static=True)
    for turn in range(60):
        number = 10 + turn % 2
        peer = scene.peers.get(member_token(number))
        if peer is None:
            scene.start(number, "eager-java", instance_id=instance_token(0))
        elif peer.is_over:
            scene.again(peer)
        scene.pass_s(45)
    scene.settle()


@script
def nightly(scene: SimulatedGroup, kind: str) -> None:
    """A job whose members join every night and leave when it is done."""
    for _ in range(NIGHTS):
        scene.start_all(2, kind)
        scene.stop_all()


@script
def surging(scene: SimulatedGroup, kind: str) -> None:
    """A deployment that starts the new members before it stops the old: for minutes there are too many."""
    scene.start_all(4, kind)
    for turn in range(2):
        for number in range(4):
            scene.start(10 * (turn + 1) + number, kind)
        scene.converge()
        for peer in scene.running[:4]:
            scene.close(peer)
        scene.settle()


@script
def scaled(scene: SimulatedGroup, kind: str, times: int, most: int = 5) -> None:
    """A group of three that grows to `most` members and shrinks again with its load, several times a day."""
    scene.start_all(3, kind)
    for turn in range(times):
        scene.scale(kind, most if turn % 2 == 0 else 3)


@script
def surplus(scene: SimulatedGroup) -> None:
    """More members than partitions, since less than an hour."""
    scene.start_all(3, "consumer-java")
    scene.scale("consumer-java", 6)


@script
def divided(scene: SimulatedGroup) -> None:
    """Members that read different topics."""
    first, second = sorted(scene.topics)
    for number, topic in enumerate((first, second, second)):
        scene.start(number, "eager-java", topics=(topic,))
    scene.settle()


@script
def crashed_once(scene: SimulatedGroup) -> None:
    """A member dies a few times in one bad quarter of an hour."""
    scene.start_all(4, "cooperative-java", session_timeout_ms=10_000)
    for _ in range(3):
        scene.crash(0, 20)
        scene.converge()
        scene.pass_s(120)
    scene.cut()


@script
def crashing(scene: SimulatedGroup, kind: str, times: int, every_s: int, away_s: int = 15) -> None:
    """A member that is killed and started again, where it was, every so often."""
    scene.start_all(4, kind, heartbeat_interval_ms=RARELY_MS)
    for _ in range(times):
        scene.crash(1, away_s)
        scene.pass_s(every_s)
    scene.settle()


def storm(kind: str) -> Script:
    """A member that crashes and is started again for two hours."""
    return crashing(kind, 90, 60, away_s=20)


@script
def poll_timeouts(scene: SimulatedGroup, kind: str, poll_s: int) -> None:
    """A member that exceeds max.poll.interval.ms: it leaves, rejoins, and reads the same records again."""
    scene.start_all(3, kind, max_poll_interval_ms=poll_s * 1000, heartbeat_interval_ms=RARELY_MS)
    peer = scene.consumer(0)
    peer.reconfigure(overrun=1.0)
    for _ in range(50):
        scene.feed(120)
        scene.pass_s(180)
    peer.reconfigure(overrun=0.0)
    scene.pass_s(1800)
    scene.settle()


@script
def not_revoking(scene: SimulatedGroup, seconds: int) -> None:
    """Members that take longer to revoke partitions, with a rebalance timeout of hours."""
    scene.start_all(2, "consumer-java", max_poll_interval_ms=PATIENCE_MS)
    for number in range(2):
        scene.consumer(number).reconfigure(callback_us=TO_REVOKE_US)
    scene.start(2, "consumer-java", max_poll_interval_ms=PATIENCE_MS)
    scene.pass_s(seconds)
    scene.cut()


@script
def not_closing(scene: SimulatedGroup) -> None:
    """Threads of Kafka Streams that need hours to close the tasks which a new one is to have."""
    slow: dict[str, Any] = {"max_poll_interval_ms": PATIENCE_MS, "callback_us": TO_REVOKE_US}
    scene.start_all(2, "streams", **slow)
    scene.start(2, "streams", **slow)
    scene.pass_s(300)
    scene.cut()


@script
def ended(scene: SimulatedGroup) -> None:
    """Stopped over the weekend."""
    scene.start_all(2, "cooperative-java")
    scene.stop_all()


@script
def gone(scene: SimulatedGroup, kind: str) -> None:
    """A group whose application was taken down for good."""
    scene.start_all(3, kind)
    scene.roll(kind)
    scene.stop_all()


@script
def emptied_for_a_reset(scene: SimulatedGroup) -> None:
    """Stopped, set back by an admin, and started again."""
    scene.start_all(3, "eager-java")
    scene.stop_all()
    scene.start_all(3, "eager-java")
    scene.roll("eager-java")


@script
def grown(scene: SimulatedGroup) -> None:
    """A topic gets more partitions."""
    scene.start_all(3, "consumer-java")
    scene.grow(min(scene.topics), 2 * min(scene.topics.values()))
    scene.pass_s(320)
    scene.settle()


# -- edits of the log


def with_assignor(name: str, user_data: bytes) -> Edit:
    """Return an edit that gives the members a custom assignor with user data."""

    def edit(event: HardEvent) -> HardEvent:
        if not isinstance(event, GroupStored) or not event.members:
            return event
        members = [
            member._replace(
                assignment=encode_assignment(Assignment(decode_assignment(member.assignment).partitions, user_data))
            )
            for member in event.members
        ]
        return replace(event, protocol_name=name, members=tuple(members))

    return edit


def of_connect(event: HardEvent) -> HardEvent:
    """Turn it into a group of Connect workers, whose metadata is not of the consumer protocol."""
    if not isinstance(event, GroupStored) or not event.members:
        return event
    members = tuple(member._replace(subscription=b"\0\2worker", assignment=b"\0\2task") for member in event.members)
    return replace(event, protocol_type="connect", protocol_name="sessioned", members=members)


# -- scenarios


def ordinary_groups() -> Iterator[Scenario]:
    """Yield the scenarios of most groups."""
    yield Scenario("eager", deployed("eager-java", 3, 2), topics(6), READY, weight=14)
    yield Scenario("eager librdkafka", deployed("eager-librdkafka", 2, 2), topics(4, 4), READY, weight=6)
    yield Scenario("cooperative", deployed("cooperative-java", 4, 3), topics(12), READY, weight=14)
    yield Scenario("consumer", deployed("consumer-java", 3, 2), topics(9), weight=14)
    yield Scenario("consumer librdkafka", deployed("consumer-librdkafka", 2, 1), topics(6, 2), weight=6)
    yield Scenario("one member", deployed("eager-java", 1, 3), topics(1), READY, weight=8)
    yield Scenario("static", static("cooperative-java"), topics(9), READY, weight=3)
    yield Scenario("static consumer", static("consumer-java"), topics(9), weight=3)
    yield Scenario(
        "transactional", deployed("consumer-java", 2, 1), topics(4), weight=2, commits=CommitStyle.TRANSACTIONAL
    )
    yield Scenario("streams", deployed("streams", 3, 2), topics(6), weight=3)
    yield Scenario("streams 4.3", deployed("streams-4.3", 2, 1, threads=2), topics(4))
    yield Scenario("static streams", static("streams"), topics(6))
    yield Scenario("converted", moved("consumer-java", "consumer-java"), topics(6), weight=2)


def resembling_groups() -> Iterator[Scenario]:
    """Yield the scenarios of healthy groups that resemble a fault."""
    yield Scenario("large deploy", deployed("cooperative-java", 12, 1), topics(48), READY, near=STORM)
    yield Scenario("large deploy consumer", deployed("consumer-java", 12, 1), topics(48), near=STORM)
    yield Scenario("large deploy streams", deployed("streams", 6, 1, threads=2), topics(24), near=STORM)
    yield Scenario("threads without tasks", deployed("streams", 4, 1, threads=2), topics(2), near=IDLE)
    yield Scenario("bad quarter", crashed_once(), topics(8), READY, near=STORM | SLOW)
    yield Scenario(
        "nightly",
        nightly("eager-java"),
        topics(4),
        near=ABANDONED | EXPIRING | STUCK,
        weight=2,
        rests=dict.fromkeys(range(0, 2 * NIGHTS, 2), (0.3, 0.6)) | {-1: (8, 20)},
    )
    yield Scenario("surge", surging("cooperative-java"), topics(4), READY, near=IDLE)
    yield Scenario("as many members as partitions", deployed("consumer-java", 4, 1), topics(4), near=IDLE)
    yield Scenario("autoscaled", scaled("cooperative-java", 30), topics(20), READY, near=STORM | EAGER)
    yield Scenario("autoscaled consumer", scaled("consumer-java", 16), topics(20), near=STORM | SLOW)
    yield Scenario("a little uneven", deployed("eager-java", 4, 1), topics(5, 5, 5, 5), READY, near=UNEVEN)
    yield Scenario("divided", divided(), topics(12, 2), READY, near=UNEVEN)
    office = deployed("cooperative-java", 2, 1)
    yield Scenario("office", office, topics(4), READY, near=STUCK, weight=2, commits=CommitStyle.OFFICE)
    yield Scenario(
        "reset",
        emptied_for_a_reset(),
        topics(6),
        READY | REWOUND,
        near=ZOMBIES,
        commits=CommitStyle.RESET,
        rests={1: (0.2, 0.5)},
    )
    kind, anew = deployed("consumer-java", 2, 1), ZOMBIES | REWOUND
    yield Scenario("topics created again", kind, topics(2, 2), near=anew, commits=CommitStyle.RENEWED)
    yield Scenario("grown", grown(), topics(4))
    yield Scenario("calm eager", scaled("eager-java", 20), topics(8), READY, near=EAGER)
    yield Scenario("restarted static", restarted(), topics(6), READY, near=frozenset({"flapping_instance"}))
    yield Scenario("surplus of late", surplus(), topics(4), near=IDLE, rests={-1: (0.4, 0.8)})
    yield Scenario("takes its time", not_revoking(60), topics(8), near=STUCK, rests={-1: (0.2, 0.4)})
    yield Scenario("weekend", ended(), topics(4), near=ABANDONED | EXPIRING, rests={-1: (26, 44)})
    crashes = crashing("cooperative-java", 9, 330)
    yield Scenario("killed every five minutes", crashes, topics(8), READY, permitted=STORM, near=SLOW)
    yield Scenario("crashes now and then", crashing("eager-java", 20, 840), topics(8), READY, near=STORM | SLOW)


def faulty_groups() -> Iterator[Scenario]:
    """Yield the scenarios with a fault."""
    yield Scenario("storm eager", storm("eager-java"), topics(8), STORM | EAGER | READY)
    yield Scenario("storm cooperative", storm("cooperative-java"), topics(8), STORM | READY)
    yield Scenario("storm consumer", storm("consumer-java"), topics(8), STORM)
    yield Scenario("storm streams", storm("streams"), topics(8), STORM)
    yield Scenario("poll timeouts", poll_timeouts("eager-java", 300), topics(6), SLOW | READY, permitted=STORM | EAGER)
    yield Scenario("slow polls", poll_timeouts("cooperative-java", 600), topics(6), SLOW | READY, near=STORM)
    yield Scenario("slow polls consumer", poll_timeouts("consumer-java", 300), topics(6), SLOW, permitted=STORM)
    yield Scenario(
        "two of one name", two_of_one_name(), topics(6), frozenset({"flapping_instance"}) | READY, near=STORM
    )
    yield Scenario("restless", scaled("eager-java", 60, 4), topics(16), EAGER | READY, near=STORM)
    yield Scenario("held", not_revoking(300), topics(8), STUCK, rests={-1: (2, 6)})
    yield Scenario("held streams", not_closing(), topics(8), STUCK, rests={-1: (2, 6)})
    yield Scenario("halted", deployed("eager-java", 3, 1), topics(6), STUCK | READY, commits=CommitStyle.HALTED)
    yield Scenario("halted consumer", deployed("consumer-java", 3, 1), topics(6), STUCK, commits=CommitStyle.HALTED)
    yield Scenario("halted streams", deployed("streams", 3, 1), topics(6), STUCK, commits=CommitStyle.HALTED)
    yield Scenario("zombie", deployed("eager-java", 2, 1), topics(4), ZOMBIES | READY, commits=CommitStyle.ZOMBIE)
    yield Scenario("idle", deployed("eager-java", 6, 1), topics(4), IDLE | READY)
    yield Scenario("idle consumer", deployed("consumer-java", 6, 1), topics(2, 2), IDLE)
    yield Scenario("skewed", deployed("eager-java", 3, 1), topics(1, 1, 1, 1, 1, 1), UNEVEN | READY)
    yield Scenario("skewed consumer", deployed("consumer-range", 3, 1), topics(1, 1, 1, 1, 1, 1), UNEVEN)
    yield Scenario("gone", gone("eager-java"), topics(4), ABANDONED, rests={-1: (72, 132)}, near=EXPIRING)
    yield Scenario("gone consumer", gone("consumer-java"), topics(4), ABANDONED, rests={-1: (72, 132)}, near=EXPIRING)
    yield Scenario("gone streams", gone("streams"), topics(4), ABANDONED, rests={-1: (72, 132)}, near=EXPIRING)
    yield Scenario("expiring", gone("cooperative-java"), topics(4), ABANDONED | EXPIRING, rests={-1: (150, 166)})
    two = deployed("eager-java", 2, 1)
    yield Scenario("commits expire", two, topics(3), READY, near=EXPIRING, commits=CommitStyle.EXPIRING)
    yield Scenario("aiokafka", deployed("eager-aiokafka", 2, 2), topics(4), NOT_READY, weight=2)
    yield Scenario("java 2.4", deployed("eager-v1", 3, 1), topics(6), NOT_READY, weight=2)
    mine = with_assignor("tenant-aware", b"\1tenant")
    yield Scenario("own assignor", deployed("eager-java", 3, 2), topics(6), NOT_READY, weight=1, edit=mine)
    streams = with_assignor("stream", b"\0\0\0\x0b\0\0\0\x0b\0\0\0\0")
    yield Scenario("streams, classic", deployed("eager-java", 3, 2), topics(6), NOT_READY, weight=2, edit=streams)
    yield Scenario("connect", two, topics(1), NOT_READY, weight=2, edit=of_connect, commits=CommitStyle.NONE)
    cleaned = deployed("streams", 3, 1)
    yield Scenario("streams, cleaned", cleaned, topics(6), UNLOADABLE, commits=CommitStyle.FIRST)
    round_trip = moved("consumer-java", "cooperative-java")
    yield Scenario("there and back", round_trip, topics(6), READY, near=UNLOADABLE)
    yield Scenario("there and back, raced", round_trip, topics(6), UNLOADABLE, permitted=READY, raced=True)
    yield Scenario("moved, raced", scaled("consumer-java", 16), topics(20), UNLOADABLE, raced=True)
