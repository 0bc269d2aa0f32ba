"""Fetch: read record batches, and wait for them (KIP-41's long poll, KIP-74's limits).

v7 adds sessions (KIP-227); v9 fences by leader epoch (KIP-320); v12 finds diverged logs; v13 names topics by id
(KIP-516); v15 moves the replica's id into a tagged field; v16 hints at new leaders; v18 is for followers only.
Records are views of the log and are never copied. A fetch that waits is counted down by appends and reads
again when it wakes.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.log.disk import StorageError
from kohort.log.partition_log import OffsetOutOfRange
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, Fetched, FetchSession
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition
from kohort.wire.messages import FetchRequest, FetchResponse


def fetch(context: ApiContext, request: Request, message: FetchRequest) -> Steps[FetchResponse | None]:
    """Answer at once when there is enough to read or something is wrong, else wait."""
    state = message.replica_state
    if message.replica_id >= 0 or (state is not None and state.replica_id >= 0):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker has no followers.")
    fetch = yield from _begin(context, request, message)
    if (yield from fetch.attempt()) or message.max_wait_ms <= 0 or (request.is_long and fetch.has_grown()):
        return (yield from fetch.response())
    fetch.park()
    return None


def refuse_fetch(message: FetchRequest, code: ErrorCode, text: str, version: int) -> FetchResponse:
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
        return Fetch(context, request, message, session.partitions.values(), session, is_incremental=True)
    if message.session_id:
        sessions.close(message.session_id)
    if version >= 7 and message.session_epoch != FINAL_EPOCH:
        opened = yield from sessions.open(message, version, request.now_ms)
        if opened is not None:
            return Fetch(context, request, message, opened.partitions.values(), opened, is_incremental=False)
    fetched: dict[tuple[bytes | str, int], Fetched] = {}
    for topic in message.topics:
        yield 1
        key = topic.topic_id if version >= 13 else topic.topic
        for asked in topic.partitions:
            fetched[key, asked.partition] = Fetched(key, asked)
            yield 1
    return Fetch(context, request, message, fetched.values(), None, is_incremental=False)


_Result = FetchResponse.Response.Partition
_READ_COMMITTED = 1


class Fetch:
    """A fetch under way: `attempt` once, and park if it has not found enough."""

    def __init__(
        self,
        context: ApiContext,
        request: Request,
        message: FetchRequest,
        fetched: Iterable[Fetched],
        session: FetchSession | None,
        *,
        is_incremental: bool,
    ) -> None:
        services = context.services
        self._context = context
        self._timers = services.timers
        self._durability = services.durability
        self._request = request
        self._message = message
        self._fetched = list(fetched)
        self._session = session
        self._is_incremental = is_incremental
        self._max_bytes = min(message.max_bytes, services.config.fetch_max_bytes)
        self._ends: dict[Partition, int] = {}
        """The partitions that could be read, and where they ended."""
        self._results: list[tuple[Fetched, _Result, int]] = []
        self._has_error = False
        self.is_committed = message.isolation_level == _READ_COMMITTED
        """Whether it reads nothing of open transactions."""
        self.missing_bytes = 0
        """How many bytes must still arrive before the fetch is answered."""

    def attempt(self) -> Steps[bool]:
        """Read every partition; return whether that is enough to answer."""
        left, total = self._max_bytes, 0
        self._results, self._ends, self._has_error = [], {}, False
        for fetched in self._fetched:
            result, size = self._read(fetched, left, is_first=total == 0)
            total += size
            left -= size
            self._results.append((fetched, result, size))
            yield 1
        self.missing_bytes = self._message.min_bytes - total
        return self.missing_bytes <= 0 or self._has_error or not self._fetched

    def has_grown(self) -> bool:
        """Whether there is more to read by now."""
        return any(
            (partition.log.last_stable_offset if self.is_committed else partition.log.high_watermark) > end
            for partition, end in self._ends.items()
        )

    def park(self) -> None:
        """Wait for records, for at most the time that the client allows."""
        for partition in self._ends:
            partition.waiters[self] = None
        self._request.dropped = self._leave
        self._timers.arm(self, self._request.now_ms + self._message.max_wait_ms, self.complete)

    def complete(self, now_ms: int) -> None:  # noqa: ARG002
        """Answer with what there is now."""
        self._leave()
        self._request.server.proceed(self._request, self._answer())

    def _answer(self) -> Steps[FetchResponse]:
        yield from self.attempt()
        return (yield from self.response())

    def response(self) -> Steps[FetchResponse]:
        """Return the answer; an incremental one leaves out the partitions about which there is nothing new."""
        by_topic: dict[bytes | str, list[_Result]] = {}
        session = self._session
        for fetched, result, size in self._results:
            yield 1
            if self._is_incremental and not size and not result.error_code and not _has_changed(fetched, result):
                continue
            if session is not None:
                fetched.high_watermark = -2 if result.error_code else result.high_watermark
                fetched.log_start_offset = result.log_start_offset
                if size:
                    # What was served goes to the end, so that a busy partition does not starve the others.
                    key = (fetched.topic, fetched.partition)
                    if session.partitions.pop(key, None) is not None:
                        session.partitions[key] = fetched
            by_topic.setdefault(fetched.topic, []).append(result)
        topic = FetchResponse.Response
        return FetchResponse(
            session_id=0 if session is None else session.session_id,
            responses=[
                topic(topic_id=key, partitions=results)
                if isinstance(key, bytes)
                else topic(topic=key, partitions=results)
                for key, results in by_topic.items()
            ],
        )

    def _leave(self) -> None:
        self._timers.disarm(self)
        self._durability.woken.pop(self, None)
        for partition in self._ends:
            partition.waiters.pop(self, None)

    def _read(self, fetched: Fetched, left: int, *, is_first: bool) -> tuple[FetchResponse.Response.Partition, int]:
        result = _Result(partition_index=fetched.partition, high_watermark=-1, records=b"")
        try:
            topic = self._context.find_topic(self._request, api_checks.FETCH_TOPIC, fetched.topic)
            partition = topic.partition(fetched.partition)
            return result, self._read_log(partition, fetched.asked, result, left, is_first)
        except StorageError as error:
            self._context.state.disk_health.unreadable(error)
            set_error(result, error)
        except KafkaError as error:
            set_error(result, error)
        self._has_error = True
        return result, 0

    def _read_log(
        self,
        partition: Partition,
        asked: FetchRequest.Topic.Partition,
        result: FetchResponse.Response.Partition,
        left: int,
        is_first: bool,
    ) -> int:
        partition.check_leader_epoch(asked.current_leader_epoch)
        log = partition.log
        is_committed = self.is_committed
        end = log.last_stable_offset if is_committed else log.high_watermark
        if asked.last_fetched_epoch >= 0 and self._diverges(partition, asked, result):
            return 0
        if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            raise OffsetOutOfRange
        result.high_watermark, result.last_stable_offset = log.high_watermark, log.last_stable_offset
        result.log_start_offset = log.log_start_offset
        if not is_committed:
            result.aborted_transactions = None
        self._ends[partition] = end
        max_bytes = min(asked.partition_max_bytes, left)
        if asked.fetch_offset >= end or (max_bytes <= 0 and not is_first):
            return 0
        views = log.read(asked.fetch_offset, max_bytes, up_to=end, at_least_one=is_first)
        result.records = views  # type: ignore[assignment]
        if is_committed:
            aborted = FetchResponse.Response.Partition.AbortedTransaction
            result.aborted_transactions = [
                aborted(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in log.aborted_transactions(asked.fetch_offset, views)
            ]
        return sum(map(len, views))

    def _diverges(
        self, partition: Partition, asked: FetchRequest.Topic.Partition, result: FetchResponse.Response.Partition
    ) -> bool:
        epoch, end = partition.log.end_offset_for_epoch(asked.last_fetched_epoch)
        if epoch < 0:
            raise OffsetOutOfRange
        if epoch == asked.last_fetched_epoch and end >= asked.fetch_offset:
            return False
        result.diverging_epoch = FetchResponse.Response.Partition.DivergingEpoch(epoch=epoch, end_offset=end)
        self._has_error = True
        return True


def _has_changed(fetched: Fetched, result: FetchResponse.Response.Partition) -> bool:
    return (
        fetched.high_watermark != result.high_watermark
        or fetched.log_start_offset != result.log_start_offset
        or (result.diverging_epoch is not None and result.diverging_epoch.epoch >= 0)
    )
