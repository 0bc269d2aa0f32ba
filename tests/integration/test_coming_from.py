"""The guide for users of other clients: each line of ours runs, and each setting of theirs leads to ours."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import ssl
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

import kohort
from kohort import Admin, Consumer, CooperativeStickyAssignor, ErrorCode, KafkaError, Producer, Sasl, TopicPartition
from kohort.client import ResourceType
from kohort.testing import EmbeddedBroker

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "coming-from.md"
NAMES = {"json": json, "ssl": ssl, "CooperativeStickyAssignor": CooperativeStickyAssignor, "Sasl": Sasl}


class Line(NamedTuple):
    """A row of a table: what other clients call it, and what it is here."""

    theirs: tuple[str, ...]
    here: str

    @property
    def code(self) -> str | None:
        """Ours as a program has it, None where there is no counterpart."""
        return self.here.strip("`") if self.here.startswith("`") else None

    @property
    def settings(self) -> dict[str, Any]:
        """Ours as keywords."""
        found: dict[str, Any] = eval(f"dict({self.code})", NAMES)
        return found


def lines(section: str) -> list[Line]:
    """Return the rows of the table under a heading of the guide."""
    body = GUIDE.read_text(encoding="utf-8").split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1:-1] for line in body.splitlines() if line.startswith("|")][2:]
    assert all(len(row) == 4 for row in rows)
    return [Line(tuple(cell.strip() for cell in row[:3]), row[3].strip()) for row in rows]


def with_code(section: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("line", [line for line in lines(section) if line.code], ids=lambda line: line.here)


def names(line: Line) -> list[str]:
    """Return the settings that a row names, without remarks in parentheses."""
    return [name for cell in line.theirs for name in re.findall(r"`([a-z_.]+)`", re.sub(r" \(.*?\)", "", cell))]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as found:
        asyncio.run(write(found.bootstrap_servers, "orders", 2))
        yield found


async def write(bootstrap: str, topic: str, count: int) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topic(topic, partitions=1)
        for number in range(count):
            await producer.send(topic, b'{"n": %d}' % number, key=b"k")


@with_code("Settings of a consumer")
def test_a_setting_of_a_consumer_works(broker: EmbeddedBroker, line: Line) -> None:
    async def scenario() -> None:
        settings = {"group_id": line.here, "auto_offset_reset": "earliest"} | line.settings
        async with Consumer("orders", **settings | {"bootstrap_servers": broker.bootstrap_servers}) as consumer:
            assert await consumer.poll(20_000)

    asyncio.run(scenario())


@with_code("Settings of a producer")
def test_a_setting_of_a_producer_works(broker: EmbeddedBroker, line: Line) -> None:
    async def scenario() -> None:
        settings = line.settings
        key: Any = "k" if "key_serializer" in settings else b"k"
        value: Any = {"n": 0} if "value_serializer" in settings else b"{}"
        async with (
            Producer(**settings | {"bootstrap_servers": broker.bootstrap_servers}) as producer,
            producer.transaction() if "transactional_id" in settings else nullcontext(),
        ):
            assert (await (await producer.send("orders", value, key=key))).offset > 0

    asyncio.run(scenario())


@pytest.mark.parametrize("client", [Consumer, Producer, Admin])
def test_settings_of_security_work(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    (tmp_path / "client.pem").write_text(CERTIFICATE)
    (tmp_path / "client.key").write_text(KEY)
    table = [line.settings for line in lines("Security, for all three")]
    by_name = {name: value for settings in table for name, value in settings.items()}
    objects = {name: by_name.pop(name) for name in ("tls", "sasl")}
    for settings in (by_name, objects):
        pool = client(bootstrap_servers="127.0.0.1:1", **settings)._cluster.pool
        assert isinstance(pool.tls, ssl.SSLContext)
        assert pool.sasl == settings.get("sasl", Sasl("SCRAM-SHA-512", "ann", "secret"))


@pytest.mark.parametrize(
    ("client", "section"),
    [
        (Consumer, "Settings of a consumer"),
        (Producer, "Settings of a producer"),
        (Consumer, "Security, for all three"),
        (Producer, "Security, for all three"),
        (Admin, "Security, for all three"),
    ],
)
def test_a_setting_by_the_name_of_another_client_is_understood_or_leads_to_ours(client: Any, section: str) -> None:
    seen = 0
    for line in lines(section):
        ours = re.findall(r"(\w+)=", line.code or "")
        for name in names(line):
            seen += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    client(**{"bootstrap_servers": "127.0.0.1:1"} | {name: object()})
            except TypeError as refused:
                text = str(refused)
                if "has no setting" in text:
                    assert "did you mean" not in text, (name, text)
                    assert not ours or any(each in text for each in ours), (name, text)
            except ValueError:
                pass  # It is understood, and the value is not one of its.
    assert seen > 20


def compiled(code: str) -> CodeType:
    found: CodeType = compile(code, "<the guide>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return found


async def run(rows: list[Line], **known: Any) -> None:
    for line in rows:
        assert line.code is not None
        waits = eval(compiled(line.code), known)
        if waits is not None:
            await waits


def test_what_a_consumer_does_works(kohort_broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(kohort_broker.bootstrap_servers, "orders", 2)
        await write(kohort_broker.bootstrap_servers, "ordinary", 0)
        consumer = Consumer(
            bootstrap_servers=kohort_broker.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            max_poll_records=1,
            metadata_max_age_ms=100,
        )
        await run(lines("A consumer"), consumer=consumer, partition=TopicPartition("orders", 0))

    asyncio.run(scenario())


def test_what_a_producer_does_works(broker: EmbeddedBroker) -> None:
    asyncio.run(run(lines("A producer"), producer=Producer(broker.bootstrap_servers)))


def test_what_a_transaction_does_works(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        address = broker.bootstrap_servers
        producer = Producer(address, transactional_id="tx")
        partition = TopicPartition("orders", 0)
        async with producer, Consumer(bootstrap_servers=address, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            known = {"producer": producer, "consumer": consumer, "partition": partition}
            *rows, last = lines("A transaction")
            assert last.here == "`await transaction.abort()`"
            await run(rows, **known, transaction=producer.transaction())
            async with producer.transaction() as transaction:
                await run([last], transaction=transaction)
            assert (await consumer.committed([partition]))[partition].offset == 7

    asyncio.run(scenario())


def test_what_an_operator_does_works(kohort_broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(kohort_broker.bootstrap_servers, "orders", 2)
        partition = TopicPartition("orders", 0)
        async with Admin(kohort_broker.bootstrap_servers) as admin:
            await admin.create_topic("others", 1)
            await admin.reset_offsets("billing", {TopicPartition("others", 0): 0})
            await run(lines("An operator"), admin=admin, partition=partition, ResourceType=ResourceType)

    asyncio.run(scenario())


def test_the_errors_are_exported() -> None:
    for line in lines("Errors"):
        for name in re.findall(r"`(\w+)`", line.here):
            assert issubclass(getattr(kohort, name), KafkaError)
    assert "`KafkaError(ErrorCode.REQUEST_TIMED_OUT)`" in [line.here for line in lines("Errors")]
    assert KafkaError(ErrorCode.REQUEST_TIMED_OUT).code is ErrorCode.REQUEST_TIMED_OUT


# A self-signed certificate and its key, which "secret" opens: for nothing but to be loaded.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBjTCCATOgAwIBAgIUMM0MSOMX/7OBRlu2zD8jsPPRs+8wCgYIKoZIzj0EAwIw
GzEZMBcGA1UEAwwQYSB0ZXN0IG9mIGtvaG9ydDAgFw0yNjExMjIxODU1MDJaGA8y
MTI2MTAyOTE4NTUwMlowGzEZMBcGA1UEAwwQYSB0ZXN0IG9mIGtvaG9ydDBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABDX8yfDFvYwr34oycTKfXrIMKFp2svUykLKM
UKZhQIzqU7BPdKXEM/x6Nx8S+A78obgXzMikivI1o15e7I8//hWjUzBRMB0GA1Ud
DgQWBBQzstBnq//mE/T26Exiop55j0bILzAfBgNVHSMEGDAWgBQzstBnq//mE/T2
6Exiop55j0bILzAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIGkL
Nc/KVLt/5UyyjQ1G/70QJaliKRSxAzEc60OTah/FAiEA9SwUPfCCDaBbPZc0JuRv
uPqsKojylqP5BH7TR9N6Lso=
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjlqwaiY8WxawICA+gw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEOWCLl8Lgg8oRla1dbAi3TMEgZDZ
Tiatb1yBbJ2EjV5LE1sG7zFHt+La8zJz1fnSRJTA+ivq1mr7YPj22HJGDX6djSzw
iLKw/GJlojl2BnR2K+F1r5SaNuqHie4m0CJnnhkXDejUzgPo3Pmr+spPAL1itJrF
KUxMN4UNPe23jW5X0cMFWBrhkLUshADRZJKiyhfcRIDAGl1cza029exewX+kUrY=
-----END ENCRYPTED PRIVATE KEY-----
"""


@with_code("A service")
def test_a_line_of_a_service_works(broker: EmbeddedBroker, line: Line) -> None:
    async def scenario() -> None:
        handled = asyncio.Event()

        async def handler(_: Any) -> None:
            handled.set()

        consumer = Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id=line.here, auto_offset_reset="earliest"
        )
        known = {"consumer": consumer, "handler": handler, "Retry": kohort.Retry, "DeadLetter": kohort.DeadLetter}
        async with consumer, asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            is_stop = "stop" in line.here
            tasks.create_task(consumer.process(handler) if is_stop else run([line], **known))
            await handled.wait()
            await (run([line], **known) if is_stop else consumer.stop())

    asyncio.run(scenario())
