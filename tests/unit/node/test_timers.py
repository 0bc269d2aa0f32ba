from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kohort.node.timers import Timers


def test_a_timer_runs_once_at_its_deadline() -> None:
    timers, ran = Timers(), []
    timers.arm("session", 100, ran.append)
    assert timers.next_deadline_ms() == 100
    assert timers.run_due(99) == 0
    assert timers.run_due(100) == 1
    assert timers.run_due(200) == 0
    assert ran == [100]
    assert timers.next_deadline_ms() is None


def test_rearming_later_moves_the_deadline_and_has_one_queue_entry() -> None:
    timers, ran = Timers(), []
    for deadline in range(100, 5000):
        timers.arm("session", deadline, ran.append)
    assert len(timers._queue) == 1
    assert timers.next_deadline_ms() == 4999
    timers.run_due(4998)
    assert ran == []
    timers.run_due(4999)
    assert ran == [4999]


def test_rearming_earlier_fires_at_the_earlier_time_only() -> None:
    timers, ran = Timers(), []
    timers.arm("fetch", 500, lambda _: ran.append("late"))
    timers.arm("fetch", 50, lambda _: ran.append("early"))
    timers.run_due(1000)
    assert ran == ["early"]


def test_a_disarmed_timer_never_runs_and_its_key_can_be_armed_again() -> None:
    timers, ran = Timers(), []
    timers.arm("join", 10, lambda _: ran.append("first"))
    timers.disarm("join")
    timers.disarm("join")
    timers.arm("join", 20, lambda _: ran.append("second"))
    timers.run_due(15)
    assert ran == []
    timers.run_due(20)
    assert ran == ["second"]


def test_an_action_may_arm_a_timer_that_is_due_at_once() -> None:
    timers, ran = Timers(), []
    timers.arm("a", 10, lambda now_ms: timers.arm("b", now_ms, ran.append))
    assert timers.run_due(10) == 2
    assert ran == [10]


def test_timers_of_one_deadline_run_in_the_order_they_were_armed() -> None:
    timers, ran = Timers(), []
    for key in "cab":
        timers.arm(key, 7, lambda _, key=key: ran.append(key))
    timers.run_due(7)
    assert ran == ["c", "a", "b"]


def test_disarming_many_timers_does_not_leave_their_queue_entries() -> None:
    timers = Timers()
    for key in range(10_000):
        timers.arm(key, key, lambda _: None)
    for key in range(10_000):
        timers.disarm(key)
    assert len(timers._queue) < 100


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("arm"), st.integers(0, 5), st.integers(0, 100)),
            st.tuples(st.just("disarm"), st.integers(0, 5), st.just(0)),
        ),
        max_size=60,
    )
)
def test_timers_agree_with_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    timers, model, ran = Timers(), {}, []
    for verb, key, deadline in steps:
        if verb == "arm":
            model[key] = deadline
            timers.arm(key, deadline, lambda _, key=key: ran.append(key))
        else:
            model.pop(key, None)
            timers.disarm(key)
        assert timers.next_deadline_ms() == min(model.values(), default=None)
    timers.run_due(50)
    assert sorted(ran) == sorted(key for key, deadline in model.items() if deadline <= 50)


def test_a_timer_that_moves_retains_its_action_and_one_that_is_not_armed_does_not_move() -> None:
    timers, ran = Timers(), []
    assert not timers.move("session", 100)
    timers.arm("session", 500, ran.append)
    assert timers.move("session", 900)
    assert timers.move("session", 100)
    timers.run_due(100)
    assert ran == [100]
    timers.run_due(1000)
    assert ran == [100]
