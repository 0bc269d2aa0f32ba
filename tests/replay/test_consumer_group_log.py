"""A consumer group is a function of its log: any prefix, however Kafka's cleaner left it, gives that time's group.

The logs are those of live groups: native members, classic ones among them, conversions both ways, static members,
expressions, offsets, deletion. Kafka failed to load some compacted ones (KAFKA-19862).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.replay.compaction import Row, compacted, hard_state, raced, replayed
from tests.unit.group.mixed import ClassicClient, Client, Mixed, NativeClient, T, classic_members

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import DeleteGroup, ExpireOffsets, ForgetTopic, OffsetToCommit
from kohort.group.consumer.group import ConsumerGroup
from kohort.log.offsets_topic import record_of

RETENTION_MS = 7 * 24 * 3_600_000


class Recorded(Mixed):
    """The mixed world, which remembers what the live group was after each command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.seen: list[tuple[int, dict[str, Any]]] = []
        """How many decisions the log held, and the state then."""

    def _check(self) -> None:
        super()._check()
        self.seen.append((len(self.log), hard_state(self.shard)))

    def rows(self, length: int | None = None) -> list[Row]:
        return [record_of(event) for events in self.log[:length] for event in events]

    def offset(self, client: Client, epoch: int) -> None:
        self.commit(client.member_id, epoch, offsets=[OffsetToCommit("t", 0, 7, -1, "", T)])


def turns(*clients: Client, times: int) -> None:
    """Let each client take its next step, in turn."""
    for _ in range(times):
        for client in clients:
            client.step()


def members_come_and_go(world: Recorded) -> None:
    natives = [NativeClient(world, f"n{index}") for index in range(3)]
    turns(natives[0], times=2)
    world.offset(natives[0], natives[0].epoch)
    turns(*natives, times=4)
    natives[1].leave()
    turns(natives[0], natives[2], times=4)
    world.advance(46_000)
    turns(*natives, times=4)


def topics_change_hands_by_subscription(world: Recorded) -> None:
    one, two = NativeClient(world, "one", topics=("t", "u")), NativeClient(world, "two", topics=("u",))
    turns(one, two, times=5)
    world.native("one", one.epoch, subscribed_topic_names=("u",))
    turns(one, two, times=5)
    world.native("two", two.epoch, subscribed_topic_names=("t", "u"), owned=())
    turns(one, two, times=5)


def static_members_go_for_a_while(world: Recorded) -> None:
    one, two = (NativeClient(world, name, instance_id=name.upper()) for name in ("one", "two"))
    turns(one, two, times=4)
    one.leave(-2)
    again = NativeClient(world, "one-again", instance_id="ONE")
    turns(again, two, times=4)
    two.leave(-2)
    world.advance(46_000)
    turns(again, times=2)


def group_is_converted_and_back(world: Recorded) -> None:
    classics = classic_members(world)
    world.offset(classics[0], classics[0].generation)
    native = NativeClient(world, "native")
    turns(native, *classics, times=8)
    world.offset(native, native.epoch)
    classics[0].leave()
    turns(native, classics[1], times=4)
    native.leave()
    world.advance(0)
    turns(classics[1], times=6)


def cooperative_members_are_converted(world: Recorded) -> None:
    classics = classic_members(world, names=("cooperative-sticky",))
    natives = [NativeClient(world, f"n{index}") for index in range(2)]
    turns(*natives, *classics, times=10)
    for classic in classics:
        classic.leave()
        turns(*natives, times=3)


def group_is_emptied_forgotten_and_made_anew(world: Recorded) -> None:
    native = NativeClient(world, "native")
    turns(native, times=3)
    world.offset(native, native.epoch)
    native.leave()
    world.submit(ForgetTopic("g", "t"))
    world.commit(offsets=[OffsetToCommit("u", 1, 3, -1, "", b"U" * 16)])
    world.submit(DeleteGroup("g"))
    world.commit(offsets=[OffsetToCommit("u", 1, 3, -1, "", b"U" * 16)])
    turns(native, times=3)
    native.leave()
    world.now_ms += RETENTION_MS
    world.submit(ExpireOffsets("g"))
    classic = ClassicClient(world)
    for _ in range(4):
        classic.step()
        world.advance(0)


SCENARIOS = [
    members_come_and_go,
    topics_change_hands_by_subscription,
    static_members_go_for_a_while,
    group_is_converted_and_back,
    cooperative_members_are_converted,
    group_is_emptied_forgotten_and_made_anew,
]
scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def played(scenario: Callable[[Recorded], None]) -> Recorded:
    world = Recorded()
    scenario(world)
    kinds = {type(state).__name__ for _, seen in world.seen for state in seen["groups"].values()}
    assert len(world.log) >= 8, kinds
    return world


@scenarios
def test_every_prefix_of_the_log_gives_the_group_of_that_time(scenario: Callable[[Recorded], None]) -> None:
    world = played(scenario)
    compared = 0
    for length, state in world.seen:
        group = state["groups"].get("g")
        # Of a classic group's round only the end is in the log: test_group_log.py.
        if group is None or group.get("phase", Phase.STABLE) is Phase.STABLE:
            assert hard_state(replayed(world.rows(length), world.settings)) == state
            compared += 1
    assert compared >= 8


@scenarios
def test_compaction_of_any_stretch_changes_nothing(scenario: Callable[[Recorded], None]) -> None:
    world = played(scenario)
    lengths = sorted({length for length, _ in world.seen})
    for length in {lengths[-1], lengths[len(lengths) // 2]}:
        rows = world.rows(length)
        expected = hard_state(replayed(rows, world.settings))
        for clean in range(len(rows) + 1):
            for horizon in {0, clean // 2, clean}:
                shard = replayed(compacted(rows, clean, horizon), world.settings)
                assert hard_state(shard) == expected, (length, clean, horizon)


@scenarios
def test_log_that_is_cleaned_while_it_is_read_gives_the_same_group(scenario: Callable[[Recorded], None]) -> None:
    world = played(scenario)
    lengths = sorted({length for length, _ in world.seen})
    for length in {lengths[-1], lengths[len(lengths) // 2]}:
        rows = world.rows(length)
        expected = hard_state(replayed(rows, world.settings))
        for read in range(len(rows) + 1):
            assert hard_state(replayed(raced(rows, read), world.settings)) == expected, (length, read)


@scenarios
def test_log_torn_inside_of_a_decision_is_still_read(scenario: Callable[[Recorded], None]) -> None:
    """A decision is one batch; a log that another broker wrote may have them cut finer."""
    world = played(scenario)
    rows = world.rows()
    for length in range(len(rows) + 1):
        replayed(rows[:length], world.settings, checked=False)


def test_scenarios_go_through_both_types_of_group() -> None:
    types = set()
    for scenario in SCENARIOS:
        world = Recorded()
        scenario(world)
        types.add(type(world.shard.groups["g"]))
    assert types == {ClassicGroup, ConsumerGroup}
