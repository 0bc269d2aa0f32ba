"""A classic group under any sequence of requests, timers, failures and restarts.

`World` checks the invariants after each step. Here: one round at a time, generations dense and in the log before they
are sent, assignments as the leader gave them whatever restarts come between, reasons that act, one member per
instance, and every waiting request is answered in the end.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.depth import examples
from tests.unit.group.world import Answer, World, fold, hard_state, says

from kohort.group.classic.group import Phase
from kohort.group.commands import DeleteGroup, ExpireOffsets, Leaving
from kohort.group.events import (
    AssignmentFailed,
    GatheringFailed,
    GenerationFormed,
    GroupDeleted,
    GroupStored,
    RebalanceAvoided,
    RevocationsAwaited,
    RoundOpened,
    SyncsReleased,
)
from kohort.group.results import JoinResult, SyncResult
from kohort.model.errors import ErrorCode

OFFERS = [
    (("range", b"t"),),
    (("range", b"t,u"),),
    (("range", b"t"), ("sticky", b"t")),
    (("sticky", b"t"), ("range", b"t")),
    says("t", "", 1),
    says("t", "", 2),
    says("t", "t-0", 1),
    says("t", "t-0 t-1", 1),
]
REASONS = ["", "blind", "topic_metadata_change", "whim"]
CLIENTS = [None, None, "i", "j"]
"""The instance ids of the clients."""

positions = st.integers(0, len(CLIENTS) - 1)
offers = st.sampled_from(OFFERS)
reasons = st.sampled_from(REASONS)


class Client:
    """One sender of requests, and what it believes."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.is_synced = False
        self.join: Answer | None = None
        self.sync: Answer | None = None
        self.sync_generation = -1

    @property
    def is_free(self) -> bool:
        return self.join is None and self.sync is None


