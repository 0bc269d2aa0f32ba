"""Ranges of offsets as executors read them, from a broker that says what no broker says on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.scripted_broker import SERVED, ScriptedBroker

pytest.importorskip("pyarrow")

from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.rows.read_rows import read_rows
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange
from kohort.wire.apis import Api
from kohort.wire.compression import Compression
from kohort.wire.messages import FetchRequest, FetchResponse, ListOffsetsResponse, MetadataResponse
from kohort.wire.record_batches import ControlType, Record, control_record, encode_batch

ONLY = TopicPartition("t", 0)
FETCHED = FetchResponse.Response.Partition


def batch(base: int, rows: int, producer_id: int = -1, **more: Any) -> bytes:
    records = [Record(0, 0, None, b"%d" % (base + each)) for each in range(rows)]
    if producer_id >= 0:
        more |= {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}
    return encode_batch(records, base_offset=base, **more)


def marker(base: int, producer_id: int, kind: ControlType) -> bytes:
    return encode_batch(
        [control_record(kind, 0)],
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def answer(partition: FETCHED) -> FetchResponse:
    return FetchResponse(responses=[FetchResponse.Response(topic="t", partitions=[partition])])


class Leader:
    """Answers each Fetch by what a test says of it, and knows the first and next offsets."""

    def __init__(self, *says: Callable[[int], FETCHED], first: int = 0, end: int = 100) -> None:
        self.says = list(says)
        self.first, self.end = first, end
        self.asked: list[Any] = []

    def fetch(self, request: Any) -> FetchResponse:
        self.asked.append(request)
        say = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        return answer(say(request.topics[0].partitions[0].fetch_offset))

    def ends(self, request: Any) -> ListOffsetsResponse:
        wanted = request.topics[0].partitions[0].timestamp
        found = ListOffsetsResponse.Topic.Partition(offset=self.first if wanted == -2 else self.end)
        return ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[found])])

    def read(self, start: int, stop: int, **settings: Any) -> list[int]:
        """Return the offsets that a reader is given, which are what the values say."""

        async def scenario() -> list[int]:
            async with ScriptedBroker({Api.FETCH: self.fetch, Api.LIST_OFFSETS: self.ends}) as broker:
                return await asyncio.to_thread(lambda: list(self._rows(broker.address, start, stop, settings)))

        return asyncio.run(scenario())

    def _rows(self, address: str, start: int, stop: int, settings: dict[str, Any]) -> Iterator[int]:
        for rows in read_rows(ReadSettings(address, timeout_ms=5000, **settings), [OffsetRange(ONLY, start, stop)]):
            assert [int(value) for value in rows["value"].to_pylist()] == rows["offset"].to_pylist()
            yield from rows["offset"].to_pylist()


@pytest.fixture(autouse=True)
def reading_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.integration.scripted_broker.SERVED", (*SERVED, Api.FETCH, Api.LIST_OFFSETS))


def of_transactions(offset: int) -> FETCHED:
    """Two transactions run into each other: 7's is aborted at 6, 8's committed at 5, and then 7 commits one."""
    records = [
        batch(0, 2, 7, compression=Compression.GZIP),
        batch(2, 2, 8),
        batch(4, 1),
        marker(5, 8, ControlType.COMMIT),
        marker(6, 7, ControlType.ABORT),
        batch(7, 2, 7),
        marker(9, 7, ControlType.COMMIT),
    ]
    aborted = [FETCHED.AbortedTransaction(producer_id=7, first_offset=0)]
    if offset >= 7:
        records, aborted = records[5:], []
    return FETCHED(records=b"".join(records), aborted_transactions=aborted, high_watermark=10)


def test_what_a_transaction_took_back_is_not_read() -> None:
    leader = Leader(of_transactions)
    assert leader.read(0, 10, isolation="read_committed") == [2, 3, 4, 7, 8]
    assert {request.isolation_level for request in leader.asked} == {1}


def test_a_range_that_begins_after_an_abort_reads_what_came_later() -> None:
    assert Leader(of_transactions).read(8, 10, isolation="read_committed") == [8]


def test_uncommitted_reading_sees_every_record_but_no_marker() -> None:
    leader = Leader(of_transactions)
    assert leader.read(0, 10) == [0, 1, 2, 3, 4, 7, 8]
    assert {request.isolation_level for request in leader.asked} == {0}


def refused(code: ErrorCode) -> Callable[[int], FETCHED]:
    return lambda _: FETCHED(error_code=code, records=b"")


def held(offset: int) -> FETCHED:
    """Whole batches of ten, from the one that holds the offset."""
    return FETCHED(records=batch(offset - offset % 10, 10), high_watermark=100)


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_leader_that_moved_is_looked_up_and_asked_again(code: ErrorCode) -> None:
    leader = Leader(held, refused(code), held)
    assert leader.read(5, 25) == list(range(5, 25))


def test_offsets_that_retention_took_fail_with_the_range_that_is_left() -> None:
    leader = Leader(refused(ErrorCode.OFFSET_OUT_OF_RANGE), first=12)
    with pytest.raises(KafkaError, match="offset 5 of t-0 is out of range, the broker has 12 to 100") as lost:
        leader.read(5, 25)
    assert lost.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_offsets_that_may_be_lost_are_skipped_also_inside_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    leader = Leader(refused(ErrorCode.OFFSET_OUT_OF_RANGE), held, first=12)
    assert leader.read(5, 25, fail_on_data_loss=False) == list(range(12, 25))
    assert "t-0: offsets 5 to 11 are lost" in caplog.text


@pytest.mark.parametrize("first", [25, 40])
def test_a_range_that_is_gone_whole_has_no_rows(first: int) -> None:
    leader = Leader(refused(ErrorCode.OFFSET_OUT_OF_RANGE), first=first)
    assert leader.read(5, 25, fail_on_data_loss=False) == []


def test_a_log_that_ends_before_the_range_has_no_rows_of_it() -> None:
    leader = Leader(refused(ErrorCode.OFFSET_OUT_OF_RANGE), end=3)
    assert leader.read(5, 25, fail_on_data_loss=False) == []


def test_a_topic_that_was_deleted_may_be_lost_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedBroker, "_metadata", lambda *_: MetadataResponse(brokers=_brokers()))
    with pytest.raises(KafkaError, match="'t'"):
        Leader(held).read(5, 25)
    assert Leader(held).read(5, 25, fail_on_data_loss=False) == []


def _brokers() -> list[MetadataResponse.Broker]:
    return []


def test_a_replica_nearby_is_read_when_the_leader_names_it_and_the_leader_when_it_is_behind() -> None:
    leader = Leader(
        lambda _: FETCHED(records=b"", preferred_read_replica=0),
        refused(ErrorCode.OFFSET_OUT_OF_RANGE),
        held,
        first=0,
    )
    assert leader.read(5, 25, client_rack="a") == list(range(5, 25))
    assert {request.rack_id for request in leader.asked} == {"a"}


def test_a_replica_that_is_gone_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ScriptedBroker._metadata

    def with_another(broker: ScriptedBroker, request: object) -> MetadataResponse:
        found = known(broker, request)
        found.brokers.append(MetadataResponse.Broker(node_id=1, host="127.0.0.1", port=1))
        return found

    monkeypatch.setattr(ScriptedBroker, "_metadata", with_another)
    leader = Leader(lambda _: FETCHED(records=b"", preferred_read_replica=1), held)
    assert leader.read(5, 25, client_rack="a") == list(range(5, 25))


def test_one_answer_is_fetched_ahead_and_no_more() -> None:
    leader = Leader(held)

    async def scenario() -> list[int]:
        async with ScriptedBroker({Api.FETCH: leader.fetch}) as broker:

            def slowly() -> list[int]:
                seen = []
                for rows in read_rows(ReadSettings(broker.address), [OffsetRange(ONLY, 0, 50)]):
                    del rows
                    seen.append(len([each for each in leader.asked if isinstance(each, FetchRequest)]))
                return seen

            return await asyncio.to_thread(slowly)

    seen = asyncio.run(scenario())
    assert all(asked <= number + 2 for number, asked in enumerate(seen))
    assert len(leader.asked) == 5
