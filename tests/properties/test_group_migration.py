"""A group that changes its type back and forth under classic members, eager and cooperative, and native ones.

Whatever is lost, fails or restarts: no partition has two owners that act on it, no member acts on a partition
that the group does not record as its own, so a conversion revokes nothing, and in the end each member has its share.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.depth import examples
from tests.unit.group.mixed import ClassicClient, Crashed, Mixed, NativeClient, Owned, T, one_owner_each
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, fold, hard_state

from kohort.group.commands import TargetMeasured
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import epochs_of
from kohort.model.errors import ErrorCode

EAGER = ("range", "cooperative-sticky")
COOPERATIVE = ("cooperative-sticky",)
SEATS = 5
SILENCE_MS = min(SESSION_MS, REBALANCE_MS)
"""After so long without a word a client takes itself for evicted, as real ones do."""

seats = st.integers(0, SEATS - 1)
kinds = st.sampled_from(["eager", "eager v1", "cooperative", "cooperative", "native", "native"])


class MigratingGroup(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from(["bidirectional", "bidirectional", "upgrade"]),
        lowest=st.sampled_from([0, 3]),
        max_size=st.sampled_from([3, 2**31 - 1]),
        hold_ms=st.sampled_from([0, 1_000]),
    )
    def begin(self, policy: str, lowest: int, max_size: int, hold_ms: int) -> None:
        self.world = Mixed(
            migration_policy=policy, min_embedded_version=lowest, max_size=max_size, sync_hold_ms=hold_ms
        )
        self.seats: list[ClassicClient | NativeClient | None] = [None] * SEATS
        self.last_request_ms = [0] * SEATS
        self.names = 0

    @property
    def clients(self) -> list[ClassicClient | NativeClient]:
        return [client for client in self.seats if client is not None]

    # -- who comes and goes

    @rule(seat=seats, kind=kinds, is_static=st.booleans())
    def arrive(self, seat: int, kind: str, is_static: bool) -> None:
        """A client takes a free seat; an instance has the name of its seat."""
        if self.seats[seat] is None:
            self.seats[seat] = self.make(kind, f"i{seat}" if is_static else None)
            self.last_request_ms[seat] = self.world.now_ms

    def make(self, kind: str, instance_id: str | None) -> ClassicClient | NativeClient:
        if kind == "native":
            self.names += 1
            return NativeClient(self.world, f"n{self.names}", instance_id=instance_id)
        names = COOPERATIVE if kind == "cooperative" else EAGER
        version = 1 if kind == "eager v1" else 3
        return ClassicClient(self.world, names=names, instance_id=instance_id, version=version)

    @rule(seat=seats, kind=kinds, after=st.integers(0, 3))
    def roll_through_a_crash(self, seat: int, kind: str, after: int) -> None:
        """The coordinator is lost between the decisions that one request leads to."""
        self.crash_within(after, lambda: self.roll(seat=seat, kind=kind))
        self.crash_within(after, lambda: self.step(seat))

    @rule(first=seats, after=st.integers(0, 5))
    def live_through_a_crash(self, first: int, after: int) -> None:
        self.crash_within(after, lambda: self.live_together(first=first, times=1))

    def crash_within(self, after: int, doing: Callable[[], object]) -> None:
        if self.world.append_error is not None:
            return
        self.world.crashes_in = after
        try:
            doing()
        except Crashed:
            self.fail_over()
        self.world.crashes_in = -1

    @rule(seat=seats, kind=kinds)
    def roll(self, seat: int, kind: str) -> None:
        """A client is closed, and one of another kind takes its place: a static one under the same instance id."""
        client = self.seats[seat]
        if client is None:
            return
        if isinstance(client, NativeClient):
            client.leave(-1 if client.instance_id is None else -2)
        elif client.instance_id is None:
            client.leave()
        client.owned.clear()
        self.seats[seat] = self.make(kind, client.instance_id)
        self.last_request_ms[seat] = self.world.now_ms

    @rule(seat=seats)
    def leave(self, seat: int) -> None:
        client, self.seats[seat] = self.seats[seat], None
        if client is not None:
            client.leave()

    @rule(seat=seats)
    def crash(self, seat: int) -> None:
        self.seats[seat] = None

    # -- what clients do

    @rule(seat=seats)
    def live(self, seat: int) -> None:
        self.step(seat)

    @rule(first=seats, times=st.integers(1, 4))
    def live_together(self, first: int, times: int) -> None:
        for _ in range(times):
            for position in range(SEATS):
                self.step((first + position) % SEATS)
            self.world.advance(0)

    def step(self, seat: int) -> None:
        client = self.seats[seat]
        if client is None:
            return
        if self.world.append_error is None:
            # An error is no sign of life to the group, so it is none to the client.
            self.last_request_ms[seat] = self.world.now_ms
        client.step()
        self.check()
        if client.error is not None:
            # It was refused for good; its process is started again some day.
            assert client.error in (
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ), client.error
            self.seats[seat] = None

    @rule(seat=seats)
    def live_without_an_answer(self, seat: int) -> None:
        """The request arrives, and the answer does not."""
        client = self.seats[seat]
        if isinstance(client, NativeClient):
            before, owned = client.epoch, set(client.owned)
            client.step()
            client.epoch, client.owned, client.error = before, owned, None
            client.has_lost_an_answer = True
        elif client is not None and not client.is_synced and client.leads is None and not client.is_waiting:
            member_id, generation, owned = client.member_id, client.generation, set(client.owned)
            client.join()
            client.asked, client.leads, client.is_synced, client.error = None, None, False, None
            client.member_id, client.generation = member_id, generation
            if client.is_cooperative:
                client.owned = owned

    @rule(seat=seats)
    def break_off(self, seat: int) -> None:
        client = self.seats[seat]
        if isinstance(client, ClassicClient):
            client.lose_connection()

    # -- what else happens

    @rule(by_ms=st.sampled_from([1, 100, 1_000, 3_000, 9_999, 10_000, 60_000]))
    def pass_time(self, by_ms: int) -> None:
        end_ms = self.world.now_ms + by_ms
        while self.world.now_ms < end_ms:
            next_ms = min(self.world.now_ms + 1_000, end_ms)
            for seat, client in enumerate(self.seats):
                if isinstance(client, ClassicClient) and client.is_waiting:
                    self.last_request_ms[seat] = self.world.now_ms
                elif client is not None and next_ms - self.last_request_ms[seat] >= SILENCE_MS:
                    self.give_up(client)
            self.world.advance(next_ms - self.world.now_ms)

    def give_up(self, client: ClassicClient | NativeClient) -> None:
        client.owned.clear()
        if isinstance(client, ClassicClient):
            client.forget()
            client.member_id = ""
        else:
            client.epoch = 0

    @rule(error=st.sampled_from([None, None, ErrorCode.KAFKA_STORAGE_ERROR]))
    def fail_or_heal_the_log(self, error: ErrorCode | None) -> None:
        self.world.append_error = error

    @rule(cost_us=st.sampled_from([0, 10_000, 200_000]))
    def measure(self, cost_us: int) -> None:
        self.world.submit(TargetMeasured("g", cost_us))

    @rule()
    def fail_over(self) -> None:
        """The coordinator is lost with everything but its log."""
        if self.world.append_error is not None:
            return
        self.world.restart()
        for client in self.clients:
            if isinstance(client, ClassicClient):
                client.lose_connection()
            else:
                client.has_lost_an_answer = True

    # -- what must hold

    @invariant()
    def one_owner(self) -> None:
        if hasattr(self, "world"):
            self.check()

    def check(self) -> None:
        one_owner_each(*self.clients)
        group = self.world.shard.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is not None and client.owned:
                known = epochs_of(member.assigned).keys() | epochs_of(member.pending).keys()
                assert client.owned <= known, f"{client.member_id} acts on {sorted(client.owned - known)}"

    @invariant()
    def log_is_the_hard_state(self) -> None:
        if hasattr(self, "world") and self.world.log and len(self.world.log) == len(self.world.stored):
            folded = hard_state(fold(self.world.log, self.world.settings), "g")
            assert folded == {name: self.world.stored[-1].get(name) for name in folded}

    def teardown(self) -> None:
        """With a healthy log and clients that live, each member has its share of everything, and nothing moves."""
        if not hasattr(self, "world"):
            return
        self.world.append_error = None
        for _ in range(80):
            self.pass_time(1_000)
            for seat in range(SEATS):
                self.step(seat)
        if not self.clients:
            return
        before = self.shares()
        assert set().union(*before) == {(T, number) for number in range(6)}, [str(share) for share in before]
        for _ in range(10):
            self.pass_time(1_000)
            for seat in range(SEATS):
                self.step(seat)
        assert self.shares() == before, "nothing moves any more"
        assert max(map(len, before)) - min(map(len, before)) <= 1, "each member has its share"

    def shares(self) -> list[Owned]:
        return [set(client.owned) for client in self.clients]


MigratingGroup.TestCase.settings = settings(deadline=None, max_examples=examples(150), stateful_step_count=40)
test_conversions_keep_who_owns_what = MigratingGroup.TestCase


FAMILIES = [
    ["eager", "native"],
    ["cooperative", "native"],
    ["cooperative", "eager", "native"],
    ["eager", "eager v1", "cooperative", "native"],
]


def something(machine: MigratingGroup, random: Random, kinds: list[str]) -> Callable[[], object]:
    """Return one thing that happens, often enough what keeps a group going to bring it far."""
    seat = random.randrange(SEATS)
    things: list[tuple[int, Callable[[], object]]] = [
        (12, lambda: machine.arrive(seat=seat, kind=random.choice(kinds), is_static=random.random() < 0.4)),
        (10, lambda: machine.roll(seat=seat, kind=random.choice(kinds))),
        (3, lambda: machine.leave(seat=seat)),
        (3, lambda: machine.crash(seat=seat)),
        (22, lambda: machine.live(seat=seat)),
        (20, lambda: machine.live_together(first=seat, times=random.randint(1, 4))),
        (6, lambda: machine.live_without_an_answer(seat=seat)),
        (3, lambda: machine.break_off(seat=seat)),
        (11, lambda: machine.pass_time(by_ms=random.choice([1, 100, 1_000, 1_000, 3_000, 3_000, 9_999, 60_000]))),
        (3, lambda: machine.fail_or_heal_the_log(error=random.choice([None, None, ErrorCode.KAFKA_STORAGE_ERROR]))),
        (2, lambda: machine.measure(cost_us=random.choice([0, 10_000, 200_000]))),
        (5, machine.fail_over),
        (4, lambda: machine.live_through_a_crash(first=seat, after=random.randint(0, 5))),
        (4, lambda: machine.roll_through_a_crash(seat=seat, kind=random.choice(kinds), after=random.randint(0, 3))),
    ]
    return random.choices([thing for _, thing in things], [weight for weight, _ in things])[0]


@settings(deadline=None, max_examples=examples(80))
@given(seed=st.integers(0, 2**32), things=st.integers(20, 100))
def test_group_converted_back_and_forth_keeps_who_owns_what(seed: int, things: int) -> None:
    random, machine = Random(seed), MigratingGroup()
    machine.begin(
        policy=random.choice(["bidirectional", "bidirectional", "upgrade"]),
        lowest=random.choice([0, 0, 3]),
        max_size=random.choice([4, 2**31 - 1]),
        hold_ms=random.choice([0, 1_000]),
    )
    kinds = random.choice(FAMILIES)
    for _ in range(things):
        something(machine, random, kinds)()
        machine.one_owner()
        machine.log_is_the_hard_state()
    machine.teardown()
