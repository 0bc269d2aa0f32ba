"""Parking of heartbeats of streams groups, through a node: who waits, and what ends it."""

from __future__ import annotations

from typing import Any

from tests.unit.node.desk import Desk
from tests.unit.node.test_streams_apis import DELAY_MS, JOIN

from kohort.group.streams.topology import StatusCode
from kohort.model.errors import ErrorCode
from kohort.parking.client_software import JAVA, software_named
from kohort.parking.limits import EPOCH_MARGIN_MS, NEXT_MS, RECENT_MS, RECENT_WAIT_MS, WARMING_MS
from kohort.wire.messages import MetadataRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

PARK_MS = 1_000
Tasks = dict[str, list[int]]
_Owned = StreamsGroupHeartbeatRequest.ActiveTask


class Thread:
    """A thread of an application, on a connection of its own."""

    def __init__(self, desk: Desk, member_id: str, process_id: str = "", **fields_of_join: Any) -> None:
        self.peer = desk.connect()
        self.member_id = member_id
        self.epoch = 0
        self.endpoint_epoch = 0
        self.owned: Tasks = {}
        own = {"member_id": member_id, "process_id": process_id or f"p-{member_id}", "user_endpoint": None}
        self.fields_of_join = {**JOIN, **own, **fields_of_join}

    def answers(self) -> list[StreamsGroupHeartbeatResponse]:
        """Return the answers since, of which it takes what it is to know."""
        found = self.peer.answers()
        for answer in found:
            if isinstance(answer, StreamsGroupHeartbeatResponse) and not answer.error_code:
                self.epoch, self.endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
                if answer.active_tasks is not None:
                    self.owned = {each.subtopology_id: each.partitions for each in answer.active_tasks}
        return found  # type: ignore[return-value]

    def join(self) -> None:
        """Join, and acknowledge what it is assigned."""
        self.peer.send(StreamsGroupHeartbeatRequest(**self.fields_of_join), 1)
        self.settle()

    def send(self, **fields: Any) -> None:
        known = {"member_epoch": self.epoch, "endpoint_information_epoch": self.endpoint_epoch}
        self.peer.send(StreamsGroupHeartbeatRequest(group_id="g", member_id=self.member_id, **{**known, **fields}), 1)

    def acknowledge(self) -> None:
        active = [_Owned(subtopology_id=key, partitions=numbers) for key, numbers in self.owned.items()]
        self.send(active_tasks=active, standby_tasks=[], warmup_tasks=[])

    def settle(self) -> bool:
        """Acknowledge all answers until none comes; return whether there was one."""
        has_acted = False
        while self.answers():
            self.acknowledge()
            has_acted = True
        return has_acted


def settle(*threads: Thread) -> None:
    """Let all do what they must, which may be more once another one has done it."""
    while sum(thread.settle() for thread in threads):
        pass


def parked(*names: str, **settings: Any) -> tuple[Desk, list[Thread]]:
    """Return a stable group of threads that have each a heartbeat with the coordinator."""
    desk = Desk(
        **{
            "kohort_group_consumer_heartbeat_park_ms": PARK_MS,
            "group_streams_initial_rebalance_delay_ms": 0,
            "group_streams_num_warmup_replicas": 0,  # these threads report no offsets
            **settings,
        }
    )
    desk.create("words", 2)
    threads = [Thread(desk, name) for name in names]
    for thread in threads:
        thread.join()
        desk.advance(0)
        settle(*threads)
    assert len(desk.node.coordinator.runtime.epoch_parking) == len(names)
    return desk, threads


def test_heartbeat_without_an_update_waits_for_its_time_and_no_longer() -> None:
    desk, (first,) = parked("a")
    desk.advance(PARK_MS - 1)
    assert first.answers() == []
    desk.advance(1)
    (answer,) = first.answers()
    assert (answer.error_code, answer.active_tasks, answer.heartbeat_interval_ms) == (0, None, NEXT_MS)


def test_tasks_move_without_any_time_passing() -> None:
    _, (first, second) = parked("a", "b")
    assert sorted(map(str, (first.owned, second.owned))) == ["{'0': [0], '1': [0]}", "{'0': [1], '1': [1]}"]


def test_member_that_must_revoke_is_answered_when_another_one_joins() -> None:
    desk, (first,) = parked("a")
    second = Thread(desk, "b")
    second.join()
    (answer,) = first.answers()
    assert answer.active_tasks is not None
    assert (first.owned, second.owned) == ({"0": [0], "1": [0]}, {})
    assert second.answers() == []
    first.acknowledge()
    assert len(second.answers()) == 1
    assert second.owned == {"0": [1], "1": [1]}


def test_members_wait_for_the_first_target_of_their_group() -> None:
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=2 * DELAY_MS)
    desk.create("words", 2)
    first = Thread(desk, "a")
    first.join()
    desk.advance(DELAY_MS - 1)
    assert first.answers() == []
    desk.advance(1)
    (answer,) = first.answers()
    assert (first.owned, answer.status) == ({"0": [0, 1], "1": [0, 1]}, [])


def test_leave_of_a_member_answers_the_others() -> None:
    _, (first, second) = parked("a", "b")
    first.send(member_epoch=-1)
    assert len(second.answers()) == 1
    assert second.owned == {"0": [0, 1], "1": [0, 1]}
    assert [each.error_code for each in first.peer.answers()] == [0, 0]