class ClassicGroupMachine(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from([0, 3_000]),
        quiet_ms=st.sampled_from([-1, 100]),
        hold_ms=st.sampled_from([0, 1_000, 20_000]),
        max_size=st.sampled_from([2, 3, 2**31 - 1]),
    )
    def begin(self, delay_ms: int, quiet_ms: int, hold_ms: int, max_size: int) -> None:
        self.world = World(
            initial_rebalance_delay_ms=delay_ms, initial_quiet_ms=quiet_ms, sync_hold_ms=hold_ms, max_size=max_size
        )
        self.clients = [Client(instance_id) for instance_id in CLIENTS]
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.seen = 0
        self.generation = 0
        self.has_round = False

    # -- what clients do

    @rule(position=positions, offer=offers)
    def live(self, position: int, offer: Any) -> None:
        """Do what a member does next."""
        self.step(self.clients[position], offer)

    @rule(offer=offers, first=positions)
    def settle(self, offer: Any, first: int) -> None:
        """Let a first round run its delay, so that each member gets its assignment."""
        self.live_together(offer, first)
        self.world.advance(6_000)
        self.live_together(offer, first)

    @rule(offer=offers, first=positions)
    def live_together(self, offer: Any, first: int) -> None:
        """Every client takes its next step, until none has one."""
        for _ in range(3):
            for client in self.clients[first:] + self.clients[:first]:
                self.step(client, offer)
            self.world.advance(0)
            self.receive()

    def step(self, client: Client, offer: Any) -> None:
        if not client.is_free:
            return
        if client.generation < 0:
            self.send_join(client, offer, is_two_step=True)
        elif not client.is_synced:
            self.send_sync(client)
        else:
            self.believe(client, self.world.heartbeat(client.member_id, client.generation, client.instance_id))

    @rule(position=positions, offer=offers, is_two_step=st.booleans(), reason=reasons)
    def join(self, position: int, offer: Any, is_two_step: bool, reason: str) -> None:
        """Join, whatever the reason: a change, a whim, an answer that was lost."""
        self.send_join(self.clients[position], offer, is_two_step=is_two_step, reason=reason)

    @rule(position=positions, reason=reasons)
    def join_unchanged(self, position: int, reason: str) -> None:
        """Join again with what the group knows of the client."""
        client, group = self.clients[position], self.world.shard.groups.get("g")
        if group is not None and client.member_id in group.members:
            self.send_join(client, group.members[client.member_id].protocols, is_two_step=True, reason=reason)

    def send_join(self, client: Client, offer: Any, *, is_two_step: bool, reason: str = "") -> None:
        expected = self.expected_of_rejoin(client, offer, reason)
        changes = {"instance_id": client.instance_id, "protocols": offer, "is_two_step": is_two_step, "reason": reason}
        client.join = self.world.join(client.member_id, **changes)
        if expected == "keeps":
            assert client.join.error is ErrorCode.NONE
            assert client.join.result.generation == self.generation
        elif expected == "rebalances":
            assert any(isinstance(event, RoundOpened) for event in self.world.events[self.seen :])
        self.receive()

    def expected_of_rejoin(self, client: Client, offer: Any, reason: str) -> str:
        """Say what a JoinGroup of a known member with nothing changed must lead to; nothing of any other."""
        group = self.world.shard.groups.get("g")
        if group is None or client.member_id not in group.members:
            return ""
        member = group.members[client.member_id]
        if member.instance_id != client.instance_id or member.protocols != offer:
            return ""
        if group.phase is Phase.COMPLETING_REBALANCE:
            return "keeps"
        if group.phase is Phase.STABLE:
            return "keeps" if reason == "blind" or group.leader != client.member_id else "rebalances"
        return ""

    @rule(position=positions, failure=st.sampled_from([None, "no rack"]), is_cooperative=st.booleans())
    def sync(self, position: int, failure: str | None, is_cooperative: bool) -> None:
        if self.clients[position].generation >= 0:
            self.send_sync(self.clients[position], failure, is_cooperative=is_cooperative)

    @rule(failure=st.sampled_from([None, "no rack"]), is_cooperative=st.booleans(), are_others_first=st.booleans())
    def assign(self, failure: str | None, is_cooperative: bool, are_others_first: bool) -> None:
        """The leader does its duty, or cannot, before or after the others have asked for their assignment."""
        group = self.world.shard.groups.get("g")
        members = [client for client in self.clients if client.generation >= 0 and client.is_free]
        leaders = [client for client in members if group is not None and client.member_id == group.leader]
        others = [client for client in members if client not in leaders]
        for client in (others + leaders) if are_others_first else (leaders + others):
            if client.generation >= 0 and client.is_free:
                self.send_sync(client, failure, is_cooperative=is_cooperative)

    def send_sync(self, client: Client, failure: str | None = None, *, is_cooperative: bool = True) -> None:
        """A cooperative leader assigns `t` to no member: its owners must revoke."""
        group = self.world.shard.groups.get("g")
        assignments: tuple[tuple[str, bytes], ...] = ()
        if group is not None and group.leader == client.member_id and failure is None:
            rest = "" if is_cooperative else " t-0 t-1"
            texts = [(each, f"gen{client.generation}-{n}{rest}") for n, each in enumerate(sorted(group.members))]
            assignments = tuple((each, text.encode()) for each, text in texts)
        client.sync_generation = client.generation
        client.sync = self.world.sync(
            client.member_id,
            client.generation,
            instance_id=client.instance_id,
            assignments=assignments,
            failure=failure,
        )
        self.receive()

    @rule(position=positions)
    def commit(self, position: int) -> None:
        client = self.clients[position]
        if client.generation >= 0:
            error = self.world.commit(client.member_id, client.generation, instance_id=client.instance_id).error
            if error is ErrorCode.NONE:
                assert self.world.shard.offsets["g"]["t", 0].member_id == client.member_id
            self.believe(client, error)

    @rule(position=positions, by_admin=st.booleans())
    def leave(self, position: int, by_admin: bool) -> None:
        client = self.clients[position]
        self.world.leave(Leaving("" if by_admin else client.member_id, client.instance_id))
        client.forget()
        self.receive()

    @rule(position=positions)
    def crash(self, position: int) -> None:
        """The client is gone without a word, and another like it knows nothing."""
        self.clients[position].forget()

    # -- what else happens

    @rule(by_ms=st.sampled_from([1, 1_000, 3_000, 9_999, 10_000, 60_000]))
    def pass_time(self, by_ms: int) -> None:
        self.world.advance(by_ms)
        self.receive()

    @rule(error=st.sampled_from([None, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE]))
    def fail_or_heal_the_log(self, error: ErrorCode | None) -> None:
        self.world.append_error = error

    @rule(command=st.sampled_from([DeleteGroup("g"), ExpireOffsets("g")]))
    def tidy_up(self, command: Any) -> None:
        self.world.submit(command)

    @rule()
    def restart(self) -> None:
        self.follow()
        self.world.restart()
        for client in self.clients:
            client.join = client.sync = None
            client.is_synced = False
        group = self.world.shard.groups.get("g")
        self.generation = group.generation if group is not None else 0
        self.has_round = group is not None and group.phase is Phase.PREPARING_REBALANCE
        self.seen = len(self.world.events)

    # -- responses

    def receive(self) -> None:
        self.follow()
        for client in self.clients:
            if client.join is not None and not client.join.is_waiting:
                join, client.join = client.join.result, None
                assert isinstance(join, JoinResult)
                if join.error is ErrorCode.NONE:
                    client.member_id, client.generation, client.is_synced = join.member_id, join.generation, False
                    assert join.generation <= self.logged_generation(), "a generation is stored before it is sent"
                    assert bool(join.members) <= (join.leader == join.member_id)
                elif join.error is ErrorCode.MEMBER_ID_REQUIRED:
                    client.member_id = join.member_id
                else:
                    self.believe(client, join.error)
            if client.sync is not None and not client.sync.is_waiting:
                sync, client.sync = client.sync.result, None
                assert isinstance(sync, SyncResult)
                client.is_synced = sync.error is ErrorCode.NONE
                if sync.error is ErrorCode.NONE:
                    self.check_assignment(client, sync)
                else:
                    assert (sync.error_message is None) or sync.error is ErrorCode.UNKNOWN_SERVER_ERROR
                    self.believe(client, sync.error)

    def check_assignment(self, client: Client, sync: SyncResult) -> None:
        """A member gets one assignment in a generation, and the one that its leader made for it."""
        known = self.assigned.setdefault((client.sync_generation, client.member_id), sync.assignment)
        assert sync.assignment == known
        assert not sync.assignment or sync.assignment.startswith(b"gen%d-" % client.sync_generation)

    def logged_generation(self) -> int:
        """Return the generation that the log would restore."""
        stored = [event for events in self.world.log for event in events if isinstance(event, GroupStored)]
        return stored[-1].generation

    def believe(self, client: Client, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            client.member_id, client.generation = "", -1
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR):
            client.generation = -1

    def follow(self) -> None:
        """Check each new event against a group that knows only its generation and whether a round runs."""
        events = self.world.events
        for event in events[self.seen :]:
            match event:
                case RoundOpened():
                    assert not self.has_round, "one round at a time"
                    assert event.generation == self.generation
                    self.has_round = True
                case GenerationFormed():
                    assert self.has_round
                    assert event.generation == self.generation + 1, "generations are dense"
                    self.generation, self.has_round = event.generation, False
                case GroupStored(members=(), generation=generation) if generation:
                    assert self.has_round
                    assert generation == self.generation + 1, "an emptied group is a generation of its own"
                    self.generation, self.has_round = generation, False
                case GroupStored():
                    assert event.generation == self.generation
                    assert event.is_synced or not any(member.assignment for member in event.members)
                case GatheringFailed():
                    assert self.has_round
                case RebalanceAvoided() | AssignmentFailed() | RevocationsAwaited() | SyncsReleased():
                    assert not self.has_round
                case GroupDeleted():
                    self.generation, self.has_round = 0, False
                    self.assigned.clear()
        self.seen = len(events)

    @invariant()
    def log_is_the_hard_state(self) -> None:
        if self.world.log and len(self.world.log) == len(self.world.stored):
            folded = hard_state(fold(self.world.log, self.world.settings), "g")
            assert folded == {name: self.world.stored[-1].get(name) for name in folded}

    def teardown(self) -> None:
        """With a healthy log and silent clients every wait ends, and no member is left."""
        if not hasattr(self, "world"):
            return
        self.world.append_error = None
        for _ in range(12):
            self.world.advance(120_000)
            self.follow()
        assert not self.world.parked, "every waiting request is answered in the end"
        assert not self.world.timers
        assert all(group.phase is Phase.EMPTY for group in self.world.shard.groups.values())


ClassicGroupMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
test_classic_group_keeps_its_promises = ClassicGroupMachine.TestCase
