"""KIP-951 behind a gateway that rewrites addresses: a node that does not lead a partition names the leader.

The answers are Apache Kafka's own; no client sees the address of a broker in them.
"""

from __future__ import annotations

import asyncio
from itertools import starmap

from interop.kafka_cluster import ApacheCluster
from interop.kohort_gateway import KohortGateway

from kohort.client import Admin
from kohort.model.errors import ErrorCode
from kohort.net.connection import Connection
from kohort.wire.messages import ProduceRequest, ProduceResponse
from kohort.wire.record_batches import Record, encode_batch

PARTITIONS = 6
Topic = ProduceRequest.TopicData


async def produce(port: int) -> ProduceResponse:
    """Send a record to every partition, whichever node leads it."""
    batch = encode_batch([Record(0, 0, b"key", b"value")])
    partitions = [Topic.PartitionData(index=number, records=memoryview(batch)) for number in range(PARTITIONS)]
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[Topic(name="moved", partition_data=partitions)])
    connection = await Connection.open("127.0.0.1", port, "producer")
    try:
        return await connection.call(request, highest=12)
    finally:
        connection.close()


def leads_its_partitions(node: int, answer: ProduceResponse) -> bool:
    """Return whether a node takes records of all partitions that it leads: it begins with one after the other."""
    found = [each for topic in answer.responses for each in topic.partition_responses]
    codes = {each.error_code for each in found}
    refused = {each.current_leader.leader_id for each in found if each.error_code and each.current_leader}
    return codes == {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER} and node not in refused


def test_leaders_that_an_answer_to_produce_names_are_shown_with_the_gateway_s_addresses() -> None:
    with ApacheCluster(2) as cluster, KohortGateway(cluster.bootstrap, nodes=(1, 2)) as gateway:

        async def scenario() -> dict[int, ProduceResponse]:
            async with Admin(gateway.bootstrap) as admin:
                await admin.create_topic("moved", PARTITIONS)
            while not all(starmap(leads_its_partitions, (answers := await produce_to_both()).items())):
                pass
            return answers

        async def produce_to_both() -> dict[int, ProduceResponse]:
            return {node: await produce(port) for node, port in gateway.node_ports.items()}

        answers = asyncio.run(scenario())
    for node, answer in answers.items():
        shown = {each.index: each for each in answer.responses[0].partition_responses}
        refused = [each for each in shown.values() if each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert refused, "each node leads some of the partitions only"
        other = 3 - node
        assert {each.current_leader.leader_id for each in refused if each.current_leader} == {other}
        addresses = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
        assert addresses == [(other, "127.0.0.1", gateway.node_ports[other])]
