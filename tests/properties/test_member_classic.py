"""A classic member, EAGER or COOPERATIVE, against a coordinator that answers anything, at any time.

The machine plays the world: it answers what the member asked, late or wrongly, finishes callbacks, moves the clock and
the user's wishes. The listener's view, kept from callbacks alone, must always be the member's, and the contract of
listeners and assignors is never broken.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.depth import examples

from kohort.assign import RangeAssignor, TopicSpec
from kohort.assign.spec import MemberSpec, RebalanceProtocol
from kohort.assign.user_data import encode_assignment_error
from kohort.member import ClassicMember, Identity, MemberConfig, State, effects, inputs
from kohort.member.effects import Callback, RunCallback
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.sim.checks.callback_contract import ContractChecker

TOPICS = st.lists(st.sampled_from("tuv"), min_size=1, unique=True).map(tuple)
PARTITIONS = st.frozensets(st.builds(TopicPartition, st.sampled_from("tuv"), st.integers(0, 3)))
ROUND_ERRORS = st.sampled_from(
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
)
BEAT_ERRORS = st.sampled_from(
    [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
)


class CooperativeRange(RangeAssignor):
    protocols = (RebalanceProtocol.COOPERATIVE,)  # type: ignore[assignment]


class MemberAndWorld(RuleBasedStateMachine):
    @initialize(is_static=st.booleans(), is_eager=st.booleans(), topics=TOPICS)
    def begin(self, is_static: bool, is_eager: bool, topics: tuple[str, ...]) -> None:
        config = MemberConfig(max_poll_interval_ms=30_000, instance_id="i" if is_static else None)
        assignor = RangeAssignor() if is_eager else CooperativeRange()
        self.member = ClassicMember(config, [assignor], random=lambda: 0.5)
        self.witness = ContractChecker(self.member)
        self.is_eager = is_eager
        self.now_ms = 0
        self.generation = 0
        self.asked: list[effects.Effect] = []
        self.callback: RunCallback | None = None
        self.held: Partitions = frozenset()
        self.is_closing = False
        self.take(inputs.Subscribed(topics))

    def take(self, event: inputs.Input) -> None:
        for effect in self.witness.step(event, self.now_ms):
            assert not isinstance(effect, effects.Join | effects.Sync | effects.Compute) or self.callback is None, (
                "no step of a round while a callback runs"
            )
            match effect:
                case RunCallback(callback, partitions):
                    assert self.callback is None, "callbacks run one at a time"
                    if callback is Callback.ASSIGNED:
                        assert not partitions & self.held, "nothing is assigned that is held already"
                    else:
                        assert partitions <= self.held, "nothing is taken that is not held"
                    self.callback = effect
                case effects.Heartbeat(identity):
                    assert identity.is_valid
                case effects.Join(identity, protocols):
                    assert not (self.is_eager and self.held), "EAGER joins with empty hands"
                    assert frozenset(protocols[0][1].owned) == self.held, "a member claims what its listener holds"
                    assert identity.is_valid or not self.held, "a member without an identity owns nothing"
                case _:
                    pass
            self.asked.append(effect)

    @rule(generation=st.integers(1, 3), is_leader=st.booleans(), error=st.none() | ROUND_ERRORS)
    @precondition(lambda self: self.latest(effects.Join))
    def answer_join(self, generation: int, is_leader: bool, error: ErrorCode | None) -> None:
        join = self.pop(effects.Join)
        if error is not None:
            self.take(inputs.JoinAnswered(join.identity, error, member_id="n"))
            return
        self.generation += generation
        leader = "m" if is_leader else "other"
        members = {"m": MemberSpec(Subscription(("t",)))} if is_leader else {}
        self.take(inputs.JoinAnswered(join.identity, ErrorCode.NONE, self.generation, "m", leader, "range", members))

    @rule(partitions=st.integers(1, 4), fails=st.booleans(), is_passed_on=st.booleans())
    @precondition(lambda self: self.latest(effects.Compute))
    def answer_compute(self, partitions: int, fails: bool, is_passed_on: bool) -> None:
        compute = self.pop(effects.Compute)
        if fails and (is_passed_on or self.generation % 5 == 0):
            self.take(inputs.ComputeFailed(compute.identity, "no", is_passed_on))
        else:
            self.take(inputs.Computed(compute.identity, {}, {"t": TopicSpec(partitions)}))

    @rule(assigned=PARTITIONS, is_wanted=st.booleans(), is_marked=st.booleans(), error=st.none() | ROUND_ERRORS)
    @precondition(lambda self: self.latest(effects.Sync))
    def answer_sync(self, assigned: Partitions, is_wanted: bool, is_marked: bool, error: ErrorCode | None) -> None:
        sync = self.pop(effects.Sync)
        if sync.failure is not None:
            self.take(inputs.SyncAnswered(sync.identity, ErrorCode.UNKNOWN_SERVER_ERROR, error_message=sync.failure))
            return
        if is_wanted:
            assigned = frozenset(held for held in assigned if held.topic in self.member.topics)
        user_data = encode_assignment_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) if is_marked else None
        self.take(inputs.SyncAnswered(sync.identity, error or ErrorCode.NONE, Assignment(assigned, user_data)))

    @rule(error=BEAT_ERRORS)
    @precondition(lambda self: self.latest(effects.Heartbeat))
    def answer_heartbeat(self, error: ErrorCode) -> None:
        self.take(inputs.HeartbeatAnswered(self.pop(effects.Heartbeat).identity, error))

    @rule(error=BEAT_ERRORS, is_stale=st.booleans())
    def answer_commit(self, error: ErrorCode, is_stale: bool) -> None:
        asked_as = Identity(self.generation - 1, "m") if is_stale else self.member.identity
        self.take(inputs.CommitAnswered(asked_as, error))

    @rule(is_abandoned=st.booleans())
    @precondition(lambda self: self.callback is not None)
    def finish_callback(self, is_abandoned: bool) -> None:
        assert self.callback is not None
        callback, partitions = self.callback.callback, self.callback.partitions
        is_abandoned = is_abandoned and callback is Callback.REVOKED and not self.member.identity.is_valid
        self.callback = None
        if callback is Callback.ASSIGNED:
            self.held |= partitions
        elif not is_abandoned:
            self.held -= partitions
        self.take(inputs.CallbackFinished(callback, is_abandoned))

    @rule(topics=TOPICS)
    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.take(inputs.Subscribed(topics))

    @rule(partitions=st.integers(0, 4), others=st.integers(0, 4))
    def change_metadata(self, partitions: int, others: int) -> None:
        counts = {"t": partitions, "u": others}
        seen = {topic: TopicSpec(count) for topic, count in counts.items() if count}
        self.take(inputs.MetadataChanged(seen, gone=frozenset(counts) - frozenset(seen)))

    @rule(is_back=st.booleans())
    def poll(self, is_back: bool) -> None:
        self.take(inputs.PollEntered() if is_back else inputs.PollReturned())

    @rule(ms=st.integers(1, 40_000))
    def wait(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        for _ in range(1000):
            deadline_ms = self.member.next_deadline_ms()
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(inputs.Tick())
        else:
            raise AssertionError("the member asks to be woken again and again for nothing")
        self.now_ms = until_ms

    @rule()
    def close(self) -> None:
        self.is_closing = True
        self.take(inputs.CloseRequested("bye"))

    @invariant()
    def the_listener_sees_what_the_member_owns(self) -> None:
        if not hasattr(self, "member"):
            return
        running = self.callback
        coming = running.partitions if running is not None and running.callback is Callback.ASSIGNED else frozenset()
        assert self.member.owned == self.held | coming

    def teardown(self) -> None:
        """Whatever happened, closing ends the member, with nothing owned, and every partition given back."""
        if not hasattr(self, "member"):
            return
        self.take(inputs.CloseRequested("bye"))
        for _ in range(5):
            if self.callback is not None:
                self.finish_callback(False)
            if self.latest(effects.Join):  # with the answer comes the id that it leaves with
                join = self.pop(effects.Join)
                self.take(inputs.JoinAnswered(join.identity, ErrorCode.MEMBER_ID_REQUIRED, member_id="n"))
            if self.latest(effects.Leave):
                self.take(inputs.LeaveAnswered(self.pop(effects.Leave).identity, ErrorCode.NONE))
        assert self.member.state is State.CLOSED
        assert self.asked[-1] == effects.Ended() or effects.Ended() in self.asked
        assert not self.held
        assert not self.member.owned
        assert self.member.next_deadline_ms() is None

    def latest(self, kind: type[effects.Effect]) -> bool:
        return hasattr(self, "asked") and any(isinstance(effect, kind) for effect in self.asked)

    def pop(self, kind: type) -> effects.Effect:  # type: ignore[type-arg]
        """Take the oldest request of a kind that has no answer yet."""
        at = next(at for at, effect in enumerate(self.asked) if isinstance(effect, kind))
        return self.asked.pop(at)


MemberAndWorld.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
test_member_and_world = MemberAndWorld.TestCase
