"""A topic and its groups, as the tests look at them from outside: batches in, committed offsets and members out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, TypeVar

from kohort.assign import RangeAssignor
from kohort.client import Admin, Cluster, Membership, MembershipSettings
from kohort.client.cluster.committed_offsets import fetch_committed
from kohort.member import MemberConfig
from kohort.member.inputs import Subscribed
from kohort.model.ids import TopicPartition
from kohort.net.blocking_connection import BlockingConnection
from kohort.spark.loop_thread import LoopThread
from kohort.wire.compression import Compression
from kohort.wire.messages import LeaveGroupRequest, ProduceRequest
from kohort.wire.record_batches import Record, encode_batch

T = TypeVar("T")

_numbers = itertools.count()


class Topic:
    """A topic of its own for one test, and the group that reads it."""

    def __init__(self, bootstrap_servers: str, name: str, partitions: int) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = name
        self.group_id = f"g-{name}"
        self.partitions = [TopicPartition(name, number) for number in range(partitions)]
        self.thread = LoopThread("tests")
        host, port = bootstrap_servers.rsplit(":", 1)
        self.connection = BlockingConnection(host, int(port), "tests")
        self.neighbours: list[tuple[Cluster, Membership]] = []

    def __enter__(self) -> Topic:
        self.run(self._create())
        return self

    def __exit__(self, *exc: object) -> None:
        for cluster, member in self.neighbours:
            self.run(member.stop())
            self.run(cluster.close())
        self.connection.close()
        self.thread.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.thread.call(work)

    def produce(self, partition: int, records: list[Record], compression: Compression = Compression.NONE) -> int:
        """Append one batch and return its first offset."""
        batch = encode_batch(records, compression=compression)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                ProduceRequest.TopicData(
                    name=self.name,
                    partition_data=[ProduceRequest.TopicData.PartitionData(index=partition, records=batch)],
                )
            ],
        )
        answer = self.connection.call(request, highest=12).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer.error_message
        return answer.base_offset

    def fill(self, rows: int) -> list[bytes]:
        """Append `rows` records with distinct values, spread over the partitions; return the values."""
        values = [b"value %d" % next(_numbers) for _ in range(rows)]
        for number in range(len(self.partitions)):
            mine = [Record(0, 1_700_000_000_000, b"key", value) for value in values[number :: len(self.partitions)]]
            if mine:
                self.produce(number, mine)
        return values

    def create_again(self) -> None:
        """Delete the topic, and create it again under its name."""
        self.run(self._create_again())

    def grow(self, rows: int) -> list[bytes]:
        """Add a partition with `rows` records; return their values."""
        number = len(self.partitions)
        self.run(self._grow(number + 1))
        self.partitions.append(TopicPartition(self.name, number))
        values = [b"value %d" % next(_numbers) for _ in range(rows)]
        self.produce(number, [Record(0, 1_700_000_000_000, b"key", value) for value in values])
        return values

    def delete_records(self, before: int) -> None:
        """Delete what is before an offset in each partition, as retention does."""
        self.run(self._delete_records(before))

    def committed(self) -> dict[int, int]:
        """The group's committed offsets by partition."""
        return self.run(self._committed())

    def commit(self, offsets: dict[int, int]) -> None:
        """Set the committed offsets of a group that has no members, as an admin would."""
        self.run(self._commit(offsets))

    def delete_group(self) -> None:
        """Delete the group, as retention does with one that is not used."""
        self.run(self._delete_group())

    def end(self) -> int:
        """How many offsets the partitions hold, those of open and aborted transactions included."""
        return self.run(self._end())

    def members(self) -> int:
        """How many members the group has."""
        return self.run(self._members())

    def wait_until_empty(self) -> None:
        """Wait until the group has no members."""
        self.run(self._wait_until_empty())

    def remove_member(self, member_id: str) -> None:
        """Take a member out of the group behind its back, as an admin would."""
        members = [LeaveGroupRequest.Member(member_id=member_id)]
        answer = self.connection.call(LeaveGroupRequest(group_id=self.group_id, members=members))
        assert answer.error_code == 0

    def join(self) -> Membership:
        """Start another member of the group and return at once."""
        return self.run(self._join())

    async def _create_again(self) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            await admin.delete_topic(self.name)
        await self._create()

    async def _create(self) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            # Records bear a time long past: a broker must not take that for a reason to delete them.
            await admin.create_topic(self.name, partitions=len(self.partitions), configs={"retention.ms": "-1"})

    async def _grow(self, count: int) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            await admin.create_partitions(self.name, count)

    async def _committed(self) -> dict[int, int]:
        async with Cluster(self.bootstrap_servers) as cluster:
            found = await fetch_committed(cluster, self.group_id, self.partitions)
        return {each.partition: entry.offset for each, entry in found.items()}

    async def _commit(self, offsets: dict[int, int]) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            await admin.reset_offsets(self.group_id, {self.partitions[each]: at for each, at in offsets.items()})

    async def _delete_group(self) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            await admin.delete_group(self.group_id)

    async def _delete_records(self, before: int) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            await admin.delete_records(dict.fromkeys(self.partitions, before))

    async def _end(self) -> int:
        async with Admin(self.bootstrap_servers) as admin:
            found = await admin.list_offsets(dict.fromkeys(self.partitions, "latest"))
        return sum(each.offset for each in found.values() if each is not None)

    async def _members(self) -> int:
        async with Admin(self.bootstrap_servers) as admin:
            described = await admin.describe_groups([self.group_id])
        return len(described[self.group_id].members)

    async def _wait_until_empty(self) -> None:
        async with asyncio.timeout(40):  # less than the session timeout
            while await self._members():
                pass

    async def _join(self) -> Membership:
        cluster = Cluster(self.bootstrap_servers)
        await cluster.start()
        settings = MembershipSettings(MemberConfig(heartbeat_interval_ms=100), [RangeAssignor()])
        member = Membership(cluster, self.group_id, Subscribed((self.name,)), settings)
        await member.start()
        self.neighbours.append((cluster, member))
        return member


async def wait_until_assigned(member: Membership, count: int) -> None:
    """Wait until a member owns `count` partitions."""
    await member.wait_for(lambda: len(member.assignment) == count, timeout_ms=30_000)
