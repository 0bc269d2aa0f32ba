"""A broker inside a test: started, stopped, killed and started again from wherever a test runner calls it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, Producer, TopicPartition, assignor, sync
from kohort.assign import GroupSpec
from kohort.model.setting import SettingsError
from kohort.net.event_loop import new_event_loop
from kohort.testing import EmbeddedBroker

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, new_event_loop]
each_loop = pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "fast"])
ONLY = TopicPartition("t", 0)


async def write(broker: EmbeddedBroker, value: bytes) -> int:
    async with Producer(broker.bootstrap_servers) as producer:
        return (await (await producer.send("t", value))).offset


@each_loop
def test_it_is_stopped_killed_and_started_inside_a_running_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def test() -> None:
        broker = EmbeddedBroker(tmp_path).start()
        assert await write(broker, b"0") == 0
        address = broker.bootstrap_servers
        for end in (broker.stop, broker.kill):
            end()
            assert not broker.is_running
            end()
            assert broker.start().bootstrap_servers == address
        assert await write(broker, b"1") == 1
        with EmbeddedBroker() as other:
            assert await write(other, b"0") == 0
        broker.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(test())


@each_loop
def test_it_ends_in_a_loop_whose_own_clients_are_still_connected(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        broker = EmbeddedBroker(group_initial_rebalance_delay_ms=0).start()
        async with Producer(broker.bootstrap_servers) as producer:
            await (await producer.send("t", b"0"))
            async with Consumer(
                "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer:
                assert await consumer.poll(20_000)
                broker.kill()
                broker.start()
                assert (await (await producer.send("t", b"1"))).offset in (1, -1)
        broker.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(test())


def test_an_async_fixture_is_set_up_and_torn_down_in_turns_of_one_loop_as_pytest_asyncio_does() -> None:
    async def fixture() -> AsyncIterator[EmbeddedBroker]:
        with EmbeddedBroker() as broker:
            yield broker

    loop = asyncio.new_event_loop()
    try:
        generator = fixture()
        broker = loop.run_until_complete(anext(generator))
        assert loop.run_until_complete(write(broker, b"0")) == 0
        with pytest.raises(StopAsyncIteration):
            loop.run_until_complete(anext(generator))
        assert not broker.is_running
    finally:
        loop.close()


def test_an_async_fixture_lives_in_one_task_and_the_test_in_another_as_anyio_does() -> None:
    async def test() -> None:
        ready: asyncio.Future[EmbeddedBroker] = asyncio.get_running_loop().create_future()
        done = asyncio.Event()

        async def fixture() -> None:
            with EmbeddedBroker() as broker:
                ready.set_result(broker)
                await done.wait()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fixture())
            broker = await ready
            assert await write(broker, b"0") == 0
            done.set()
        assert not broker.is_running

    asyncio.run(test())


def test_one_plain_thread_starts_it_and_another_stops_it() -> None:
    broker = EmbeddedBroker()

    def in_a_thread(call: Callable[[], object]) -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    in_a_thread(broker.start)
    with sync.Producer(broker.bootstrap_servers) as producer:
        assert producer.send("t", b"0").result().offset == 0
    in_a_thread(broker.stop)
    assert not broker.is_running
    assert not Path(broker.data_dir).exists(), "it was the broker's own"


def test_a_broker_that_is_started_again_has_the_assignors_that_it_was_given(tmp_path: Path) -> None:
    asked: list[int] = []

    @assignor(name="mine", cooperative=True)
    def mine(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
        asked.append(len(spec.members))
        return {member: [] for member in spec.members}

    async def join(broker: EmbeddedBroker) -> None:
        before = len(asked)  # A consumer joins as soon as it starts, before its first poll.
        async with (
            Admin(broker.bootstrap_servers) as admin,
            Consumer(
                "t",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="g",
                group_protocol="consumer",
                group_remote_assignor="mine",
            ) as consumer,
        ):
            if not await admin.list_topics():
                await admin.create_topic("t", 1)
            while len(asked) == before:
                await consumer.poll(10)

    with EmbeddedBroker(tmp_path, assignors=iter([mine])) as broker:
        for end in (broker.stop, broker.kill):
            asyncio.run(join(broker))
            end()
            broker.start()
        asyncio.run(join(broker))


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"num_partition": 3}, TypeError, "the broker has no setting 'num.partition'; did you mean 'num.partitions'?"),
        ({"num.partition": 3}, TypeError, "did you mean 'num.partitions'?"),
        ({"xyzzy": 3}, TypeError, "has no setting 'xyzzy'"),
        ({"num_partitions": "three"}, SettingsError, "num.partitions"),
        ({"num_partitions": None}, SettingsError, "num.partitions"),
        ({"port": "9092"}, TypeError, "port='9092' is no whole number"),
        ({"assignors": "uniform"}, TypeError, "assignors='uniform' is a str"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused(settings: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as refused:
        EmbeddedBroker(**settings)
    assert text in str(refused.value)


def test_a_process_that_was_forked_off_says_so_and_leaves_the_brokers_directory_alone() -> None:
    program = """
        import atexit, os, sys
        from pathlib import Path
        from kohort.sync import Producer
        from kohort.testing import EmbeddedBroker

        broker = EmbeddedBroker().start()
        child = os.fork()
        if child == 0:
            for call in (broker.stop, broker.kill, broker.start):
                try:
                    call()
                except RuntimeError as error:
                    assert "where it was made" in str(error), error
                else:
                    os._exit(1)
            atexit._run_exitfuncs()
            os._exit(0)  # A forked interpreter that frees a uvloop server ends by a segmentation fault of uvloop's.
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert Path(broker.data_dir).exists()
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"x").result()
        broker.stop()
        assert not Path(broker.data_dir).exists()
        """
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stderr


def test_the_session_s_broker_is_one_for_all_tests_and_takes_settings(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        textwrap.dedent(
            """
            import pytest

            @pytest.fixture(scope="session")
            def kohort_session_settings():
                return {"num_partitions": 3}
            """
        )
    )
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            from kohort.sync import Admin, Producer

            def test_first(kohort_session_broker, kohort_broker):
                assert kohort_session_broker is not kohort_broker
                with Producer(kohort_session_broker.bootstrap_servers) as producer:
                    producer.send("t", b"x").result()

            def test_second(kohort_session_broker):
                with Admin(kohort_session_broker.bootstrap_servers) as admin:
                    assert len(admin.describe_topics(["t"])["t"].partitions) == 3
            """
        )
    )
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--assert=plain"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "2 passed" in outcome.stdout, outcome.stdout + outcome.stderr
