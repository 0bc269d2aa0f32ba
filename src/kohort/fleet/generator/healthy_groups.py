"""Scenarios of healthy groups, some of which resemble a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kohort.fleet.generator.group_scenario import CommitStyle, Scenario, crash, roll, scale, start, stop, topics
from kohort.fleet.generator.simulated_group import SimulatedGroup, instance_token, member_token

READY = frozenset({"ready_for_consumer"})
NIGHTS = 7
RARELY_MS = 10_000
"""Heartbeat interval in scenarios that last for hours: three times the default."""


def deployed(kind: str, members: int, deploys: int) -> Callable[[SimulatedGroup], None]:
    """Members that run, and are replaced by the next version now and then."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, members, kind)
        for _ in range(deploys):
            roll(scene, kind)

    return script


def static(kind: str, members: int) -> Callable[[SimulatedGroup], None]:
    """Static members, restarted one by one within their session."""

    def script(scene: SimulatedGroup) -> None:
        for number in range(members):
            scene.start(number, kind, instance_id=instance_token(number))
        scene.converge()
        scene.cut()
        for _ in range(2):
            for name in sorted(scene.peers):
                peer = scene.peers[name]
                peer.close(leave=False)
                while not peer.is_over:
                    scene.pass_s(0.5)
                scene.pass_s(6)
                scene.start(int(name[-2:]), kind, instance_id=peer.config.instance_id)
                scene.converge()
            scene.cut()

    return script


def nightly(kind: str) -> Callable[[SimulatedGroup], None]:
    """A job whose members join every night and leave when it is done."""

    def script(scene: SimulatedGroup) -> None:
        for _ in range(NIGHTS):
            start(scene, 2, kind)
            stop(scene)

    return script


def surging(kind: str) -> Callable[[SimulatedGroup], None]:
    """A deployment that starts the new members before it stops the old: for minutes there are too many."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, 4, kind)
        for turn in range(2):
            for number in range(4):
                scene.start(10 * (turn + 1) + number, kind)
            scene.converge()
            for peer in [each for each in scene.peers.values() if not each.is_over][:4]:
                scene.close(peer)
            scene.converge()
            scene.cut()

    return script


def scaled(kind: str, times: int) -> Callable[[SimulatedGroup], None]:
    """A group that grows and shrinks with its load, several times a day."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, 3, kind)
        for turn in range(times):
            scale(scene, kind, 5 if turn % 2 == 0 else 3)

    return script


def divided(scene: SimulatedGroup) -> None:
    """Members that read different topics."""
    first, second = sorted(scene.topics)
    scene.start(0, "eager-java", topics=(first,))
    scene.start(1, "eager-java", topics=(second,))
    scene.start(2, "eager-java", topics=(second,))
    scene.converge()
    scene.cut()


def crashed_once(scene: SimulatedGroup) -> None:
    """A member dies a few times in one bad quarter of an hour."""
    start(scene, 4, "cooperative-java", session_timeout_ms=10_000)
    for _ in range(3):
        crash(scene, 0, 20)
        scene.converge()
        scene.pass_s(120)
    scene.cut()


def crashing(kind: str, times: int, every_s: int) -> Callable[[SimulatedGroup], None]:
    """A member that is killed and started again, where it was, every so often."""

    def script(scene: SimulatedGroup) -> None:
        start(scene, 4, kind, heartbeat_interval_ms=RARELY_MS)
        for _ in range(times):
            crash(scene, 1, 15)
            scene.pass_s(every_s)
        scene.converge()
        scene.cut()

    return script


def restarted(scene: SimulatedGroup) -> None:
    """A static member that is restarted four times within an hour."""
    for number in range(3):
        scene.start(number, "cooperative-java", instance_id=instance_token(number))
    scene.converge()
    scene.cut()
    for _ in range(4):
        peer = scene.peers[member_token(1)]
        peer.close(leave=False)
        while not peer.is_over:
            scene.pass_s(0.5)
        scene.pass_s(6)
        scene.again(peer)
        scene.pass_s(600)
    scene.converge()
    scene.cut()


def surplus(scene: SimulatedGroup) -> None:
    """More members than partitions, since less than an hour."""
    start(scene, 3, "consumer-java")
    scale(scene, "consumer-java", 6)


def pausing(scene: SimulatedGroup) -> None:
    """A member whose revocation callback takes long."""
    patient = {"max_poll_interval_ms": 12 * 3_600_000}
    start(scene, 2, "consumer-java", **patient)
    for peer in scene.peers.values():
        peer.reconfigure(callback_us=40 * 3_600_000_000)
    scene.start(2, "consumer-java", **patient)
    scene.pass_s(60)
    scene.cut()


def ended(scene: SimulatedGroup) -> None:
    """Stopped over the weekend."""
    start(scene, 2, "cooperative-java")
    stop(scene)


