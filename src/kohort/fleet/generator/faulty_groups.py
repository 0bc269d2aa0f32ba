"""Scenarios of groups with a fault that a rule must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kohort.fleet.generator.group_scenario import CommitStyle, Scenario, crash, roll, scale, start, stop, topics
from kohort.fleet.generator.healthy_groups import RARELY_MS, READY, deployed, scaled
from kohort.fleet.generator.simulated_group import Edit, SimulatedGroup, instance_token, member_token
from kohort.group.events import GroupStored, HardEvent
from kohort.model.assignment import Assignment
from kohort.wire.consumer_protocol import decode_assignment, encode_assignment

HOURS_OF_STORM = 2.0
NOT_READY = frozenset({"not_ready_for_consumer"})


def storm(kind: str) -> Callable[[SimulatedGroup], None]:
    """A member that crashes and is started again, all day long."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, 4, kind, heartbeat_interval_ms=RARELY_MS)
        until_ms = scene.now_ms + int(HOURS_OF_STORM * 3_600_000)
        while scene.now_ms < until_ms:
            crash(scene, 1, 20)
            scene.pass_s(60)
        scene.converge()
        scene.cut()

    return script


def poll_timeouts(kind: str, poll_s: int) -> Callable[[SimulatedGroup], None]:
    """A member that exceeds max.poll.interval.ms: it leaves, rejoins, and reads the same records again."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, 3, kind, max_poll_interval_ms=poll_s * 1000, heartbeat_interval_ms=RARELY_MS)
        peer = scene.peers[member_token(0)]
        peer.reconfigure(overrun=1.0)
        for _ in range(50):
            scene.feed(120)
            scene.pass_s(180)
        peer.reconfigure(overrun=0.0)
        scene.pass_s(1800)
        scene.converge()
        scene.cut()

    return script


def two_of_one_name(scene: SimulatedGroup) -> None:
    """Two processes with one group.instance.id, each restarted by its supervisor when the other has fenced it."""
    kind = "eager-java"
    for number in range(3):
        scene.start(number, kind, instance_id=instance_token(number))
    scene.converge()
    scene.cut()
    for turn in range(60):
        number = 10 + turn % 2
        peer = scene.peers.get(member_token(number))
        if peer is None:
            scene.start(number, kind, instance_id=instance_token(0))
        elif peer.is_over:
            scene.again(peer)
        scene.pass_s(45)
    scene.converge()
    scene.cut()


def never_revoking(scene: SimulatedGroup) -> None:
    """A member that does not revoke its partitions, with a rebalance timeout of hours."""
    patient = {"max_poll_interval_ms": 12 * 3_600_000}
    start(scene, 2, "consumer-java", **patient)
    for peer in scene.peers.values():
        peer.reconfigure(callback_us=40 * 3_600_000_000)
    scene.start(2, "consumer-java", **patient)
    scene.pass_s(300)
    scene.cut()


def crowded(kind: str) -> Callable[[SimulatedGroup], None]:
    """More members than partitions."""
    return deployed(kind, 6, 1)


def gone(kind: str) -> Callable[[SimulatedGroup], None]:
    """A group whose application was taken down for good."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, 3, kind)
        roll(scene, kind)
        stop(scene)

    return script


def restless(scene: SimulatedGroup) -> None:
    """An eager group that is scaled up and down all the time."""
    start(scene, 3, "eager-java")
    for turn in range(60):
        scale(scene, "eager-java", 4 if turn % 2 == 0 else 3)


def there_and_back(scene: SimulatedGroup) -> None:
    """A group that was moved to the consumer protocol and back again."""
    start(scene, 3, "cooperative-java")
    roll(scene, "consumer-java")
    roll(scene, "cooperative-java")


def with_assignor(name: str, user_data: bytes) -> Edit:
    """Return an edit that gives the members a custom assignor with user data."""

    def edit(event: HardEvent) -> HardEvent:
        if not isinstance(event, GroupStored) or not event.members:
            return event
        members = tuple(
            member._replace(assignment=_with_user_data(member.assignment, user_data)) for member in event.members
        )
        return replace(event, protocol_name=name, members=members)

    return edit


def _with_user_data(assignment: bytes, user_data: bytes) -> bytes:
    return encode_assignment(Assignment(decode_assignment(assignment).partitions, user_data))


def of_connect(event: HardEvent) -> HardEvent:
    """Turn it into a group of Connect workers, whose metadata is not of the consumer protocol."""
    if not isinstance(event, GroupStored) or not event.members:
        return event
    members = tuple(member._replace(subscription=b"\0\2worker", assignment=b"\0\2task") for member in event.members)
    return replace(event, protocol_type="connect", protocol_name="sessioned", members=members)


