"""Each bug of the museum in a handful of commands: a correct response or record becomes wrong with the mutation on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.quality import wrong_assignors, wrong_coordinator, wrong_members, wrong_replay, wrong_transactions
from tests.quality.replacing import replaced
from tests.replay.compaction import Row, compacted, raced, replayed
from tests.unit.assign.groups import group, member
from tests.unit.group.consumer_world import ConsumerWorld
from tests.unit.group.mixed import Mixed, NativeClient, classic_members
from tests.unit.group.world import World, joined, says
from tests.unit.member.classic_script import cooperative, partitions, stable
from tests.unit.node.group_desk import GroupMember
from tests.unit.node.test_announced_rounds import codes, settled

from kohort.assign import CooperativeStickyAssignor
from kohort.assign.cooperative import broken_rules
from kohort.assign.shares import Shares
from kohort.group.commands import CommitOffsets, ConsumerHeartbeat, Heartbeat, Leaving, OffsetToCommit
from kohort.group.events import MemberState
from kohort.log.offsets_topic import record_of
from kohort.member import Identity, State
from kohort.member.effects import Callback
from kohort.member.inputs import CloseRequested
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.transaction.commands import AddPartitions, Command, EndTransaction, InitProducer, MarkersWritten
from kohort.transaction.decisions import Transactions, apply, decide
from kohort.transaction.effects import Append, Reply, TransactionResult, TransactionStored
from kohort.transaction.transaction import LARGEST_EPOCH, Transaction
from kohort.transaction.transaction import State as TransactionState
from kohort.wire import visible_batches as fetched_batches
from kohort.wire.record_batches import Marker, Record, encode_batch, encode_marker

Mutation = Callable[[], wrong_coordinator.Mutation]


# -- the coordinator


def partition_is_asked_back_and_granted_again() -> None:
    world = ConsumerWorld()
    world.plans(a="foo-0,1")
    world.enters("a", "foo")
    world.plans(a="foo-0", b="foo-1")
    world.enters("b", "foo")
    assert world.beats("a", "foo-0,1").assignment is not None
    world.plans(a="foo-0,1")
    world.goes("b")
    world.beats("a", "foo-0")
    assert world.state("a")[1] is MemberState.STABLE


def partition_moves_between_live_members() -> None:
    world = ConsumerWorld()
    world.stable_with("a")
    world.enters("b")
    world.beats("b", "")


def member_joins_twice() -> None:
    world = ConsumerWorld()
    world.stable_with("a")
    world.topic_changes("bar", 4)
    world.settles()
    assert world.comes("a").error is ErrorCode.NONE


def static_member_comes_back_with_other_topics() -> None:
    world = World()
    world.join(instance_id="i", protocols=says("t"))
    world.gather()
    world.settle([joined(world.answers[0]).member_id] if world.answers else list(world.group().members))
    assert world.join(instance_id="i", protocols=says("t,u")).is_waiting or world.group().generation == 2


def known_member_id_comes_under_another_instance() -> None:
    world = World()
    world.join(instance_id="i")
    world.gather()
    [member_id] = world.settle(world.group().members)
    world.join(member_id, instance_id="j")
    assert world.group().static_members == {"i": member_id}


def last_awaited_member_leaves() -> None:
    world = World()
    leader, follower = world.stable(2)
    again = world.join(leader)
    assert again.is_waiting
    world.leave(Leaving(follower))
    assert not again.is_waiting


def former_member_of_a_classic_group_sends_a_heartbeat() -> None:
    world = World()
    world.stable(1)
    gone, _ = world.enter()
    world.advance(world.group().max_rebalance_timeout_ms() + 1)
    world.leave(Leaving(gone))
    assert world.submit(Heartbeat("g", gone, None, world.group().generation)).error is ErrorCode.UNKNOWN_MEMBER_ID


def former_member_of_a_consumer_group_sends_a_heartbeat() -> None:
    world = ConsumerWorld()
    world.stable_with("a", "b")
    epoch = world.member("b").epoch
    world.goes("b")
    assert world.submit(ConsumerHeartbeat("g", "b", epoch)).error is ErrorCode.UNKNOWN_MEMBER_ID


def commit_of_the_generation_before() -> None:
    world = World()
    [leader] = world.stable(1)
    world.join(leader)
    world.gather()
    world.settle([leader])
    assert world.commit(leader, world.group().generation - 1).error is ErrorCode.ILLEGAL_GENERATION


def commit_of_the_epoch_before_it_was_granted() -> None:
    world = ConsumerWorld()
    world.plans(a="foo-0")
    world.enters("a", "foo")
    before = world.member("a").epoch
    world.plans(a="foo-0,1")
    world.topic_changes("foo", 7)
    world.beats("a", "foo-0")
    offsets = [OffsetToCommit("foo", 1, 7, -1, "", world.assigned("a")[0][0])]
    answer = world.submit(CommitOffsets("g", "a", None, before, offsets))
    assert answer.error is ErrorCode.STALE_MEMBER_EPOCH


# -- the replay


def rows_of(world: World) -> list[Row]:
    return [record_of(event) for events in world.log for event in events]


def members_come_and_go() -> ConsumerWorld:
    world = ConsumerWorld()
    world.stable_with("a", "b")
    world.goes("a")
    world.settles()
    world.stable_with("c")
    return world


def log_holds_only_tombstones_of_a_member() -> None:
    world = members_come_and_go()
    rows = rows_of(world)
    replayed(compacted(rows, len(rows), 0), world.settings)


def log_is_cleaned_while_a_partition_moves() -> None:
    world = ConsumerWorld()
    world.stable_with("a", "b")
    world.topic_changes("bar", 4)
    world.beats("b", "foo-3,4,5")
    world.settles()
    rows = rows_of(world)
    for read in range(len(rows)):
        replayed(raced(rows, read), world.settings)


def log_begins_with_offsets() -> None:
    world = ConsumerWorld()
    world.commit_outside("g")
    world.stable_with("a")
    replayed(rows_of(world), world.settings)


def log_is_cleaned_while_a_converted_group_is_read() -> None:
    world = Mixed()
    classics = classic_members(world)
    native = NativeClient(world, "native")
    for _ in range(6):
        for client in (native, *classics):
            client.step()
    native.leave()
    world.advance(0)
    for _ in range(6):
        for classic in classics:
            classic.step()
    rows = rows_of(world)
    assert not world.is_consumer
    for read in range(len(rows)):
        replayed(raced(rows, read), world.settings)


# -- assignors


def leader_receives_one_partition_claimed_in_two_generations() -> None:
    spec = group({"a": member("t", "t-0", generation=4), "b": member("t", "t-0 t-1", generation=5)}, t=2)
    made = CooperativeStickyAssignor().assign(spec)
    assert not made["a"].partitions & made["b"].partitions


def leader_receives_owned_partitions_of_an_older_generation() -> None:
    members = {"a": member("t", "t-0 t-1", generation=4), "b": member("t", "t-2 t-3", generation=5)}
    spec = group({**members, "c": member("t")}, t=4)
    assert not broken_rules(spec, CooperativeStickyAssignor().assign(spec))


def partitions_are_fewer_than_members_that_differ() -> None:
    moves = 0
    right = Shares.move

    def move(shares: Shares, path: object, amount: int) -> None:
        nonlocal moves
        moves += 1
        assert moves < 1_000, "moves come to an end"
        right(shares, path, amount)  # type: ignore[arg-type]

    with replaced(Shares, "move", move):
        both, one = member("t u"), member("t")
        CooperativeStickyAssignor().assign(group({"a": both, "b": both, "c": one, "d": one}, t=1, u=1))


# -- members


def commit_is_refused_while_its_sender_joins() -> None:
    script = cooperative()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.synced(partitions(0, 1))
    script.finished(Callback.ASSIGNED)
    assert script.member.state is State.STABLE


def commit_of_a_generation_ago_is_refused() -> None:
    script = stable()
    before = Identity(1, "m")
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.finished(Callback.REVOKED)
    script.joined(2)
    script.commit_answered(ErrorCode.ILLEGAL_GENERATION, asked_as=before)
    assert script.member.identity == Identity(2, "m")


def member_closes_while_its_group_gathers() -> None:
    script = cooperative()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.member.state is State.JOINING
    script.take(CloseRequested("bye"))
    assert [callback for callback, _ in script.callbacks()] == [Callback.REVOKED]


def eager_member_has_no_heartbeat_here_when_a_round_begins() -> None:
    desk, (one, other, _) = settled()
    GroupMember(desk).enter()
    assert codes(one) == codes(other) == []


def leader_asks_for_a_round_with_what_it_owns_by_now() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.join(leader, protocols=says("topics", "t-0", 1), reason="by hand")
    assert world.cause().kind is CauseKind.LEADER_REJOINED


def producer_begins_while_its_last_epoch_has_a_transaction() -> None:
    transactions = Transactions()
    ongoing = Transaction(
        "x", 7, LARGEST_EPOCH - 1, 1_000, TransactionState.ONGOING, frozenset({("t", 0)}), 0, 0, version=2
    )
    transactions.by_id["x"] = ongoing
    stored = [
        each.event for each in decide(transactions, InitProducer("x", 1_000, None, 8), 0) if isinstance(each, Append)
    ]
    for event in stored:
        assert isinstance(event, TransactionStored)
        assert event.transaction.epoch <= LARGEST_EPOCH


def end_of_a_transaction_comes_once_more_in_the_next_one() -> None:
    transactions = Transactions()
    transactions.by_id["x"] = Transaction("x", 7, 0, 1_000, TransactionState.EMPTY, frozenset(), -1, 0, version=2)
    commit = EndTransaction("x", 7, 0, True, 2, 8)

    def answer(command: Command) -> TransactionResult | None:
        results = []
        for effect in decide(transactions, command, 0):
            if isinstance(effect, Append):
                apply(transactions, effect.event)
            elif isinstance(effect, Reply):
                results.append(effect.result)
        return results[0] if results else None

    answer(AddPartitions("x", 7, 0, frozenset({("t", 0)}), 2))
    ended = answer(commit)
    assert ended is not None
    answer(MarkersWritten("x", 7, transactions.by_id["x"].epoch))
    answer(AddPartitions("x", ended.producer_id, ended.epoch, frozenset({("t", 0)}), 2))
    answer(commit)
    assert transactions.by_id["x"].state is TransactionState.ONGOING


def aborted_transaction_follows_on_a_committed_one() -> None:
    log = b""
    for base, is_commit in ((0, True), (2, False)):
        record = Record(0, 0, None, b"%d" % base)
        log += encode_batch(
            [record], base_offset=base, producer_id=7, producer_epoch=0, base_sequence=base, transactional=True
        )
        marker = bytearray(encode_marker(7, 0, Marker(is_commit, 0), 0))
        marker[:8] = (base + 1).to_bytes(8, "big")
        log += bytes(marker)
    visible = fetched_batches.visible_batches(memoryview(log), 0, [(7, 2)])
    assert [batch.header.base_offset for batch in visible.raw] == [0]


PAIRS: list[tuple[Mutation, Callable[[], None]]] = [
    (wrong_coordinator.kafka_16147, partition_is_asked_back_and_granted_again),
    (wrong_coordinator.kafka_19449, partition_is_asked_back_and_granted_again),
    (wrong_coordinator.crabka_521, partition_moves_between_live_members),
    (wrong_coordinator.kafka_19233, member_joins_twice),
    (wrong_coordinator.kafka_12759, static_member_comes_back_with_other_topics),
    (wrong_coordinator.crabka_534, known_member_id_comes_under_another_instance),
    (wrong_coordinator.redpanda_3300, last_awaited_member_leaves),
    (wrong_coordinator.heartbeat_after_eviction, former_member_of_a_classic_group_sends_a_heartbeat),
    (wrong_coordinator.heartbeat_after_eviction, former_member_of_a_consumer_group_sends_a_heartbeat),
    (wrong_coordinator.commit_one_epoch_late, commit_of_the_generation_before),
    (wrong_coordinator.commit_one_epoch_late, commit_of_the_epoch_before_it_was_granted),
    (wrong_coordinator.round_announced_without_waiting, eager_member_has_no_heartbeat_here_when_a_round_begins),
    (wrong_coordinator.causes_by_bytes, leader_asks_for_a_round_with_what_it_owns_by_now),
    (wrong_replay.kafka_17306, log_holds_only_tombstones_of_a_member),
    (wrong_replay.kafka_19862, log_is_cleaned_while_a_partition_moves),
    (wrong_replay.kafka_20254, log_begins_with_offsets),
    (wrong_replay.kafka_21117, log_is_cleaned_while_a_converted_group_is_read),
    (wrong_assignors.kafka_12984, leader_receives_one_partition_claimed_in_two_generations),
    (wrong_assignors.kafka_14639, leader_receives_owned_partitions_of_an_older_generation),
    (wrong_assignors.librdkafka_4783, partitions_are_fewer_than_members_that_differ),
    (wrong_members.librdkafka_4059, commit_is_refused_while_its_sender_joins),
    (wrong_members.close_in_a_round_loses, member_closes_while_its_group_gathers),
    (wrong_members.aiokafka_727, commit_of_a_generation_ago_is_refused),
    (wrong_transactions.kafka_17754, end_of_a_transaction_comes_once_more_in_the_next_one),
    (wrong_transactions.kafka_19367, producer_begins_while_its_last_epoch_has_a_transaction),
    (wrong_transactions.brod_659, aborted_transaction_follows_on_a_committed_one),
]


@pytest.mark.parametrize(("mutation", "story"), PAIRS, ids=lambda each: each.__name__)
def test_mutation_breaks_what_holds_without_it(mutation: Mutation, story: Callable[[], None]) -> None:
    story()
    with mutation(), pytest.raises(AssertionError):
        story()
    story()
