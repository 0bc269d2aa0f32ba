"""A group is a function of its log: replaying any prefix of it, compacted or not, gives the state it had then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.unit.group.world import NOW, REBALANCE_MS, SESSION_MS, World, hard_state, joined, says

from kohort.group.commands import DeleteGroup, DeleteOffsets, ExpireOffsets, ForgetTopic, Leaving, OffsetToCommit
from kohort.group.shard import Shard, apply
from kohort.log.offsets_topic import Replay, record_of
from kohort.model.errors import ErrorCode
from kohort.sim.checks.invariants import violations
from kohort.wire.record_batches import Record, encode_batch

ID = b"i" * 16
RETENTION_MS = 7 * 24 * 3_600_000


def grows_and_shrinks(world: World) -> None:
    leader, follower = world.stable(2)
    world.commit(leader, 1)
    newcomer, _ = world.enter()
    world.join(leader)
    world.join(follower)
    world.settle([leader, follower, newcomer])
    world.commit(follower, 2, offsets=[OffsetToCommit("t", 1, 5, 2, "note", ID)])
    world.leave(Leaving(leader))
    world.join(follower)
    world.join(newcomer)
    world.settle([follower, newcomer])
    world.advance(SESSION_MS)
    world.advance(REBALANCE_MS)


def static_member_restarts(world: World) -> None:
    world.join(instance_id="i")
    world.join(instance_id="j")
    world.gather()
    world.settle(world.group().members)
    for _ in range(2):
        again = world.join(instance_id="j", client_id="moved")
        world.commit(joined(again).member_id, 1, instance_id="j")
    world.join(instance_id="i")
    world.leave(Leaving("", "i"), Leaving("", "j"))


def group_is_deleted_and_comes_back(world: World) -> None:
    (member,) = world.stable(1)
    world.commit(member, 1)
    world.leave(Leaving(member))
    world.submit(DeleteGroup("g"))
    world.commit(offsets=[OffsetToCommit("u", 0, 1, -1, "", ID)])
    (member,) = world.stable(1, protocol_type="connect")
    world.leave(Leaving(member))


def simple_group_comes_and_goes(world: World) -> None:
    for topic in ("t", "u", "v"):
        world.commit(offsets=[OffsetToCommit(topic, index, 1, -1, "", ID) for index in range(3)])
    world.commit(retention_ms=500)
    world.submit(DeleteOffsets("g", (("t", 0), ("t", 1))))
    world.submit(ForgetTopic("g", "u"))
    world.now_ms += RETENTION_MS
    world.submit(ExpireOffsets("g"))
    world.commit()


def id_is_issued_and_never_used(world: World) -> None:
    world.join()
    world.advance(SESSION_MS)
    world.submit(ExpireOffsets("g"))
    world.join()
    world.commit()


def rounds_fail_and_are_abandoned(world: World) -> None:
    leader, follower = world.completing(protocols=says("t"))
    world.sync(leader, failure="no rack")
    world.join(leader, protocols=says("t"))
    world.join(follower, protocols=says("t"))
    world.leave(Leaving(follower))
    world.join(leader, protocols=says("t", "", 2))
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    world.sync(leader)
    world.join(leader, protocols=says("t", "", 3))
    world.append_error = None
    world.join(leader, protocols=says("t", "", 3))
    world.settle([leader])


def partitions_move_in_two_rounds(world: World) -> None:
    (owner,) = world.completing(1, protocols=says("t"))
    world.sync(owner, assignments=((owner, b"t-0 t-1"),))
    newcomer, _ = world.enter(protocols=says("t"))
    world.join(owner, protocols=says("t", "t-0 t-1", 1))
    world.sync(newcomer)
    world.sync(owner, assignments=((owner, b"t-0"), (newcomer, b"")))
    world.join(owner, protocols=says("t", "t-0", 2))
    world.join(newcomer, protocols=says("t", "", 2))
    world.settle([owner, newcomer])


SCENARIOS = [
    rounds_fail_and_are_abandoned,
    partitions_move_in_two_rounds,
    grows_and_shrinks,
    static_member_restarts,
    group_is_deleted_and_comes_back,
    simple_group_comes_and_goes,
    id_is_issued_and_never_used,
]
scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def played(scenario: Callable[[World], None]) -> World:
    world = World(sync_hold_ms=1_000)
    scenario(world)
    assert len(world.log) >= 3
    return world


def records_of(world: World) -> list[list[tuple[bytes, bytes | None]]]:
    return [[record_of(event) for event in events] for events in world.log]


def replayed(world: World, records: Sequence[tuple[bytes, bytes | None]]) -> Shard:
    shard, replay = Shard(world.settings), Replay()
    for key, value in records:
        for event in replay.read(encode_batch([Record(0, NOW, key, value)])):
            apply(shard, event)
    assert not violations(shard)
    return shard


def state_after(world: World, length: int) -> dict[str, Any]:
    return {name: world.stored[length - 1].get(name) for name in ("group g", "offsets g")}


def compacted(
    records: Sequence[tuple[bytes, bytes | None]], *, with_tombstones: bool
) -> list[tuple[bytes, bytes | None]]:
    """Keep the last record of each key, at its place."""
    last = {key: position for position, (key, _) in enumerate(records)}
    return [
        (key, value)
        for position, (key, value) in enumerate(records)
        if last[key] == position and (value is not None or with_tombstones)
    ]


@scenarios
def test_every_prefix_of_the_log_gives_the_state_of_that_time(scenario: Callable[[World], None]) -> None:
    world = played(scenario)
    entries = records_of(world)
    for length in range(1, len(entries) + 1):
        shard = replayed(world, [record for entry in entries[:length] for record in entry])
        assert hard_state(shard, "g") == state_after(world, length)


@scenarios
@pytest.mark.parametrize("with_tombstones", [True, False])
def test_compaction_of_any_stretch_changes_nothing(scenario: Callable[[World], None], with_tombstones: bool) -> None:
    world = played(scenario)
    entries = records_of(world)
    for length in range(1, len(entries) + 1):
        records = [record for entry in entries[:length] for record in entry]
        expected = state_after(world, length)
        for cut in range(len(records) + 1):
            clean = compacted(records[:cut], with_tombstones=with_tombstones)
            assert hard_state(replayed(world, clean + records[cut:]), "g") == expected


@scenarios
def test_generation_that_was_sent_to_a_member_exists_after_any_restart(scenario: Callable[[World], None]) -> None:
    """It is stored before it is sent: so no member of the last generation gets ILLEGAL_GENERATION after a failover."""
    world = played(scenario)
    for length in range(1, len(world.log) + 1):
        restarted = World()
        restarted.log = world.log[:length]
        restarted.restart()
        group = restarted.shard.groups.get("g")
        for member_id in sorted(group.members) if group is not None else ():
            assert restarted.heartbeat(member_id) is ErrorCode.NONE
            assert restarted.sync(member_id).error_or_waiting is ErrorCode.NONE


@scenarios
def test_restart_anywhere_leaves_a_group_that_lives_on(scenario: Callable[[World], None]) -> None:
    world = played(scenario)
    for length in range(1, len(world.log) + 1):
        restarted = World()
        restarted.log = world.log[:length]
        restarted.restart()
        restarted.advance(REBALANCE_MS * 3)
        (member,) = restarted.stable(1, protocol_type="consumer")
        assert restarted.commit(member, restarted.group().generation).error == 0
