"""What `explain` makes of a group's events is what the members lived, and whatever is missing, it adds up.

Members here are honest: each knows what it owns, from the SyncGroup answer that gave it to the JoinGroup that no longer
claims it. A broker between them writes the events. Nothing takes time but what the test lets pass.
"""

from __future__ import annotations

import json
from itertools import count, pairwise
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.node.consumer_desk import NativeMember, consumer_desk
from tests.unit.node.desk import Desk, Peer
from tests.unit.node.groups.test_coordinator import events

from kohort.group.explain.explain import Explanation, explain
from kohort.group.explain.partition_ownership import Gap
from kohort.group.explain.rebalance_report import GroupReport, Outcome, Rebalance
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.groups.event_topic import LINGER_MS
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from kohort.wire.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.record_batches import decode_batch, iter_batches

PARTITIONS = 6
COUNT = 4
SESSION_MS = 10_000
Owned = frozenset[TopicPartition]
NOTHING: Owned = frozenset()


class Honest:
    """One member: eager or cooperative, dynamic or static."""

    def __init__(self, number: int) -> None:
        self.name = f"m{number}"
        self.is_cooperative = number % 2 == 0
        self.instance_id = f"static-{number}" if number == COUNT - 1 else None
        self.peer: Peer | None = None
        self.past: dict[str, Owned] = {}
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = NOTHING
        self.waits_for: str | None = None

    # -- what it does

    def start(self, desk: Desk) -> None:
        """Start a new process; the group keeps the old one's assignment until it gives that member up.

        If a static instance returned, the group knows that the old process has ended.
        """
        if self.instance_id is None:
            self.past[self.member_id] = self.owned
        self.forget()
        self.connect(desk)
        self.join()

    def connect(self, desk: Desk) -> None:
        self.peer = desk.connect(self.name)
        if self.waits_for == "join":
            self.join()
        elif self.waits_for == "sync":
            # What a client does that cannot know whether its SyncGroup arrived.
            self.join()

    def join(self) -> None:
        assert self.peer is not None
        if not self.is_cooperative:
            self.owned = NOTHING
        self.waits_for = "join"
        subscription = Subscription(("t",), owned=tuple(sorted(self.owned)), generation=self.generation)
        self.peer.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=30_000,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.Protocol(name="both", metadata=encode_subscription(subscription))],
            ),
            9,
        )

    def beat(self) -> None:
        if self.peer is not None and self.waits_for is None:
            self.waits_for = "heartbeat"
            self.peer.send(self._named(HeartbeatRequest), 4)

    def leave(self) -> None:
        if self.peer is None:
            return
        member = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance_id, reason="done")
        self.peer.send(LeaveGroupRequest(group_id="g", members=[member]), 5)
        self.die()
        self.owned = NOTHING

    def die(self) -> None:
        if self.peer is not None:
            self.peer.leave()
            self.peer = None
            self.waits_for = None

    # -- responses

    def listen(self) -> bool:
        """Take what has come; return whether anything did."""
        answers = self.peer.answers() if self.peer is not None else []
        for answer in answers:
            if isinstance(answer, JoinGroupResponse):
                self._receive_join(answer)
            elif isinstance(answer, SyncGroupResponse):
                self._receive_sync(answer)
            elif isinstance(answer, HeartbeatResponse):
                self._receive_heartbeat(answer)
        return bool(answers)

    def _receive_join(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == 79:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code:
            self._start_over(answer.error_code)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.waits_for = "sync"
            leads = answer.leader == self.member_id and not answer.skip_assignment and answer.members
            given_out = self._shares(answer) if leads else {}
            assert self.peer is not None
            self.peer.send(
                self._named(
                    SyncGroupRequest,
                    protocol_type="consumer",
                    protocol_name="both",
                    assignments=[
                        SyncGroupRequest.Assignment(member_id=each, assignment=encode_assignment(Assignment(share)))
                        for each, share in given_out.items()
                    ],
                ),
                5,
            )

    def _shares(self, answer: JoinGroupResponse) -> dict[str, Owned]:
        """Deal the partitions out in turn, and withhold what its owner has not given up yet."""
        ids = sorted(member.member_id for member in answer.members)
        owners = {
            partition: member.member_id
            for member in answer.members
            for partition in decode_subscription(member.metadata).owned
        }
        shares: dict[str, set[TopicPartition]] = {member_id: set() for member_id in ids}
        for number in range(PARTITIONS):
            partition, taker = TopicPartition("t", number), ids[number % len(ids)]
            if owners.get(partition, taker) == taker:
                shares[taker].add(partition)
        return {member_id: frozenset(share) for member_id, share in shares.items()}

    def _receive_sync(self, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            self._start_over(answer.error_code)
            return
        self.waits_for = None
        assigned = decode_assignment(answer.assignment).partitions
        has_revoked = bool(self.owned - assigned)
        self.owned = assigned
        if has_revoked:
            self.join()

    def _receive_heartbeat(self, answer: HeartbeatResponse) -> None:
        self.waits_for = None
        if answer.error_code:
            self._start_over(answer.error_code)

    def _start_over(self, error: int) -> None:
        """Join again after REBALANCE_IN_PROGRESS (27); after any other error what was owned is lost."""
        if error != 27:
            self.owned = NOTHING
            self.generation = -1
            if error != 22:
                self.member_id = ""
        self.join()

    def _named(self, message: type[Any], **fields: Any) -> Any:
        return message(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            **fields,
        )


class Cast:
    """A broker, its members, and the events so far."""

    def __init__(self) -> None:
        self.desk = Desk(group_initial_rebalance_delay_ms=500)
        self.desk.create("t", PARTITIONS)
        self.desk.connect().call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
        self.members = [Honest(number) for number in range(COUNT)]
        self.random = Random(8)
        """Ids that one node has issued come from no other."""
        self.read = 0
        self.events: list[dict[str, Any]] = []
        self.explanation = Explanation("g")
        self.is_exact = True
        """Whether every event was written: a killed broker takes the last few with it."""

    def act(self, what: str, who: int, amount: int) -> None:
        member = self.members[who]
        match what:
            case "start" if member.peer is None:
                member.start(self.desk)
            case "leave" if member.peer is not None and member.member_id and member.waits_for is None:
                member.leave()
            case "kill":
                member.die()
            case "beat":
                for each in self.members:
                    each.beat()
            case "wait":
                self.desk.advance(amount)
            case "restart" | "crash":
                self.is_exact &= what == "restart"
                self.desk = self.desk.restart(clean=what == "restart")
                self.desk.node.random_bytes = self.random.randbytes
                for each in self.members:
                    if each.peer is not None:
                        each.waits_for = None if each.waits_for == "heartbeat" else each.waits_for
                        each.connect(self.desk)
        self.settle()

    def settle(self) -> None:
        """Deliver responses until no client has a request left; then read the recorded events."""
        while sum(member.listen() for member in self.members):
            pass
        self.desk.advance(LINGER_MS)
        topic = self.desk.node.topics.get("__kohort_group_events")
        if topic is None:
            return
        log = topic.partitions[0].log
        while self.read < log.log_end_offset:
            for view in log.read(self.read, 1 << 20):
                for header, batch in iter_batches(view):
                    for record in decode_batch(batch):
                        event = json.loads(record.value or b"")
                        self.events.append(event)
                        self.explanation.fold(event)
                    self.read = header.last_offset + 1

    def explained(self) -> GroupReport:
        return self.explanation.report(self.desk.clock.now_ms())

    def lived(self) -> dict[TopicPartition, str]:
        """Return the real owners, without members that the group has given up."""
        hosted = self.desk.node.coordinator.runtime.hosted("g")
        group = None if hosted is None else hosted.shard.groups.get("g")
        known = set() if group is None else set(group.members)
        believed = {member_id: owned for member in self.members for member_id, owned in member.past.items()}
        believed |= {member.member_id: member.owned for member in self.members}
        return {partition: each for each, owned in believed.items() if each in known for partition in owned}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("start", "start", "leave", "kill", "beat", "beat", "beat", "wait", "wait", "restart", "crash")
        ),
        st.integers(0, COUNT - 1),
        st.integers(1, 6_000),
    ),
    max_size=40,
)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_explanation_agrees_with_the_members_own_records(steps: list[tuple[str, int, int]]) -> None:
    cast = Cast()
    for step in steps:
        cast.act(*step)
        explained = cast.explained()
        assert_sound(explained.rebalances + ([explained.running] if explained.running is not None else []))
        if cast.is_exact:
            assert explained.owners == cast.lived(), step
    if cast.is_exact:
        calm(cast)
        assert cast.explained().running is None, cast.explained().running


