"""Fetch: read record batches, and wait for them.

v7 adds sessions (KIP-227); v9 fences by leader epoch (KIP-320); v12 finds diverged logs; v13 names topics by id
(KIP-516); v15 moves the replica's id into a tagged field; v16 hints at new leaders; v18 is for followers only.
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.fetch.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, Fetched
from kohort.node.fetch.long_poll import Fetch
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import FetchRequest, FetchResponse

API = Api.FETCH


def handle(context: ApiContext, request: Request, message: FetchRequest) -> Steps[FetchResponse | None]:
    """Answer at once when there is enough to read or something is wrong, else wait."""
    state = message.replica_state
    if message.replica_id >= 0 or (state is not None and state.replica_id >= 0):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker has no followers.")
    fetch = yield from _begin(context, request, message)
    if (yield from fetch.attempt()) or message.max_wait_ms <= 0 or (request.is_long and fetch.has_grown()):
        return (yield from fetch.response())
    fetch.park()
    return None


def refuse(message: FetchRequest, code: ErrorCode, text: str, version: int) -> FetchResponse:
    """Return an error at the top, where v7+ has a field for it, and for every partition before."""
    if version >= 7:
        return FetchResponse(error_code=code)
    result = FetchResponse.Response.Partition
    return FetchResponse(
        responses=[
            FetchResponse.Response(
                topic=topic.topic,
                partitions=[
                    result(partition_index=asked.partition, error_code=code, high_watermark=-1, records=b"")
                    for asked in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _begin(context: ApiContext, request: Request, message: FetchRequest) -> Steps[Fetch]:
    version, sessions = request.api_version, context.fetch_sessions
    if version >= 7 and message.session_epoch > FIRST_EPOCH:
        session = yield from sessions.resume(message, version, request.now_ms)
        return Fetch(context.services, request, message, session.partitions.values(), session, is_incremental=True)
    if message.session_id:
        sessions.close(message.session_id)
    if version >= 7 and message.session_epoch != FINAL_EPOCH:
        opened = yield from sessions.open(message, version, request.now_ms)
        if opened is not None:
            return Fetch(context.services, request, message, opened.partitions.values(), opened, is_incremental=False)
    fetched: dict[tuple[bytes | str, int], Fetched] = {}
    for topic in message.topics:
        yield 1
        key = topic.topic_id if version >= 13 else topic.topic
        for asked in topic.partitions:
            fetched[key, asked.partition] = Fetched(key, asked)
            yield 1
    return Fetch(context.services, request, message, fetched.values(), None, is_incremental=False)