def test_thread_of_the_same_process_waits_until_a_task_is_given_back() -> None:
    desk, (first,) = parked("a")
    second = Thread(desk, "b", "p-a")
    second.join()
    settle(first)
    settle(second)
    assert second.owned == {"0": [1], "1": [1]}


def test_request_to_end_the_application_answers_all() -> None:
    _, (first, second) = parked("a", "b")
    first.send(shutdown_application=True)
    (answer,) = second.answers()
    assert [each.status_code for each in answer.status or ()] == [4]


def test_source_topic_that_is_created_answers_the_members() -> None:
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=PARK_MS, group_streams_initial_rebalance_delay_ms=0)
    first = Thread(desk, "a")
    first.join()
    assert first.answers() == []
    desk.create("words", 2)
    for _ in range(2):  # the internal topics, which the first answer makes, follow
        desk.advance(0)
        settle(first)
    assert first.owned == {"0": [0, 1], "1": [0, 1]}


def test_missing_internal_topics_are_made_on_behalf_of_each_heartbeat() -> None:
    desk = Desk(
        kohort_group_consumer_heartbeat_park_ms=PARK_MS,
        group_streams_initial_rebalance_delay_ms=0,
        kohort_partitions_max=60,
    )
    desk.create("words", 8)
    first = Thread(desk, "a")
    first.peer.send(StreamsGroupHeartbeatRequest(**JOIN), 1)
    for _ in range(2):
        (answer,) = first.peer.answers()
        assert "Creation of g-changelog failed" in (answer.status or ())[-1].status_detail
        first.peer.send(StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=answer.member_epoch), 1)


def test_next_request_of_the_connection_has_the_heartbeat_answered_first() -> None:
    _, (first, second) = parked("a", "b")
    first.peer.send(MetadataRequest(topics=[]), 12)
    names = [type(answer).__name__ for answer in first.peer.answers()]
    assert names == ["StreamsGroupHeartbeatResponse", "MetadataResponse"]
    assert second.answers() == []


def test_session_runs_from_when_a_heartbeat_came_not_from_when_it_was_answered() -> None:
    desk, (first,) = parked("a", group_streams_session_timeout_ms=45_000)
    desk.advance(PARK_MS)
    assert len(first.answers()) == 1
    desk.advance(45_000 - PARK_MS)
    first.send()
    assert [answer.error_code for answer in first.answers()] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_kafka_streams_has_its_answer_before_its_next_heartbeat_is_due() -> None:
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=PARK_MS, group_streams_initial_rebalance_delay_ms=0)
    desk.create("words", 2)
    first = Thread(desk, "a")
    first.peer.connection.client_software = software_named(JAVA, "4.3.1")
    first.join()
    for wait_ms in (RECENT_MS, RECENT_WAIT_MS):
        desk.advance(wait_ms)
        settle(first)
    desk.advance(PARK_MS)
    (answer,) = first.answers()
    assert answer.heartbeat_interval_ms == PARK_MS + EPOCH_MARGIN_MS[JAVA]


def test_kafka_streams_is_answered_once_while_its_first_target_is_delayed() -> None:
    """It logs a warning for each such answer."""
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=PARK_MS)
    desk.create("words", 2)
    first = Thread(desk, "a")
    first.peer.connection.client_software = software_named(JAVA, "4.4.0")
    first.peer.send(StreamsGroupHeartbeatRequest(**first.fields_of_join), 1)
    (answer,) = first.answers()
    assert StatusCode.ASSIGNMENT_DELAYED in [each.status_code for each in answer.status or ()]
    assert answer.heartbeat_interval_ms == DELAY_MS
    desk.advance(DELAY_MS)
    first.send()
    settle(first)
    assert first.owned == {"0": [0, 1], "1": [0, 1]}


def test_member_with_a_warm_up_is_answered_at_once_until_it_has_caught_up() -> None:
    """It reports that with its next heartbeat: parked, the task would move a whole wait later."""
    desk, (first,) = parked("a", group_streams_num_warmup_replicas=1)
    second = Thread(desk, "b")
    second.peer.send(StreamsGroupHeartbeatRequest(**second.fields_of_join), 1)
    for _ in range(4):
        for thread in (first, second):
            if thread.answers():
                thread.acknowledge()
    assert second.owned == {"0": [1]}
    (answer,) = second.answers()
    assert (answer.active_tasks, answer.heartbeat_interval_ms) == (None, WARMING_MS)
    offset = {"subtopology_id": "1", "partition": 1, "offset": 5}
    second.send(
        task_offsets=[StreamsGroupHeartbeatRequest.TaskOffset(**offset)],
        task_end_offsets=[StreamsGroupHeartbeatRequest.TaskEndOffset(**offset)],
    )
    settle(first, second)
    assert second.owned == {"0": [1], "1": [1]}


def test_kafka_streams_waits_for_missing_source_topics_as_long_as_without_parking() -> None:
    """It waits for two of the intervals that the first such answer has."""
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=PARK_MS, group_streams_initial_rebalance_delay_ms=0)
    first = Thread(desk, "a")
    first.peer.connection.client_software = software_named(JAVA, "4.3.1")
    first.peer.send(StreamsGroupHeartbeatRequest(**{**JOIN, "member_id": "a"}), 1)
    (answer,) = first.answers()
    assert StatusCode.MISSING_SOURCE_TOPICS in [each.status_code for each in answer.status or ()]
    assert answer.heartbeat_interval_ms == 5_000
