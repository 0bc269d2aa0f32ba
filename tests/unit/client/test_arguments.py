"""What a program passes by mistake is refused by the argument's name, before a client sends anything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kohort import Admin, Consumer, OffsetAndMetadata, TopicPartition
from kohort.client.arguments import bootstrap_addresses, by_partition, topic_partitions
from kohort.client.cluster.committed_offsets import committable

ONLY = TopicPartition("t", 0)
Call = Callable[[Any], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda admin: admin.create_topic(b"t"), TypeError, "topic=b't' is a bytes: expected a str"),
        (lambda admin: admin.create_topic(""), ValueError, "topic is empty"),
        (lambda admin: admin.create_topic("t", "3"), TypeError, "partitions='3' is a str: expected a whole number"),
        (lambda admin: admin.create_topic("t", 0), ValueError, "partitions=0: expected a whole number from 1"),
        (lambda admin: admin.create_topic("t", 1, 2**20), ValueError, "replication_factor=1048576: expected"),
        (lambda admin: admin.create_topic("t", 1, 1, [("a", "b")]), TypeError, "expected a dict of names and values"),
        (lambda admin: admin.create_topic("t", 1, 1, {"a": [1]}), TypeError, "a=[1] is a list: expected a str"),
        (lambda admin: admin.delete_topic(None), TypeError, "topic=None: expected a str"),
        (lambda admin: admin.create_partitions("t", 1.0), TypeError, "count=1.0 is a float"),
        (lambda admin: admin.describe_topics("t"), TypeError, "names='t' is a str: expected a list"),
        (lambda admin: admin.describe_topics([7]), TypeError, "one of names=7 is an int"),
        (lambda admin: admin.list_offsets([ONLY]), TypeError, "expected a dict by TopicPartition"),
        (lambda admin: admin.list_offsets({"t": "latest"}), TypeError, "a key of wanted='t' is a str"),
        (lambda admin: admin.list_offsets({ONLY: "newest"}), ValueError, "'newest' is not 'earliest', 'latest'"),
        (lambda admin: admin.list_offsets({("t", "0"): 1}), TypeError, "partition='0' is a str"),
        (lambda admin: admin.delete_records({ONLY: "7"}), TypeError, "offset='7' is a str"),
        (lambda admin: admin.describe_configs("topic", "t"), ValueError, "kind='topic' is no ResourceType: TOPIC"),
        (lambda admin: admin.describe_configs(4, "one"), ValueError, "name='one' is no broker's id"),
        (lambda admin: admin.alter_configs(2, "t", None), TypeError, "changes=None: expected a dict"),
        (lambda admin: admin.describe_groups("g"), TypeError, "group_ids='g' is a str: expected a list"),
        (lambda admin: admin.list_groups(types="classic"), TypeError, "types='classic' is a str: expected a list"),
        (lambda admin: admin.delete_group(7), TypeError, "group_id=7 is an int: expected a str"),
        (lambda admin: admin.group_offsets("g", ONLY), TypeError, "is a TopicPartition: expected a list"),
        (
            lambda admin: admin.reset_offsets("g", {ONLY: -5}),
            ValueError,
            "the offset of t-0=-5: expected",
        ),
        (lambda admin: admin.reset_offsets("g", {ONLY: None}), TypeError, "the offset of t-0=None"),
        (lambda admin: admin.delete_offsets("g", [("t",)]), TypeError, "expected a TopicPartition"),
    ],
)
def test_an_admin_refuses_what_cannot_be_meant(call: Call, kind: type[Exception], text: str) -> None:
    async def scenario() -> None:
        await call(Admin("127.0.0.1:1"))

    with pytest.raises(kind, match=re.escape(text)):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda consumer: consumer.subscribe(7), TypeError, "topics=7 is an int: expected a topic, or a list"),
        (lambda consumer: consumer.subscribe(""), ValueError, "topic is empty"),
        (lambda consumer: consumer.subscribe(["t" * 250]), ValueError, "topic is longer than 249 characters"),
        (lambda consumer: consumer.subscribe(["t\ud800"]), ValueError, "which UTF-8 cannot carry"),
        (lambda consumer: consumer.pause(ONLY), TypeError, "is a TopicPartition: expected a list"),
        (lambda consumer: consumer.resume("t"), TypeError, "partitions='t' is a str: expected a list"),
        (lambda consumer: consumer.seek("t", 0), TypeError, "partition='t' is a str: expected a TopicPartition"),
        (lambda consumer: consumer.seek(ONLY, "0"), TypeError, "offset='0' is a str: expected a whole number"),
        (lambda consumer: consumer.seek(ONLY, -2), ValueError, "use seek_to_beginning or seek_to_end"),
        (lambda consumer: consumer.seek_to_end(["t"]), TypeError, "one of partitions='t' is a str"),
        (lambda consumer: consumer.position(("t", "0")), TypeError, "partition='0' is a str"),
        (lambda consumer: consumer.committed(None), TypeError, "partitions=None: expected a list"),
        (lambda consumer: consumer.end_offsets([b"t"]), TypeError, "one of partitions=b't' is a bytes"),
        (lambda consumer: consumer.offsets_for_times([ONLY]), TypeError, "expected a dict by TopicPartition"),
        (lambda consumer: consumer.offsets_for_times({ONLY: 1.5}), TypeError, "a time in milliseconds=1.5 is a float"),
    ],
)
def test_a_consumer_refuses_what_cannot_be_meant(call: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    async def scenario() -> None:
        found = call(Consumer(bootstrap_servers="127.0.0.1:1", group_id="g"))
        if found is not None:
            await found

    with pytest.raises(kind, match=re.escape(text)):
        asyncio.run(scenario())


def test_other_clients_partitions_are_tuples_and_stand_for_ours() -> None:
    assert topic_partitions([("t", 0), ONLY]) == [ONLY]  # type: ignore[list-item]
    [found] = by_partition("offsets", {("t", 0): 7})  # type: ignore[dict-item]
    assert type(found) is TopicPartition


@pytest.mark.parametrize(
    "offsets",
    [
        {ONLY: 1.5},
        {ONLY: True},
        {ONLY: OffsetAndMetadata("7")},
        {ONLY: OffsetAndMetadata(7, b"note")},
        [ONLY],
        {"t": 7},
    ],  # type: ignore[arg-type]
)
def test_what_is_no_position_is_not_committed(offsets: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a"):
        committable(offsets)


def test_a_position_is_an_offset_with_or_without_a_note() -> None:
    noted = OffsetAndMetadata(7, "note", 3)
    assert committable({ONLY: 7, TopicPartition("t", 1): noted}) == {
        ONLY: OffsetAndMetadata(7),
        TopicPartition("t", 1): noted,
    }


def test_partitions_of_ones_own_choice_are_partitions() -> None:
    consumer = Consumer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(TypeError, match="expected a list"):
        consumer.assign(ONLY)
    with pytest.raises(TypeError, match="expected a TopicPartition"):
        consumer.assign(["t"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:9092", [("h", 9092)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://h:9092", [("h", 9092)]),
    ],
)
def test_addresses_are_host_and_port(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert bootstrap_addresses(text) == expected


@pytest.mark.parametrize("text", ["h", "h:", ":9092", "h:port", "h:0", "h:70000"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"bootstrap_servers='{text}': expected HOST:PORT"):
        bootstrap_addresses(text)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        bootstrap_addresses("")
