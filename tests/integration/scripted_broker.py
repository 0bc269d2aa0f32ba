"""A coordinator whose answers to one member a test writes down: for what no broker does on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests.unit.wire.responses import encode_response

from kohort.wire.apis import VERSIONS, Api, request_class
from kohort.wire.codec import decode
from kohort.wire.frames import decode_request_header
from kohort.wire.messages import (
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)

TOPIC_ID = b"t" * 16
SERVED = (
    Api.METADATA,
    Api.FIND_COORDINATOR,
    Api.OFFSET_COMMIT,
    Api.OFFSET_FETCH,
    Api.API_VERSIONS,
    Api.CONSUMER_GROUP_HEARTBEAT,
    Api.SASL_HANDSHAKE,
    Api.SASL_AUTHENTICATE,
)


class ScriptedBroker:
    """Knows one topic `t` of two partitions. `answers` say what it answers by API, given the request."""

    def __init__(self, answers: Mapping[Api, Callable[[Any], Any]]) -> None:
        self.asked: list[Any] = []
        self.answers = {
            Api.API_VERSIONS: self._versions,
            Api.METADATA: self._metadata,
            Api.FIND_COORDINATOR: self._coordinator,
            **answers,
        }

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def requests(self, kind: type) -> list[Any]:
        return [request for request in self.asked if isinstance(request, kind)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, position = decode_request_header(frame)
                request, _ = decode(request_class(Api(header.api_key)), header.api_version, frame, position)
                self.asked.append(request)
                answer = self.answers[Api(header.api_key)](request)
                writer.writelines(encode_response(answer, header.api_version, header.correlation_id))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _versions(self, request: object) -> ApiVersionsResponse:
        del request
        key = ApiVersionsResponse.ApiKey
        return ApiVersionsResponse(
            api_keys=[
                key(api_key=api, min_version=VERSIONS[api].lowest, max_version=VERSIONS[api].highest)
                for api in sorted({*SERVED, *self.answers})
            ]
        )

    def _metadata(self, request: object) -> MetadataResponse:
        del request
        topic = MetadataResponse.Topic
        partitions = [
            topic.Partition(partition_index=number, leader_id=0, replica_nodes=[0], isr_nodes=[0]) for number in (0, 1)
        ]
        return MetadataResponse(
            brokers=[MetadataResponse.Broker(node_id=0, host="127.0.0.1", port=self._port)],
            topics=[topic(name="t", topic_id=TOPIC_ID, partitions=partitions)],
        )

    def _coordinator(self, request: Any) -> FindCoordinatorResponse:
        found = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[
                found(key=key, node_id=0, host="127.0.0.1", port=self._port) for key in request.coordinator_keys
            ]
        )


def heartbeat_answer(epoch: int, *owned: int, error: int = 0, is_news: bool = True) -> ConsumerGroupHeartbeatResponse:
    """Return the answer of a coordinator that assigns these partitions of `t`."""
    assignment = ConsumerGroupHeartbeatResponse.Assignment
    part = assignment.TopicPartition(topic_id=TOPIC_ID, partitions=list(owned))
    return ConsumerGroupHeartbeatResponse(
        error_code=error,
        member_epoch=epoch,
        heartbeat_interval_ms=20,
        assignment=assignment(topic_partitions=[part] if owned else []) if is_news and not error else None,
    )
