"""`kohort run` as processes on a broker: each record once over clean stops, none lost by kills, probes, refusals."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.integration.commands import Commands

from kohort import Consumer, Producer
from kohort.testing import EmbeddedBroker

PATIENCE_S = 60

START = """
import asyncio, logging, os, threading
from contextlib import asynccontextmanager
from kohort import Record, Service

app = Service()
log = logging.getLogger("billing")
"""


class Programs:
    """Programs of a service in a folder; each test has topics of its own."""

    def __init__(self, kohort: Commands, folder: Path) -> None:
        self.kohort = kohort
        self.folder = folder

    def write(self, text: str, module: str = "billing") -> None:
        (self.folder / f"{module}.py").write_text(START + text, encoding="utf-8")

    def topic(self, name: str, records: int = 0) -> None:
        """Create a topic, with records of eleven keys, whose values are numbers."""
        assert self.kohort("topics", "create", name, "--partitions", "2").status == 0
        lines = b"".join(b'{"key": "k%d", "value": "%d"}\n' % (number % 11, number) for number in range(records))
        assert not records or self.kohort("produce", name, "--json", stdin=lines).status == 0

    @contextmanager
    def running(self, *options: str, service: str = "billing:app") -> Iterator[subprocess.Popen[bytes]]:
        # Without a buffer: `communicate` would not return what `readline` has read ahead.
        process = self.kohort.start("run", service, *options, cwd=self.folder, bufsize=0)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def ended(self, *options: str) -> tuple[int, str]:
        """Run a program that ends by itself; return its exit status and its stderr."""
        with self.running(*options) as process:
            _, err = process.communicate(timeout=PATIENCE_S)
            return process.returncode, err.decode()

    def committed(self, group: str) -> dict[str, int]:
        described = self.kohort("groups", "describe", group, "--json").json
        return {f"{each['topic']}-{each['partition']}": each["committed"] for each in described["offsets"]}


@pytest.fixture
def programs(kohort: Commands, tmp_path: Path) -> Programs:
    return Programs(kohort, tmp_path)


def lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().decode().strip() for _ in range(count)]


def rest(process: subprocess.Popen[bytes]) -> list[str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err.decode()
    return out.decode().split()


PRINTING = """
@app.consume("{0}", group_id="{0}", auto_offset_reset="earliest", concurrency=4)
{1} handle(record: Record) -> None:
    {2}
    os.write(1, record.value + b"\\n")
"""


@pytest.mark.parametrize(
    ("define", "wait"), [("async def", "await asyncio.sleep(0.002)"), ("def", "threading.Event().wait(0.02)")]
)
def test_each_record_is_handled_once_over_stops_by_signals(programs: Programs, define: str, wait: str) -> None:
    topic = f"once-{define[0]}"
    programs.topic(topic, 600)
    programs.write(PRINTING.format(topic, define, wait))
    handled: list[str] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with programs.running() as process:
            handled += lines(process, 150)
            process.send_signal(number)
            handled += rest(process)
    with programs.running() as process:
        handled += lines(process, 600 - len(handled))
        process.terminate()
        handled += rest(process)
    assert Counter(handled) == Counter(map(str, range(600)))


def test_no_record_is_lost_by_a_kill(programs: Programs) -> None:
    programs.topic("killed", 300)
    text = PRINTING.format("killed", "async def", "await asyncio.sleep(0.002)")
    programs.write(text.replace("concurrency=4", "concurrency=4, group_instance_id='one'"))
    with programs.running() as process:
        before = lines(process, 100)
        process.kill()
    missing = set(map(str, range(300))) - set(before)
    with programs.running() as process:
        while missing:
            missing -= set(lines(process, 1))


def test_a_second_signal_ends_the_process_at_once(programs: Programs) -> None:
    programs.topic("hanging", 1)
    programs.write(PRINTING.format("hanging", "async def", "print('begun', flush=True); await asyncio.Event().wait()"))
    with programs.running() as process:
        lines(process, 1)
        process.terminate()
        assert process.stderr is not None
        while b"stopping" not in process.stderr.readline():
            pass
        process.terminate()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("kind", "define", "wait"),
    [
        ("thread", "def", "threading.Event().wait()"),
        ("loop", "async def", "threading.Event().wait()"),
    ],
)
def test_a_handler_that_never_ends_does_not_outlive_the_bound(
    programs: Programs, kind: str, define: str, wait: str
) -> None:
    programs.topic(f"endless-{kind}", 1)
    programs.write(PRINTING.format(f"endless-{kind}", define, f"print('begun', flush=True); {wait}"))
    with programs.running("--stop-timeout", "300ms") as process:
        lines(process, 1)
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, b"although something still runs" in err) == (1, True), err.decode()


def test_a_handler_that_is_cancelled_at_the_bound_leaves_its_record_unfinished(programs: Programs) -> None:
    programs.topic("cancelled", 1)
    programs.write(
        PRINTING.format("cancelled", "async def", "print('begun', flush=True); await asyncio.Event().wait()")
    )
    with programs.running("--stop-timeout", "1s") as process:
        lines(process, 1)
        process.terminate()
        assert rest(process) == []
    assert sum(programs.committed("cancelled").values()) == 0


def test_a_failed_handler_ends_all_and_what_others_did_is_committed(programs: Programs) -> None:
    programs.topic("failing", 1)
    programs.topic("working", 5)
    programs.write("""