def calm(cast: Cast) -> None:
    """Let dead members be evicted and all others come to rest."""
    for _ in range(20):
        cast.act("wait", 0, 3_000)
        cast.act("beat", 0, 0)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, st.data())
def test_parts_add_up_when_events_are_missing_late_or_repeated(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    cast = Cast()
    for step in steps:
        cast.act(*step)
    events = cast.events
    for _ in range(data.draw(st.integers(0, 10))):
        if not events:
            break
        at = data.draw(st.integers(0, len(events) - 1))
        match data.draw(st.sampled_from(("drop", "copy", "delay", "cut"))):
            case "drop":
                events = events[:at] + events[at + 1 :]
            case "copy":
                events = [*events[: at + 1], *events[max(0, at - 3) :]]
            case "delay":
                events = [*events[:at], *events[at + 1 : at + 4], events[at], *events[at + 4 :]]
            case "cut":
                events = events[at:]
    explained = explain(events, "g", cast.desk.clock.now_ms())
    assert_sound(explained.rebalances + ([explained.running] if explained.running is not None else []))


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("start", "start", "beat", "beat", "pause", "leave", "kill", "wait")),
            st.integers(0, COUNT - 1),
            st.integers(1, 60_000),
        ),
        max_size=30,
    )
)
def test_native_members_that_pause_and_return_and_die_cost_no_partition_twice(
    steps: list[tuple[str, int, int]],
) -> None:
    desk = consumer_desk()
    explanation, ids, began_ms = Explanation("g"), count(1), desk.clock.now_ms()
    members: dict[int, NativeMember] = {}
    for what, who, amount in [("start", 1, 0), *steps]:
        member = members.get(who)
        match what:
            case "start" if member is None:
                instance_id = f"static-{who}" if who % 2 else None
                member = NativeMember(desk, f"m{next(ids)}", instance_id=instance_id)
                if member.join().error_code == 0:
                    members[who] = member
            case "pause" | "leave" if member is not None:
                member.leave(-2 if what == "pause" and who % 2 else -1)
                del members[who]
            case "kill":
                members.pop(who, None)
            case "beat":
                for number, each in list(members.items()):
                    if each.ack().error_code:
                        del members[number]
            case "wait":
                desk.advance(amount)
    desk.advance(LINGER_MS)
    for event in events(desk):
        explanation.fold(event)
    explained = explanation.report(desk.clock.now_ms())
    rebalances = explained.rebalances + ([explained.running] if explained.running is not None else [])
    assert_sound(rebalances)
    cost_s = sum(each.unowned_partition_s + each.silent_partition_s for each in rebalances)
    assert cost_s <= 3 * (desk.clock.now_ms() - began_ms) / 1000, "three partitions cannot miss more than all the time"


def assert_sound(rebalances: list[Rebalance]) -> None:
    """No time is negative, the sum is that of the parts, and no partition is without an owner twice at a time."""
    timeline: dict[TopicPartition, list[Gap]] = {}
    for each in rebalances:
        assert each.duration_ms() >= 0
        assert each.unowned_partition_s >= 0
        assert abs(sum(gap.duration_ms for gap in each.gaps) - each.unowned_partition_s * 1000) < 1e-6
        assert 0 <= each.stayed() <= each.partitions or each.outcome is Outcome.RUNNING
        for gap in [*each.gaps, *each.silences]:
            assert gap.duration_ms > 0 or each.outcome is Outcome.RUNNING
            timeline.setdefault(gap.partition, []).append(gap)
    for gaps in timeline.values():
        ordered = sorted(gaps, key=lambda gap: (gap.from_ms, gap.until_ms))
        for earlier, later in pairwise(ordered):
            assert earlier.until_ms <= later.from_ms, (earlier, later)
