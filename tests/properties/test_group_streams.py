"""A streams group under heartbeats that are lost, late and repeated, failovers, and topics that come, go and grow.

`StreamsWorld` checks the invariants and the replay after each step. Here: no two live members run one task as an active
one, the members of a process have a task once, and when nothing fails any more all tasks run and all copies are there.
Some threads are of Kafka Streams 4.4 (v1): they report how far their copies are, whatever that is, and in the end that
all have caught up.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.depth import examples
from tests.unit.group.streams_world import COUNTING, DELAY_MS, SESSION_MS, StreamsWorld

from kohort.group.streams.events import UserEndpoint
from kohort.group.streams.group import StreamsGroup, StreamsGroupState
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import NO_TASKS, TasksByRole

positions = st.integers(0, 3)
END = 50_000
"""Where every changelog ends."""


class Thread:
    """A client: `assigned` is what it was sent, `owned` what it runs: what it must give back goes a little later."""

    def __init__(self, member_id: str, process_id: str, instance_id: str | None, *, reports_lags: bool = False) -> None:
        self.member_id, self.process_id, self.instance_id = member_id, process_id, instance_id
        self.reports_lags = reports_lags
        self.epoch = 0
        self.assigned = self.owned = NO_TASKS

    def receives(self, result: Any) -> None:
        """Act on an answer as the Java client does."""
        if result.error:
            assert result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH), result
            self.epoch, self.assigned, self.owned = 0, NO_TASKS, NO_TASKS
            return
        self.epoch = result.member_epoch
        if result.tasks is not None:
            self.assigned = result.tasks
            self.owned = TasksByRole(*(self.owned[role] | self.assigned[role] for role in range(3)))

    def revokes(self) -> None:
        """Close the tasks that it must give back."""
        self.owned = self.assigned


class StreamsHeartbeats(RuleBasedStateMachine):
    """Four threads of three processes; one of them is a static member."""

    @initialize(
        standbys=st.integers(0, 2),
        warmups=st.integers(0, 2),
        partitions=st.integers(1, 3),
        reporting=st.sampled_from([(), (1, 2), (0, 1, 2, 3)]),
    )
    def begin(self, standbys: int, warmups: int, partitions: int, reporting: tuple[int, ...]) -> None:
        self.world = StreamsWorld(
            partitions, COUNTING, streams_standby_replicas=standbys, streams_warmup_replicas=warmups
        )
        self.standbys, self.warmups, self.ids = standbys, warmups, 4
        self.threads = [
            Thread(f"m{at}", f"p{at // 2}" if at < 3 else "p2", "i" if not at else None, reports_lags=at in reporting)
            for at in range(4)
        ]

    def beat(self, at: int, *, is_answered: bool = True, lag: int | None = None) -> None:
        """Send a heartbeat of a thread, with the lag of all its copies if there is one."""
        thread = self.threads[at]
        reported: dict[str, Any] = {"reports_lags": thread.reports_lags}
        if thread.reports_lags and lag is not None:
            copies = sorted(thread.owned.standby | thread.owned.warmup)
            reported["offsets"] = tuple((task, END - lag) for task in copies)
            reported["end_offsets"] = tuple((task, END) for task in copies)
        if thread.epoch == 0:
            endpoint = UserEndpoint("h", at) if at % 2 else None
            answer = self.world.join(
                thread.member_id, thread.process_id, instance_id=thread.instance_id, endpoint=endpoint, **reported
            )
            if answer.error is ErrorCode.UNRELEASED_INSTANCE_ID:
                return
        else:
            known = {"owned": thread.owned, "instance_id": thread.instance_id}
            answer = self.world.send(thread.member_id, thread.epoch, **known, **reported)
        if is_answered:
            thread.receives(answer.result)

    @rule(at=positions)
    def heartbeat(self, at: int) -> None:
        self.beat(at)

    @rule(at=positions, lag=st.sampled_from([0, 10_000, 10_001, END]))
    def report_lags(self, at: int, lag: int) -> None:
        self.beat(at, lag=lag)

    @rule(at=positions)
    def lose_the_answer(self, at: int) -> None:
        self.beat(at, is_answered=False)

    @rule(at=positions)
    def revoke(self, at: int) -> None:
        self.threads[at].revokes()

    @rule(at=positions)
    def leave(self, at: int) -> None:
        thread = self.threads[at]
        self.world.send(thread.member_id, -2 if thread.instance_id else -1, instance_id=thread.instance_id)
        self.restart(at)

    @rule(at=positions)
    def crash(self, at: int) -> None:
        """Start again under another id before the coordinator has missed the thread; its process goes on."""
        self.world.advance(SESSION_MS)
        for thread in self.threads:
            if thread.member_id not in getattr(self.world.shard.groups.get("g"), "members", {}):
                thread.epoch, thread.assigned, thread.owned = 0, NO_TASKS, NO_TASKS
        self.restart(at)

    def restart(self, at: int) -> None:
        self.ids += 1
        thread = self.threads[at]
        self.threads[at] = Thread(
            f"m{self.ids}", thread.process_id, thread.instance_id, reports_lags=thread.reports_lags
        )

    @rule(at=positions, process=st.sampled_from(["p0", "p1", "p2", "new"]))
    def restart_without_a_disk(self, at: int, process: str) -> None:
        """End a thread in good order; it comes back in another process, perhaps one that others are of."""
        thread = self.threads[at]
        self.leave(at)
        self.threads[at].process_id = f"{process}-{self.ids}" if process == "new" else process
        assert self.threads[at].instance_id == thread.instance_id

    @rule(ms=st.sampled_from([100, DELAY_MS, SESSION_MS // 2]))
    def wait(self, ms: int) -> None:
        before = set(getattr(self.world.shard.groups.get("g"), "members", {}))
        self.world.advance(ms)
        gone = before - set(getattr(self.world.shard.groups.get("g"), "members", {}))
        for thread in self.threads:
            if thread.member_id in gone:  # its process has ended before it was missed
                thread.epoch, thread.assigned, thread.owned = 0, NO_TASKS, NO_TASKS

    @rule()
    def fail_over(self) -> None:
        self.world.restart()

    @rule(name=st.sampled_from(["words", "g-repartition", "g-changelog"]), partitions=st.integers(0, 3))
    def change_a_topic(self, name: str, partitions: int) -> None:
        self.world.change_topic(name, partitions)

    @invariant()
    def no_task_runs_twice(self) -> None:
        group = getattr(self, "world", None) and self.world.shard.groups.get("g")
        if not isinstance(group, StreamsGroup):
            return
        running = [task for each in self.threads if each.member_id in group.members for task in each.owned.active]
        assert len(running) == len(set(running)), "two members run one task"
        held = [
            (group.members[member_id].process_id, task)
            for task, holders in group.holders.items()
            for member_id in holders
        ]
        assert len(held) == len(set(held)), "a process has a task once"
        warming = sum(len(member.target.warmup) for member in group.members.values())
        assert warming <= self.warmups, "few tasks warm up at a time"

    def teardown(self) -> None:
        """Let nothing fail any more: then all tasks run."""
        if not hasattr(self, "world"):
            return
        count = 2
        for name in ("words", "g-repartition", "g-changelog"):
            self.world.change_topic(name, count)
        self.world.advance(SESSION_MS)
        for thread in self.threads:
            thread.epoch, thread.assigned, thread.owned = 0, NO_TASKS, NO_TASKS
        for _ in range(20):
            for at, thread in enumerate(self.threads):
                self.beat(at, lag=0)
                thread.revokes()
            self.world.advance(100 if _ else DELAY_MS)
        group = self.world.streams
        assert group.state is StreamsGroupState.STABLE, group.state
        running = sorted(task for thread in self.threads for task in thread.owned.active)
        assert running == [(each, number) for each in "01" for number in range(count)]
        copies = sum(len(thread.owned.standby) for thread in self.threads)
        processes = len({thread.process_id for thread in self.threads})
        assert copies == count * min(self.standbys, processes - 1)
        assert not any(thread.owned.warmup for thread in self.threads)


TestStreamsHeartbeats = StreamsHeartbeats.TestCase
TestStreamsHeartbeats.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