is_done = asyncio.Event()
done = []

@app.consume("working", group_id="working", auto_offset_reset="earliest")
async def work(record: Record) -> None:
    done.append(record)
    if len(done) == 5:
        is_done.set()

@app.consume("failing", group_id="failing", auto_offset_reset="earliest")
async def fail(record: Record) -> None:
    await is_done.wait()
    raise LookupError("no such customer")
""")
    status, err = programs.ended()
    assert status == 1
    assert "kohort: ended by LookupError: no such customer" in err
    assert "the record is unfinished, and comes again" in err
    assert sum(programs.committed("working").values()) == 5
    assert sum(programs.committed("failing").values()) == 0


def test_results_are_written_before_their_records_are_finished(programs: Programs) -> None:
    programs.topic("taken", 3)
    programs.kohort("topics", "create", "small", "--config", "max.message.bytes=100")
    programs.write("""
@app.consume("taken", group_id="taken", auto_offset_reset="earliest")
@app.produce("small", value_serializer=str.encode)
async def repeat(record: Record) -> str:
    return 1000 * record.value.decode()
""")
    status, err = programs.ended()
    assert (status, "MESSAGE_TOO_LARGE" in err or "small" in err) == (1, True)
    assert sum(programs.committed("taken").values()) == 0


@pytest.mark.parametrize("how", ["", ", exactly_once=True"])
def test_results_have_the_key_of_their_record_or_one_of_their_own(programs: Programs, how: str) -> None:
    numbers, doubled, even = (f"{name}-{len(how)}" for name in ("numbers", "doubled", "even"))
    for topic in (numbers, doubled, even):
        programs.topic(topic, 4 if topic == numbers else 0)
    programs.write(f"""
@app.produce("{even}", value_serializer=str.encode, key=lambda text: text[:1].encode())
@app.produce("{doubled}", value_serializer=str.encode)
@app.consume("{numbers}", group_id="{numbers}", auto_offset_reset="earliest"{how})
def double(record: Record) -> str | None:
    os.write(1, b"handled\\n")
    return None if record.value == b"0" else str(2 * int(record.value))
""")
    with programs.running() as process:
        lines(process, 4)
        process.terminate()
        rest(process)
    found = {
        topic: sorted(
            (each["key"], each["value"])
            for each in map(
                json.loads,
                programs.kohort("consume", topic, "--from-beginning", "--json", "--max", "3").out.splitlines(),
            )
        )
        for topic in (doubled, even)
    }
    assert found[doubled] == [("k1", "2"), ("k2", "4"), ("k3", "6")]
    assert found[even] == [("2", "2"), ("4", "4"), ("6", "6")]


def test_log_lines_are_objects_with_the_record_that_they_are_about(programs: Programs) -> None:
    programs.topic("logged", 1)
    programs.write("""
@app.consume("logged", group_id="tasks", auto_offset_reset="earliest")
async def task(record: Record) -> None:
    log.info("seen by %s", "task")

@app.consume("logged", group_id="threads", auto_offset_reset="earliest")
def thread(record: Record) -> None:
    try:
        raise OSError("no customer")
    except OSError:
        log.exception("seen by thread")
    print("handled", flush=True)
    raise OSError("again")
""")
    _, err = programs.ended("--log-format", "json")
    parsed = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    seen = {each["message"]: each for each in parsed if each["logger"] == "billing"}
    assert set(seen) == {"seen by task", "seen by thread"}
    for each in seen.values():
        assert (each["topic"], each["offset"], each["key"]) == ("logged", 0, "k0")
    assert "OSError: no customer" in seen["seen by thread"]["traceback"]
    assert not any("topic" in each for each in parsed if each["logger"] != "billing")


def test_probes_and_metrics_are_served_once_it_handles(programs: Programs) -> None:
    programs.topic("probed", 1)
    programs.write("""
@asynccontextmanager
async def pool():
    print("opened", flush=True)
    yield
    print("closed", flush=True)

app = Service(client_id="billing", lifespan=pool)

@app.consume("probed", group_id="probed", auto_offset_reset="earliest")
async def handle(record: Record) -> None:
    print("handled", flush=True)
    await asyncio.Event().wait()