def emptied_for_a_reset(scene: SimulatedGroup) -> None:
    """Stopped, set back by an admin, and started again."""
    start(scene, 3, "eager-java")
    stop(scene)
    start(scene, 3, "eager-java")
    roll(scene, "eager-java")


def grown(scene: SimulatedGroup) -> None:
    """A topic gets more partitions."""
    start(scene, 3, "consumer-java")
    scene.grow(min(scene.topics), 2 * min(scene.topics.values()))
    scene.pass_s(320)
    scene.converge()
    scene.cut()


def converted(scene: SimulatedGroup) -> None:
    """A group that was moved to the consumer protocol, member by member."""
    start(scene, 3, "cooperative-java")
    roll(scene, "consumer-java")
    roll(scene, "consumer-java")


def ordinary_groups() -> Iterator[Scenario]:
    """Yield the scenarios of most groups."""
    yield Scenario("eager", deployed("eager-java", 3, 2), topics(6), READY, weight=14)
    yield Scenario("eager librdkafka", deployed("eager-librdkafka", 2, 2), topics(4, 4), READY, weight=6)
    yield Scenario("cooperative", deployed("cooperative-java", 4, 3), topics(12), READY, weight=14)
    yield Scenario("consumer", deployed("consumer-java", 3, 2), topics(9), weight=14)
    yield Scenario("consumer librdkafka", deployed("consumer-librdkafka", 2, 1), topics(6, 2), weight=6)
    yield Scenario("one member", deployed("eager-java", 1, 3), topics(1), READY, weight=8)
    yield Scenario("static", static("cooperative-java", 3), topics(9), READY, weight=3)
    yield Scenario("static consumer", static("consumer-java", 3), topics(9), weight=3)
    yield Scenario(
        "transactional", deployed("consumer-java", 2, 1), topics(4), weight=2, commits=CommitStyle.TRANSACTIONAL
    )
    yield Scenario("converted", converted, topics(6), weight=2)


def resembling_groups() -> Iterator[Scenario]:
    """Yield the scenarios of healthy groups that resemble a fault."""
    storm = frozenset({"rebalance_storm"})
    yield Scenario("large deploy", deployed("cooperative-java", 12, 1), topics(48), READY, near=storm)
    yield Scenario("large deploy consumer", deployed("consumer-java", 12, 1), topics(48), near=storm)
    yield Scenario("bad quarter", crashed_once, topics(8), READY, near=storm | {"poll_timeout_loop"})
    yield Scenario(
        "nightly",
        nightly("eager-java"),
        topics(4),
        near=frozenset({"abandoned_group", "offsets_expiring", "stuck_group"}),
        weight=2,
        rests=dict.fromkeys(range(0, 2 * NIGHTS, 2), (0.3, 0.6)) | {-1: (8, 20)},
    )
    yield Scenario("surge", surging("cooperative-java"), topics(4), READY, near=frozenset({"idle_members"}))
    even = frozenset({"idle_members"})
    yield Scenario("as many members as partitions", deployed("consumer-java", 4, 1), topics(4), near=even)
    yield Scenario("autoscaled", scaled("cooperative-java", 30), topics(20), READY, near=storm | {"eager_group"})
    slow = frozenset({"poll_timeout_loop"})
    yield Scenario("autoscaled consumer", scaled("consumer-java", 16), topics(20), near=storm | slow)
    uneven = frozenset({"skewed_assignment"})
    yield Scenario("a little uneven", deployed("eager-java", 4, 1), topics(5, 5, 5, 5), READY, near=uneven)
    yield Scenario("divided", divided, topics(12, 2), READY, near=uneven)
    office = frozenset({"stuck_group"})
    yield Scenario(
        "office",
        deployed("cooperative-java", 2, 1),
        topics(4),
        READY,
        near=office,
        weight=2,
        commits=CommitStyle.OFFICE,
    )
    yield Scenario(
        "reset",
        emptied_for_a_reset,
        topics(6),
        READY,
        near=frozenset({"zombie_commits"}),
        commits=CommitStyle.RESET,
        rests={1: (0.2, 0.5)},
    )
    yield Scenario("grown", grown, topics(4))
    yield Scenario("calm eager", scaled("eager-java", 20), topics(8), READY, near=frozenset({"eager_group"}))
    yield Scenario("restarted static", restarted, topics(6), READY, near=frozenset({"flapping_instance"}))
    yield Scenario("surplus of late", surplus, topics(4), near=even, rests={-1: (0.4, 0.8)})
    yield Scenario("takes its time", pausing, topics(8), near=office, rests={-1: (0.2, 0.4)})
    off = frozenset({"abandoned_group", "offsets_expiring"})
    yield Scenario("weekend", ended, topics(4), near=off, rests={-1: (26, 44)})
    crashes = crashing("cooperative-java", 9, 330)
    yield Scenario("killed every five minutes", crashes, topics(8), READY, permitted=storm, near=slow)
    yield Scenario("crashes now and then", crashing("eager-java", 20, 840), topics(8), READY, near=storm | slow)
