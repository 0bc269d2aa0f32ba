"""A member of the consumer protocol against a coordinator that keeps KIP-848's rules over a network that does not.

The coordinator is a small model: one step towards the target at a time, partitions free only once their revocation was
acknowledged. Requests and responses are lost, the member is evicted, its user stays away from poll. What the listener
holds was never assigned to another member, the contract of listeners is kept, and without failures the target is
reached.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.depth import examples

from kohort.member import ConsumerMember, ConsumerState, Identity, MemberConfig, effects, inputs
from kohort.member.effects import Callback, ConsumerHeartbeat, ExpediteHeartbeat, NameTopics, RunCallback
from kohort.member.inputs import ConsumerHeartbeatAnswered, LagsReported, TopicsSeen
from kohort.model.assignment import Partitions, each, id_partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_contract import ConsumerContractChecker

T, U = b"t" * 16, b"u" * 16
NAMES = {T: "t", U: "u"}
Held = frozenset[tuple[bytes, int]]
HELD = st.frozensets(st.tuples(st.sampled_from([T, U]), st.integers(0, 2)))
LOSSES = st.sampled_from([ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT])
TOPICS = st.sampled_from([("t",), ("u",), ("t", "u")])


class Coordinator:
    """One member's side of a group, by F.2 and F.6 of KIP-848 as shipped. `others` hold what they hold."""

    def __init__(self) -> None:
        self.is_known = False
        self.epoch = self.previous = 0
        self.group_epoch = 1
        self.target: Held = frozenset()
        self.assigned: Held = frozenset()
        self.pending: Held = frozenset()
        self.others: Held = frozenset()

    def evict(self) -> None:
        self.is_known = False
        self.epoch = self.previous = 0
        self.assigned = self.pending = frozenset()

    def take(self, beat: ConsumerHeartbeat, *, fences_joins: bool) -> ConsumerHeartbeatAnswered:
        owned = None if beat.owned is None else frozenset(each(beat.owned))
        if beat.member_epoch < 0:
            self.evict()
            return ConsumerHeartbeatAnswered(beat.number, ErrorCode.NONE, None, beat.member_epoch)
        if beat.member_epoch == 0:
            if self.is_known and self.epoch > 0 and fences_joins:
                return ConsumerHeartbeatAnswered(beat.number, ErrorCode.FENCED_MEMBER_EPOCH)
            assert owned == frozenset(), "a member joins with empty hands"
            assert beat.topics is not None, "and says what it wants"
            self.is_known, self.epoch, self.previous = True, 0, 0
        elif not self.is_known:
            return ConsumerHeartbeatAnswered(beat.number, ErrorCode.UNKNOWN_MEMBER_ID)
        elif beat.member_epoch != self.epoch:
            is_repeated = beat.member_epoch == self.previous and owned is not None and owned <= self.assigned
            if not is_repeated:
                return ConsumerHeartbeatAnswered(beat.number, ErrorCode.FENCED_MEMBER_EPOCH)
        before = self.assigned
        self._reconcile(owned)
        is_full = beat.rebalance_timeout_ms != -1 and beat.topics is not None and beat.owned is not None
        is_passed_on = beat.member_epoch == 0 or is_full or self.assigned != before
        partitions = id_partitions((topic_id, (partition,)) for topic_id, partition in self.assigned)
        return ConsumerHeartbeatAnswered(
            beat.number, ErrorCode.NONE, None, self.epoch, 5_000, partitions if is_passed_on else None
        )

    def _reconcile(self, owned: Held | None) -> None:
        if self.pending and (owned is None or owned & self.pending):
            return
        self.pending = frozenset()
        if self.epoch == self.group_epoch and self.assigned == self.target:
            return
        kept = self.assigned & self.target
        revoked = self.assigned - kept
        if revoked and (owned is None or owned & revoked):
            self.previous, self.assigned, self.pending = self.epoch, kept, revoked
            return
        free = self.target - kept - self.others
        self.previous, self.epoch, self.assigned = self.epoch, self.group_epoch, kept | free


