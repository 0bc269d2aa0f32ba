"""Whatever members of a group do, its log gives it back, however it was compacted; and no bytes can break a load."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.replay.compaction import compacted, hard_state, replayed
from tests.replay.test_consumer_group_log import Recorded
from tests.unit.group.mixed import ClassicClient, Client, NativeClient
from tests.unit.log.test_consumer_records import STORED, TOMBSTONES

from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.shard import Shard, apply
from kohort.log.offsets_topic import CorruptOffsetsRecord, Replay, record_of
from kohort.model.errors import KafkaError
from kohort.wire.record_batches import Record, encode_batch

VERBS = ["step"] * 6 + ["leave", "leave for a while", "commit", "narrow", "wait", "forget"]
DEEDS = st.tuples(st.integers(0, 4), st.sampled_from(VERBS))
PART = st.floats(0, 1)


def cast(world: Recorded) -> list[Client]:
    """Return members of every kind."""
    return [
        NativeClient(world, "native-1"),
        NativeClient(world, "native-2", topics=("t", "u")),
        NativeClient(world, "native-3", instance_id="i"),
        ClassicClient(world),
        ClassicClient(world, instance_id="j"),
    ]


def act(world: Recorded, client: Client, deed: str) -> None:
    is_in = client.epoch > 0 if isinstance(client, NativeClient) else client.is_settled
    match deed:
        case "leave" if is_in:
            client.leave()
        case "leave for a while" if is_in and isinstance(client, NativeClient) and client.instance_id:
            client.leave(-2)
        case "commit" if is_in:
            world.offset(client, client.epoch if isinstance(client, NativeClient) else client.generation)
        case "narrow" if is_in and isinstance(client, NativeClient):
            world.native(client.member_id, client.epoch, subscribed_topic_names=("u",), instance_id=client.instance_id)
        case "wait":
            world.advance(3_000)
        case "forget" if is_in:
            world.advance(47_000)
        case _:
            client.step()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deeds=st.lists(DEEDS, min_size=5, max_size=60), points=st.lists(st.tuples(PART, PART)))
def test_any_compaction_of_any_groups_log_gives_the_group(
    deeds: list[tuple[int, str]], points: list[tuple[float, float]]
) -> None:
    world = Recorded()
    clients = cast(world)
    for index, deed in deeds:
        act(world, clients[index], deed)
    rows = world.rows()
    expected = hard_state(replayed(rows, world.settings))
    if isinstance(world.shard.groups.get("g"), ConsumerGroup):
        assert expected == hard_state(world.shard)
    for clean, horizon in [(1.0, 1.0), (1.0, 0.0), *points]:
        cut = round(clean * len(rows))
        shard = replayed(compacted(rows, cut, round(horizon * cut)), world.settings)
        assert hard_state(shard) == expected


RECORDS = [record_of(event) for event in (*STORED, *(event for _, event in TOMBSTONES))]


@settings(max_examples=examples(600), deadline=None)
@given(
    row=st.sampled_from(RECORDS),
    at=PART,
    octets=st.binary(max_size=5),
    in_key=st.booleans(),
    size=st.integers(0, 5),
)
def test_record_with_any_bytes_changed_is_read_or_refused(
    row: tuple[bytes, bytes | None], at: float, octets: bytes, in_key: bool, size: int
) -> None:
    key, value = row
    whole = key if in_key or value is None else value
    position = round(at * len(whole))
    changed = whole[:position] + octets + whole[position + size :]
    key, value = (changed, value) if in_key or value is None else (key, changed)
    _load(encode_batch([Record(0, 0, key, value)]))


@settings(max_examples=examples(300), deadline=None)
@given(kind=st.integers(0, 24), key=st.binary(max_size=40), value=st.none() | st.binary(max_size=120))
def test_random_records_of_any_type_are_read_or_refused(kind: int, key: bytes, value: bytes | None) -> None:
    _load(encode_batch([Record(0, 0, kind.to_bytes(2, "big") + key, value)]))


@settings(max_examples=examples(300), deadline=None)
@given(at=PART, octets=st.binary(min_size=1, max_size=8))
def test_damaged_batch_is_read_or_refused(at: float, octets: bytes) -> None:
    batch = bytearray(encode_batch([Record(0, 0, *row) for row in RECORDS]))
    position = round(at * (len(batch) - len(octets)))
    batch[position : position + len(octets)] = octets
    _load(bytes(batch))


def _load(batch: bytes) -> Any:
    """Fold a batch as a load does; what it may raise is what a load reports."""
    shard = Shard(GroupSettings())
    replay = Replay()
    try:
        for event in replay.read(batch):
            apply(shard, event)
    except (CorruptOffsetsRecord, KafkaError, AssertionError):
        return