def faulty_groups() -> Iterator[Scenario]:
    """Yield the scenarios with a fault."""
    yield from _rebalancing()
    yield from _stuck()
    yield from _old()


def _rebalancing() -> Iterator[Scenario]:
    stormy, slow = frozenset({"rebalance_storm"}), frozenset({"poll_timeout_loop"})
    eager = frozenset({"eager_group"})
    yield Scenario("storm eager", storm("eager-java"), topics(8), stormy | eager | READY)
    yield Scenario("storm cooperative", storm("cooperative-java"), topics(8), stormy | READY)
    yield Scenario("storm consumer", storm("consumer-java"), topics(8), stormy)
    yield Scenario("poll timeouts", poll_timeouts("eager-java", 300), topics(6), slow | READY, permitted=stormy | eager)
    yield Scenario("slow polls", poll_timeouts("cooperative-java", 600), topics(6), slow | READY, near=stormy)
    yield Scenario("slow polls consumer", poll_timeouts("consumer-java", 300), topics(6), slow, permitted=stormy)
    yield Scenario("two of one name", two_of_one_name, topics(6), frozenset({"flapping_instance"}) | READY, near=stormy)
    yield Scenario("restless", restless, topics(16), eager | READY, near=stormy)


def _stuck() -> Iterator[Scenario]:
    stuck, idle = frozenset({"stuck_group"}), frozenset({"idle_members"})
    yield Scenario("held", never_revoking, topics(8), stuck, rests={-1: (2, 6)})
    yield Scenario("halted", deployed("eager-java", 3, 1), topics(6), stuck | READY, commits=CommitStyle.HALTED)
    yield Scenario("halted consumer", deployed("consumer-java", 3, 1), topics(6), stuck, commits=CommitStyle.HALTED)
    zombie = frozenset({"zombie_commits"})
    yield Scenario("zombie", deployed("eager-java", 2, 1), topics(4), zombie | READY, commits=CommitStyle.ZOMBIE)
    yield Scenario("idle", crowded("eager-java"), topics(4), idle | READY)
    yield Scenario("idle consumer", crowded("consumer-java"), topics(2, 2), idle)
    uneven = frozenset({"skewed_assignment"})
    yield Scenario("skewed", deployed("eager-java", 3, 1), topics(1, 1, 1, 1, 1, 1), uneven | READY)
    yield Scenario(
        "skewed consumer",
        deployed("consumer-range", 3, 1),
        topics(1, 1, 1, 1, 1, 1),
        uneven,
    )
    abandoned = frozenset({"abandoned_group"})
    yield Scenario("gone", gone("eager-java"), topics(4), abandoned, rests={-1: (72, 132)}, near=EXPIRING)
    yield Scenario("gone consumer", gone("consumer-java"), topics(4), abandoned, rests={-1: (72, 132)}, near=EXPIRING)
    yield Scenario("expiring", gone("cooperative-java"), topics(4), abandoned | EXPIRING, rests={-1: (150, 166)})
    yield Scenario(
        "commits expire",
        deployed("eager-java", 2, 1),
        topics(3),
        READY,
        near=EXPIRING,
        commits=CommitStyle.EXPIRING,
    )


EXPIRING = frozenset({"offsets_expiring"})


def _old() -> Iterator[Scenario]:
    unloadable = frozenset({"unloadable_log"})
    yield Scenario("aiokafka", deployed("eager-aiokafka", 2, 2), topics(4), NOT_READY, weight=2)
    yield Scenario("java 2.4", deployed("eager-v1", 3, 1), topics(6), NOT_READY, weight=2)
    mine = with_assignor("tenant-aware", b"\1tenant")
    yield Scenario("own assignor", deployed("eager-java", 3, 2), topics(6), NOT_READY, weight=1, edit=mine)
    streams = with_assignor("stream", b"\0\0\0\x0b\0\0\0\x0b\0\0\0\0")
    yield Scenario("streams, classic", deployed("eager-java", 3, 2), topics(6), NOT_READY, weight=2, edit=streams)
    yield Scenario(
        "connect",
        deployed("eager-java", 2, 1),
        topics(1),
        NOT_READY,
        weight=2,
        edit=of_connect,
        commits=CommitStyle.NONE,
    )
    yield Scenario("there and back", there_and_back, topics(6), READY, near=unloadable)
    yield Scenario("there and back, raced", there_and_back, topics(6), unloadable, permitted=READY, raced=True)
    yield Scenario("moved, raced", scaled("consumer-java", 16), topics(20), unloadable, raced=True)