class MemberAndCoordinator(RuleBasedStateMachine):
    @initialize(topics=TOPICS, is_static=st.booleans())
    def begin(self, topics: tuple[str, ...], is_static: bool) -> None:
        config = MemberConfig(max_poll_interval_ms=30_000, instance_id="i" if is_static else None)
        self.member = ConsumerMember(config, "m", random=lambda: 0.5)
        self.witness = ConsumerContractChecker(self.member)
        self.coordinator = Coordinator()
        self.now_ms = 0
        self.beats: list[ConsumerHeartbeat] = []
        self.callback: RunCallback | None = None
        self.held: Partitions = frozenset()
        self.is_out = False
        self.is_ended = False
        self.take(TopicsSeen({T: "t"}))
        self.take(inputs.Subscribed(topics))

    def take(self, event: inputs.Input) -> None:
        for effect in self.witness.step(event, self.now_ms):
            match effect:
                case RunCallback(callback, partitions):
                    assert self.callback is None, "callbacks run one at a time"
                    if callback is Callback.ASSIGNED:
                        assert not partitions & self.held, "nothing is assigned that is held already"
                    else:
                        assert partitions, "revoked and lost are never called with nothing"
                        assert partitions <= self.held, "nothing is taken that is not held"
                    self.callback = effect
                case ConsumerHeartbeat():
                    is_in_flight = any(beat.member_epoch >= 0 for beat in self.beats)
                    assert effect.is_leave or not is_in_flight or self.is_out, "one heartbeat is under way"
                    self.beats.append(effect)
                case effects.Ended():
                    self.is_ended = True
                case effects.Fail():
                    raise AssertionError(f"nothing here is fatal: {effect}")
                case ExpediteHeartbeat():
                    assert self.beats, "only a heartbeat that is under way is expedited"
                case NameTopics(topic_ids):
                    assert topic_ids <= {U}

    # The network

    @rule(loss=st.none() | LOSSES, is_request_lost=st.booleans(), fences_joins=st.booleans())
    @precondition(lambda self: getattr(self, "beats", ()))
    def deliver(self, loss: ErrorCode | None, is_request_lost: bool, fences_joins: bool) -> None:
        """The oldest heartbeat arrives, and is answered, unless either is lost on the way."""
        beat = self.beats.pop(0)
        if loss is not None and is_request_lost:
            self.take(ConsumerHeartbeatAnswered(beat.number, loss))
            return
        answer = self.coordinator.take(beat, fences_joins=fences_joins)
        if beat.member_epoch == 0 and answer.error is ErrorCode.NONE:
            self.is_out = False
        self.take(answer if loss is None else ConsumerHeartbeatAnswered(beat.number, loss))

    @rule(error=st.sampled_from([ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]))
    @precondition(lambda self: getattr(self, "beats", ()))
    def find_no_coordinator(self, error: ErrorCode) -> None:
        self.take(ConsumerHeartbeatAnswered(self.beats.pop(0).number, error))

    # The group

    @rule(wanted=HELD, others=HELD)
    def retarget(self, wanted: Held, others: Held) -> None:
        coordinator = self.coordinator
        coordinator.target = wanted
        coordinator.group_epoch += 1
        coordinator.others = others - coordinator.assigned - coordinator.pending

    @rule()
    def free(self) -> None:
        self.coordinator.others = frozenset()
        self.coordinator.group_epoch += 1

    @rule()
    def evict(self) -> None:
        self.coordinator.evict()
        self.is_out = True

    # The user and the clock

    @rule(is_abandoned=st.booleans())
    @precondition(lambda self: getattr(self, "callback", None) is not None)
    def finish_callback(self, is_abandoned: bool) -> None:
        assert self.callback is not None
        callback, partitions = self.callback.callback, self.callback.partitions
        is_abandoned = is_abandoned and callback is Callback.REVOKED and not self.member.is_known
        self.callback = None
        if callback is Callback.ASSIGNED:
            self.held |= partitions
        elif not is_abandoned:
            self.held -= partitions
        self.take(inputs.CallbackFinished(callback, is_abandoned))

    @rule(topics=TOPICS)
    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.take(inputs.Subscribed(topics))

    @rule(is_known=st.booleans(), is_gone=st.booleans())
    def see_topics(self, is_known: bool, is_gone: bool) -> None:
        names = NAMES if is_known else {T: "t"}
        self.take(TopicsSeen(names, frozenset({U}) if is_gone and not is_known else frozenset()))

    @rule(lag=st.integers(0, 30_000))
    def report_lag(self, lag: int) -> None:
        self.take(LagsReported({TopicPartition("t", 9): lag}))

    @rule(is_stale=st.booleans())
    def commit_in_vain(self, is_stale: bool) -> None:
        asked_as = Identity(7, "m") if is_stale else self.member.identity
        self.take(inputs.CommitAnswered(asked_as, ErrorCode.STALE_MEMBER_EPOCH))

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
            self.is_out |= self.member.state is ConsumerState.STALE
        else:
            raise AssertionError("the member asks to be woken again and again for nothing")
        self.now_ms = until_ms

    @invariant()
    def what_the_listener_holds_is_what_the_member_owns(self) -> None:
        if not hasattr(self, "member"):
            return
        running = self.callback
        coming = running.partitions if running is not None and running.callback is Callback.ASSIGNED else frozenset()
        assert self.member.owned == self.held | coming

    @invariant()
    def partitions_of_the_listener_have_no_other_owner(self) -> None:
        if not hasattr(self, "member") or self.is_out or not self.member.is_known or not self.coordinator.is_known:
            return
        ours = self.coordinator.assigned | self.coordinator.pending
        ids = {"t": T, "u": U}
        assert {(ids[topic], partition) for topic, partition in self.held} <= ours

    def teardown(self) -> None:
        """In calm the member comes to own the target; closed, it leaves with nothing in hand."""
        if not hasattr(self, "member"):
            return
        self.take(TopicsSeen(NAMES))
        self.take(inputs.PollEntered())
        self.coordinator.others = frozenset()
        self._calm(30)
        target = frozenset(
            TopicPartition(NAMES[topic_id], partition) for topic_id, partition in self.coordinator.target
        )
        assert self.held == target
        assert self.member.is_stable
        self.take(inputs.CloseRequested("bye"))
        self._calm(5)
        assert self.is_ended
        assert not self.held
        assert not self.coordinator.is_known
        assert self.member.next_deadline_ms() is None

    def _calm(self, rounds: int) -> None:
        for _ in range(rounds):
            if self.callback is not None:
                self.finish_callback(False)
            while self.beats:
                self.deliver(None, False, False)
            self.wait(5_000)


MemberAndCoordinator.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
test_member_and_coordinator = MemberAndCoordinator.TestCase
