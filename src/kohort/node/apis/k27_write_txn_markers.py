"""WriteTxnMarkers: end transactions in partitions, as other coordinators and `kafka-transactions abort` ask for it.

v2 names the version of the transaction (KIP-890). A marker that comes again changes nothing.
"""

from __future__ import annotations

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.transaction.effects import WriteMarkers
from kohort.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

_Marker = WriteTxnMarkersResponse.Marker


def write_txn_markers(
    context: ApiContext, request: Request, message: WriteTxnMarkersRequest
) -> Steps[WriteTxnMarkersResponse]:
    """Write each marker to each of its partitions."""
    del request
    response = WriteTxnMarkersResponse(markers=[])
    for asked in message.markers:
        yield 1
        answered = _Marker(producer_id=asked.producer_id, topics=[])
        response.markers.append(answered)
        markers = WriteMarkers(
            "",
            asked.producer_id,
            asked.producer_epoch,
            asked.transaction_result,
            frozenset(),
            asked.transaction_version,
        )
        for topic in asked.topics:
            yield 1
            partitions = []
            for index in topic.partition_indexes:
                error = _write(context, markers, asked.coordinator_epoch, topic.name, index)
                partitions.append(_Marker.Topic.Partition(partition_index=index, error_code=error))
                yield 4
            answered.topics.append(_Marker.Topic(name=topic.name, partitions=partitions))
    return response


def refuse_write_txn_markers(
    message: WriteTxnMarkersRequest, code: ErrorCode, text: str, version: int
) -> WriteTxnMarkersResponse:
    """Return an error for each partition."""
    del text, version
    return WriteTxnMarkersResponse(
        markers=[
            _Marker(
                producer_id=asked.producer_id,
                topics=[
                    _Marker.Topic(
                        name=topic.name,
                        partitions=[
                            _Marker.Topic.Partition(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in asked.topics
                ],
            )
            for asked in message.markers
        ]
    )


def _write(context: ApiContext, markers: WriteMarkers, coordinator_epoch: int, topic: str, index: int) -> ErrorCode:
    try:
        partition = context.topics.find_partition(topic, index)
        context.transactions.markers.end(partition, markers, coordinator_epoch)
    except KafkaError as error:
        return error.code
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
