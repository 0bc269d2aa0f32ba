"""KIP-951 behind a gateway that rewrites addresses: a node that does not lead a partition names the leader.

The answers are Apache Kafka's own; no client sees the address of a broker in them.
"""

from __future__ import annotations

import asyncio

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


def knows_the_topic(answer: ProduceResponse) -> bool:
    """Return whether a node has learnt who leads which partition: it does so a moment after the topic was made."""
    codes = {each.error_code for topic in answer.responses for each in topic.partition_responses}
    return codes == {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_leaders_that_an_answer_to_produce_names_are_shown_with_the_gateway_s_addresses() -> None:
    with ApacheCluster(2) as cluster, KohortGateway(cluster.bootstrap, nodes=(1, 2)) as gateway:

        async def scenario() -> dict[int, ProduceResponse]:
            async with Admin(gateway.bootstrap) as admin:
                await admin.create_topic("moved", PARTITIONS)
            while not all(map(knows_the_topic, answers := await produce_to_both())):
                pass
            return dict(zip(gateway.node_ports, answers, strict=True))

        async def produce_to_both() -> list[ProduceResponse]:
            return [await produce(port) for port in gateway.node_ports.values()]

        answers = asyncio.run(scenario())
    for node, answer in answers.items():
        shown = {each.index: each for each in answer.responses[0].partition_responses}
        refused = [each for each in shown.values() if each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert refused, "each node leads some of the partitions only"
        other = 3 - node
        assert {each.current_leader.leader_id for each in refused if each.current_leader} == {other}
        addresses = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
        assert addresses == [(other, "127.0.0.1", gateway.node_ports[other])]
