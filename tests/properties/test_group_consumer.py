"""A consumer group under heartbeats that are lost, repeated and late, failovers, compaction, and topics that change.

`ConsumerWorld` checks the invariants and the replay after each step. Here: whatever a member reads is granted to it
and to no other; every prefix of the log, and what compaction leaves of it, is a group that can be taken up; and
when nothing fails any more, all partitions are read and no member has a step left.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.depth import examples
from tests.properties.consumer_clients import Client
from tests.unit.group.consumer_world import ConsumerWorld
from tests.unit.group.world import fold, hard_state

from kohort.group.commands import Command, ConsumerHeartbeat, Loaded, TargetMeasured
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.join import is_full
from kohort.group.consumer.reconcile import ids_of
from kohort.group.decisions import decide
from kohort.group.effects import Append, Note, Then
from kohort.group.events import ConsumerMemberOut, GroupDeleted, GroupStored, HardEvent, MemberState
from kohort.group.shard import Shard, apply
from kohort.model.assignment import each
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.sim.checks.invariants import violations

NAMES = [("foo",), ("foo", "bar"), ("bar", "baz"), ()]
REGEXES = ["", "", "ba.", "f.*"]
COSTS_US = [0, 50, 20_000, 10**9]

positions = st.integers(0, 3)
names = st.sampled_from(NAMES)


class Heartbeats(RuleBasedStateMachine):
    """Up to four clients of one group; two of them are static."""

    @initialize(regexes=st.lists(st.sampled_from(REGEXES), min_size=4, max_size=4))
    def begin(self, regexes: list[str]) -> None:
        self.world = ConsumerWorld()
        self.ids = 0
        self.firm = 0
        """From where on each prefix of the log is one that a crash could leave."""
        self.late: list[ConsumerHeartbeat] = []
        self.clients = [self.client(at, NAMES[at], regexes[at]) for at in range(4)]

    def client(self, at: int, names: tuple[str, ...], regex: str) -> Client:
        self.ids += 1
        return Client(f"m{self.ids}", f"i{at}" if at < 2 else None, names, regex)

    # -- requests

    def deliver(self, heartbeat: ConsumerHeartbeat) -> Any:
        before = len(self.world.events)
        result = self.world.submit(heartbeat).result
        self.notice(before)
        return result

    def notice(self, start: int) -> None:
        """An evicted member has stopped before the coordinator gave it up."""
        for event in self.world.events[start:]:
            if isinstance(event, ConsumerMemberOut) and event.cause.kind is not CauseKind.MEMBER_LEFT:
                for client in self.clients:
                    if client.member_id == event.member_id:
                        client.begin_again()

    @rule(at=positions)
    def heartbeat(self, at: int) -> None:
        client = self.clients[at]
        if not client.is_superseded:
            client.receives(self.deliver(client.heartbeat()))

    @rule(at=positions)
    def lose_the_request(self, at: int) -> None:
        self.clients[at].receives(None)

    @rule(at=positions)
    def lose_the_answer(self, at: int) -> None:
        client = self.clients[at]
        if not client.is_superseded:
            self.deliver(client.heartbeat())
            client.receives(None)

    @rule(at=positions)
    def repeat_the_request(self, at: int) -> None:
        client = self.clients[at]
        if not client.is_superseded:
            heartbeat = client.heartbeat()
            first, second = self.deliver(heartbeat), self.deliver(heartbeat)
            if not is_full(heartbeat):  # a client that misses the answer of a short one repeats everything instead
                client.receives(first)
            client.receives(second)

    @rule(at=positions)
    def lose_the_answer_and_read_the_request_later(self, at: int) -> None:
        client = self.clients[at]
        if client.is_in and not client.is_superseded:
            heartbeat = client.heartbeat()
            self.late.append(heartbeat)
            self.deliver(heartbeat)
            client.receives(None)

    @precondition(lambda self: self.late)
    @rule()
    def read_a_late_request(self) -> None:
        """What a late request says its sender owned cannot be distinguished within its epoch: see `consumer`."""
        heartbeat = self.late.pop()
        group = self.world.shard.groups.get("g")
        member = group.members.get(heartbeat.member_id) if isinstance(group, ConsumerGroup) else None
        is_of_this_epoch = member is not None and member.epoch == heartbeat.member_epoch
        if not is_of_this_epoch or heartbeat.owned is None:
            self.deliver(heartbeat)

    @rule(at=positions, is_lost=st.booleans())
    def leave(self, at: int, is_lost: bool) -> None:
        client = self.clients[at]
        if client.is_in:
            client.owned.clear()
            epoch = -1 if client.instance_id is None or is_lost else -2
            for _ in range(1 + is_lost):
                self.deliver(ConsumerHeartbeat("g", client.member_id, epoch, client.instance_id))
            self.clients[at] = self.client(at, client.names, client.regex)

    @rule(at=positions)
    def restart_the_client(self, at: int) -> None:
        """It crashes and comes back under a new id; its instance is away, if it could still say so."""
        client = self.clients[at]
        if client.instance_id is None or not client.is_in:
            client.owned.clear()
            self.clients[at] = self.client(at, client.names, client.regex)

    @rule(at=positions, names=names)
    def subscribe(self, at: int, names: tuple[str, ...]) -> None:
        client = self.clients[at]
        client.names = names
        client.has_other_names = True

    # -- everything else

    @rule(by_ms=st.sampled_from([10, 900, 20_000, 31_000, 50_000]))
    def wait(self, by_ms: int) -> None:
        before = len(self.world.events)
        self.world.advance(by_ms)
        self.notice(before)

    @rule(name=st.sampled_from(["foo", "bar", "baz"]), partitions=st.integers(0, 5))
    def change_a_topic(self, name: str, partitions: int) -> None:
        if partitions or name in self.world.topics.topics:
            self.world.topic_changes(name, partitions)

    @rule(cost_us=st.sampled_from(COSTS_US))
    def make_targets_expensive(self, cost_us: int) -> None:
        if "g" in self.world.shard.groups:
            self.world.submit(TargetMeasured("g", cost_us))

    @rule(is_failing=st.booleans())
    def break_or_mend_the_assignor(self, is_failing: bool) -> None:
        self.world.assignor.error = ValueError("no") if is_failing else None

    @rule(at=positions)
    def fail_to_store(self, at: int) -> None:
        self.world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        self.lose_the_answer(at)
        self.world.append_error = None

    @rule(data=st.data())
    def fail_over(self, data: st.DataObject) -> None:
        """Lose everything but the log; compaction has taken from its beginning what later records replace."""
        records = [record for batch in self.world.log for record in batch]
        upto = data.draw(st.integers(0, len(records)), "cleaned records")
        seen = data.draw(st.integers(upto, len(records)), "records the cleaner has seen")
        self.world.log = [[record] for record in compacted(records, upto, seen)]
        self.firm = len(self.world.log)
        self.world.restart()

    # -- what holds

    @invariant()
    def what_is_read_is_granted(self) -> None:
        group = self.world.shard.groups.get("g") if hasattr(self, "world") else None
        readers: dict[tuple[bytes, int], str] = {}
        for client in self.clients if hasattr(self, "clients") else ():
            if client.owned:
                assert isinstance(group, ConsumerGroup)
                member = group.members[client.member_id]
                granted = {*each(ids_of(member.assigned)), *each(ids_of(member.pending))}
                assert client.owned <= granted, f"{client.member_id} reads {client.owned - granted}"
            for partition in client.owned:
                assert readers.setdefault(partition, client.member_id) == client.member_id, "one reader each"

    def teardown(self) -> None:
        if hasattr(self, "clients"):
            self.take_up_every_prefix()
            self.heal()

    def take_up_every_prefix(self) -> None:
        for length in range(self.firm, len(self.world.log) + 1):
            shard = fold(self.world.log[:length], self.world.settings)
            carry_out_load(shard, self.world.now_ms)
            assert not violations(shard), violations(shard)

    def heal(self) -> None:
        self.world.assignor.error = None
        if "g" in self.world.shard.groups:
            self.world.submit(TargetMeasured("g", 0))
        # Departed members are evicted meanwhile; the others send heartbeats.
        for _ in range(40):
            self.wait(5_000)
            for at, client in enumerate(self.clients):
                if client.is_superseded:
                    self.clients[at] = self.client(at, client.names, client.regex)
                self.heartbeat(at)
                self.what_is_read_is_granted()
        group = self.world.consumer_group()
        assert group.state == "Stable", (group.state, group.unsettled)
        assert group.members.keys() == {client.member_id for client in self.clients}
        for client in self.clients:
            member = group.members[client.member_id]
            assert client.owned == set(each(ids_of(member.assigned))) == set(each(member.target))
            assert (client.epoch, member.state) == (group.epoch, MemberState.STABLE)
        wanted = {name for client in self.clients for name in client.names}
        wanted |= {name for client in self.clients for name in self.world.topics.matching(client.regex, "g")}
        found = [topic for name in wanted if (topic := self.world.topics.topic(name)) is not None]
        read = sorted(partition for client in self.clients for partition in client.owned)
        assert read == sorted((topic.topic_id, number) for topic in found for number in range(topic.partitions))


def compacted(records: list[HardEvent], upto: int, seen: int) -> list[HardEvent]:
    """Return a log whose first `upto` records were cleaned of those that have a later one among the first `seen`."""
    last = {key_of(record): at for at, record in enumerate(records[:seen])}
    return [record for at, record in enumerate(records) if at >= upto or last[key_of(record)] == at]


def key_of(record: HardEvent) -> tuple[Any, ...]:
    """Return what a record is about; a tombstone has the key of what it deletes."""
    if isinstance(record, GroupStored | GroupDeleted):
        return ("Group",)
    kind = type(record).__name__.removesuffix("Stored").removesuffix("Deleted")
    return kind, getattr(record, "member_id", None), getattr(record, "regex", None)


def carry_out_load(shard: Shard, now_ms: int) -> None:
    """Take every group up, and do what follows from that."""
    commands: list[Command] = [Loaded(group_id) for group_id in sorted(shard.groups)]
    while commands:
        for effect in list(decide(shard, commands.pop(0), now_ms)):
            if isinstance(effect, Append | Note):
                apply(shard, effect.event)
            elif isinstance(effect, Then):
                commands.append(effect.command)


Heartbeats.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestHeartbeats = Heartbeats.TestCase


def test_compaction_keeps_the_last_record_of_each_key_and_everything_after_it_stopped() -> None:
    world = ConsumerWorld()
    world.stable_with("A", "B")
    world.goes("A")
    records = [record for batch in world.log for record in batch]
    for upto in range(len(records) + 1):
        for seen in range(upto, len(records) + 1):
            shard = fold([compacted(records, upto, seen)], world.settings)
            assert hard_state(shard, "g") == hard_state(world.shard, "g")
            assert not violations(shard)