""")
    with programs.running("--listen", "127.0.0.1:0", "--stop-timeout", "1s") as process:
        assert process.stderr is not None
        while b"probes" not in (line := process.stderr.readline()):
            pass
        address = line.split()[-1].decode()

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(address + path, timeout=PATIENCE_S) as answer:
                    return answer.status, answer.read().decode()
            except HTTPError as error:
                return error.code, error.read().decode()

        assert lines(process, 2) == ["opened", "handled"]
        assert get("/ready") == (200, "ready\n")
        assert get("/live") == (200, "live\n")
        metrics = get("/metrics")[1]
        assert 'kohort_consumer_handlers_running{client_id="billing-handle",group="probed"} 1\n' in metrics
        process.terminate()
        while b"stopping" not in process.stderr.readline():
            pass
        assert get("/ready") == (503, "stopping\n")
        assert rest(process) == ["closed"]


def test_a_process_without_a_broker_ends_with_a_sentence(programs: Programs) -> None:
    programs.write(PRINTING.format("t", "async def", "pass").replace("Service()", "Service('127.0.0.1:1')"))
    status, err = programs.ended("--bootstrap-server", "127.0.0.1:1")
    assert (status, "127.0.0.1:1" in err, "Traceback" in err) == (1, True, False), err


def test_the_cluster_of_the_command_goes_before_that_of_the_program(programs: Programs) -> None:
    programs.topic("elsewhere", 1)
    text = PRINTING.format("elsewhere", "async def", "pass")
    programs.write('app = Service("127.0.0.1:1", client_id="x")\n' + text)
    with programs.running() as process:
        assert lines(process, 1) == ["0"]


CONSUMING = '@app.consume("t", group_id="g")\nasync def handle(record): ...\n'


@pytest.mark.parametrize(
    ("text", "named", "status", "sentence"),
    [
        (None, "{}:app", 2, "there is no module '{}': run in the directory that has it, or set PYTHONPATH"),
        (None, "{}.inner:app", 2, "there is no module '{}': run in"),
        ("import notthere\n", "{}:app", 1, "module {} needs 'notthere', which is not installed"),
        ("1 / 0\n", "{}:app", 1, "module {} cannot be imported: ZeroDivisionError: division by zero"),
        (CONSUMING, "{}:ap", 2, "there is no object in module {}: 'ap': did you mean 'app'?"),
        (CONSUMING, "{}:log", 2, "{}:log is no kohort.Service but a Logger"),
        (CONSUMING, "./{}.py:app", 2, "is a file: name its module, as in `kohort run {}:app`"),
        ("del app\n", "{}", 2, "module {} has no kohort.Service: make one, `app = kohort.Service()`"),
        ("other = Service()\n", "{}", 2, "module {} has several services: name one, {}:app, {}:other"),
        ("", "{}", 2, "{} cannot be run: it handles nothing: decorate a function with"),
        ('@app.produce("t")\ndef f(r): ...\n' + CONSUMING, "{}", 2, "f has a produce and no consume"),
        ('@app.consume("t")\ndef f(r): ...\n', "{}", 1, "missing 1 required keyword-only argument: 'group_id'"),
        ('@app.consume(group_id="g")\ndef f(r): ...\n', "{}", 1, "consume names no topic"),
        ('@app.consume("t", group_id="g", concurrency=0)\ndef f(r): ...\n', "{}", 1, "concurrency=0"),
        ('@app.consume("t", group_id="g", offset_reset="x")\ndef f(r): ...\n', "{}", 1, "auto_offset_reset"),
        (
            '@app.produce("u")\n@app.consume("t", group_id="g", batch=9)\ndef f(r): ...\n',
            "{}",
            2,
            "f: produce is for handlers of one record",
        ),
        (
            '@app.produce("u")\n@app.consume("t", group_id="g", key_deserializer=str)\ndef f(r): ...\n',
            "{}",
            2,
            "f: key_deserializer makes keys of records: give produce('u') a key=",
        ),
        ('app = Service(client_ids="x")\n' + CONSUMING, "{}", 2, "did you mean 'client_id'?"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_do(
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    text: str | None,
    named: str,
    status: int,
    sentence: str,
) -> None:
    module = f"refused_{abs(hash(request.node.name))}"
    if text is not None:
        programs.write(text, module)
    monkeypatch.chdir(programs.folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    outcome = programs.kohort("run", named.format(module))
    assert outcome.status == status, outcome.err
    assert sentence.replace("{}", module) in outcome.err


def test_a_port_that_is_taken_is_refused(programs: Programs) -> None:
    programs.write(CONSUMING)
    status, err = programs.ended("--listen", programs.kohort.address)
    assert status == 1
    assert f"kohort: cannot listen on {programs.kohort.address}: " in err
    assert "address already in use: give another port with --listen" in err


def test_a_consumer_is_unready_until_it_has_joined_and_while_its_commits_fail() -> None:
    async def scenario() -> None:
        with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
            async with Producer(broker.bootstrap_servers) as producer:
                await producer.send_and_wait("t", b"1")
            consumer = Consumer(
                "t",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="g",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=50,
                request_timeout_ms=200,
            )
            assert consumer.unready() == "not started"
            await consumer.start()
            assert consumer.unready() == "joining group g"
            while not await consumer.poll(timeout_ms=100):
                pass
            assert consumer.unready() == ""
        async with asyncio.timeout(PATIENCE_S):
            while "the last commit failed: " not in consumer.unready():
                await consumer.poll(timeout_ms=50)
        await consumer.stop(timeout_ms=100)
        assert consumer.unready() == "stopping"

    asyncio.run(scenario())
