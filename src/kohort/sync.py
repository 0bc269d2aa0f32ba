"""Consumer, Producer and Admin for programs without an event loop: the same names, settings and methods, blocking.

All clients of a process share one background thread with one loop, so heartbeats are sent while the program works. The
plain methods of a rebalance listener run on the program's own thread, while it waits in a method of its consumer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, cast, overload

from kohort.client.admin.admin import Admin as _Admin
from kohort.client.admin.admin import AdminSettings
from kohort.client.background_loop import Runner
from kohort.client.cluster.committed_offsets import GroupMetadata
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer import STOP_TIMEOUT_MS
from kohort.client.consumer.consumer import Consumer as _Consumer
from kohort.client.consumer.consumer_settings import ConsumerSettings
from kohort.client.consumer.processing.process_settings import ProcessOptions
from kohort.client.consumer.topic_subscription import Topic
from kohort.client.membership.user_callbacks import ListenerCallback, RebalanceListener, finished, listener_of
from kohort.client.producer.accumulator import Delivery as _Delivery
from kohort.client.producer.accumulator import RecordMetadata
from kohort.client.producer.open_transaction import Offsets
from kohort.client.producer.open_transaction import Transaction as _Transaction
from kohort.client.producer.producer import Headers, ProducerSettings, SendOptions
from kohort.client.producer.producer import Producer as _Producer
from kohort.client.record import K, Record, SentK, SentV, V
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag

P = ParamSpec("P")
ClientT = TypeVar("ClientT")
ResultT = TypeVar("ResultT")

__all__ = ["Admin", "Consumer", "Delivery", "Producer", "RebalanceListener", "Transaction"]


class _Blocking(Generic[ClientT]):
    """An asyncio client and the runner that serves it."""

    _client: ClientT
    _runner: Runner
    start: Callable[..., None]
    stop: Callable[..., None]

    def __enter__(self) -> Self:
        with self._runner.released_on_failure():
            self.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.stop()


def _makes(client: Callable[..., object]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Give a blocking client's initializer, which has its types, the settings and the work of the asyncio client's."""

    def replaced(_: Callable[P, None]) -> Callable[P, None]:
        def initialize(self: Any, /, *args: Any, **settings: Any) -> None:
            self._runner = Runner()
            listener = settings.get("listener")
            if isinstance(listener, RebalanceListener):
                settings["listener"] = _ListenerOnCaller(listener, self._runner)
            self._client = client(*args, **settings)

        return cast("Callable[P, None]", update_wrapper(initialize, vars(client)["__init__"]))

    return replaced


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Any, P], ResultT]:
    """Return a method that runs a coroutine of the client in the background and waits for its result."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        runner: Runner = self._runner
        return runner.run(lambda: method(self._client, *args, **kwargs))

    return update_wrapper(call, method)


def _plain(method: Callable[Concatenate[Any, P], ResultT]) -> Callable[Concatenate[Any, P], ResultT]:
    """Return a method that calls one of the client's on the loop's thread, where its state lives."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        async def on_loop() -> ResultT:
            return method(self._client, *args, **kwargs)

        runner: Runner = self._runner
        return runner.run(on_loop)

    return update_wrapper(call, method)


class _ListenerOnCaller(RebalanceListener):
    """Runs a listener's plain methods on the program's thread, which waits in a method of the consumer."""

    def __init__(self, listener: RebalanceListener, runner: Runner) -> None:
        self._listener = listener
        self._runner = runner

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await self._run(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self._run(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        await self._run(self._listener.on_partitions_lost, partitions)

    async def _run(self, method: Callable[[Partitions], Any], partitions: Partitions) -> None:
        if inspect.iscoroutinefunction(method):
            await finished(method(partitions))
        else:
            outcome: list[Any] = []
            await self._runner.on_caller(lambda: outcome.append(method(partitions)))
            await finished(outcome[0])


class Consumer(_Blocking[_Consumer[K, V]], Generic[K, V]):
    """`kohort.Consumer`, blocking. Use it with `with`; iterate it for records, or `poll` for batches."""

    @_makes(_Consumer)
    def __init__(
        self,
        *topics: Topic,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Replaced."""

    start = _blocking(_Consumer.start)
    unsubscribe = _blocking(_Consumer.unsubscribe)
    assign = _plain(_Consumer.assign)
    assignment = _plain(_Consumer.assignment)
    subscription = _plain(_Consumer.subscription)
    position = _blocking(_Consumer.position)
    seek = _plain(_Consumer.seek)
    seek_to_beginning = _plain(_Consumer.seek_to_beginning)
    seek_to_end = _plain(_Consumer.seek_to_end)
    seek_to_committed = _plain(_Consumer.seek_to_committed)
    pause = _plain(_Consumer.pause)
    resume = _plain(_Consumer.resume)
    paused = _plain(_Consumer.paused)
    commit = _blocking(_Consumer.commit)
    commit_async = _plain(_Consumer.commit_async)
    committed = _blocking(_Consumer.committed)
    beginning_offsets = _blocking(_Consumer.beginning_offsets)
    end_offsets = _blocking(_Consumer.end_offsets)
    offsets_for_times = _blocking(_Consumer.offsets_for_times)
    enforce_rebalance = _plain(_Consumer.enforce_rebalance)
    report_standby_lag = _plain(_Consumer.report_standby_lag)
    transaction_offsets = _plain(_Consumer.transaction_offsets)
    group_metadata = _plain(_Consumer.group_metadata)

    @property
    def client_id(self) -> str:
        """The name that brokers know this client by."""
        return self._client.client_id

    @property
    def group_id(self) -> str | None:
        """The group, or None."""
        return self._client.group_id

    def metrics(self) -> dict[str, float]:
        """Return what this consumer measured, by the names of docs/metrics.md. Any thread may ask."""
        return self._client.metrics()

    def lag(self) -> dict[TopicPartition, Lag]:
        """Return how far `poll` is behind in each partition, as the last fetches showed it."""
        return self._client.lag()

    def processing(self, record: Record[Any, Any]) -> AbstractContextManager[Any]:
        """Return a span for the processing of a record, as `kohort.Consumer.processing` does."""
        return self._client.processing(record)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.stop(is_finished=error is None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[K, V]:
        if (record := self._client._iteration.next_at_once()) is not None:
            return record
        try:
            return self._runner.run(self._client.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    @overload
    def process(
        self, handler: Callable[[Record[K, V]], object], *, batch: None = None, **how: Unpack[ProcessOptions]
    ) -> None: ...
    @overload
    def process(
        self, handler: Callable[[list[Record[K, V]]], object], *, batch: int, **how: Unpack[ProcessOptions]
    ) -> None: ...
    def process(
        self, handler: Callable[[Any], object], *, batch: int | None = None, **how: Unpack[ProcessOptions]
    ) -> None:
        """Call `handler` with each record as `kohort.Consumer.process` does, until another thread calls `stop`."""
        process: Callable[..., Coroutine[Any, Any, None]] = self._client.process
        self._runner.run(lambda: process(handler, batch=batch, **how))

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Batch[K, V]]:
        """Return batches as `kohort.Consumer.poll` does."""
        return self._runner.run(lambda: self._client.poll(timeout_ms, max_records))

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        listener: RebalanceListener | None = None,
        *,
        on_assigned: ListenerCallback | None = None,
        on_revoked: ListenerCallback | None = None,
        on_lost: ListenerCallback | None = None,
    ) -> None:
        """Read these topics, and no others, from now on. Everything else as `kohort.Consumer.subscribe`."""
        user = listener_of(listener, on_assigned, on_revoked, on_lost)
        theirs = None if user is None else _ListenerOnCaller(user, self._runner)
        self._runner.run(lambda: self._client.subscribe(topics, theirs))

    def stop(
        self, *, timeout_ms: int = STOP_TIMEOUT_MS, is_finished: bool = True, leave_group: bool | None = None
    ) -> None:
        """Do as `kohort.Consumer.stop`, within `timeout_ms`; an interrupt ends everything at once."""
        self._runner.end(
            lambda: self._client.stop(timeout_ms=timeout_ms, is_finished=is_finished, leave_group=leave_group)
        )


class Delivery:
    """The outcome of sending one record; `result` waits for it."""

    __slots__ = ("_delivery", "_runner")

    def __init__(self, delivery: _Delivery, runner: Runner) -> None:
        self._delivery = delivery
        self._runner = runner

    def done(self) -> bool:
        """Return whether the record is written or has failed."""
        return self._delivery.done()

    def result(self) -> RecordMetadata:
        """Wait until the record is written and return where. Raises the `KafkaError` of one that was not."""
        if self._delivery.done():
            return self._delivery.result()

        async def on_loop() -> RecordMetadata:
            return await self._delivery

        return self._runner.run(on_loop)


class Transaction:
    """`kohort.client.Transaction`, blocking; made by `Producer.transaction` and used with `with`."""

    def __init__(self, transaction: _Transaction, runner: Runner) -> None:
        self._client = transaction
        self._runner = runner

    begin = _blocking(_Transaction.begin)
    commit = _blocking(_Transaction.commit)
    abort = _blocking(_Transaction.abort)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._runner.run(lambda: self._client.__aexit__(kind, error, trace))

    def send_offsets(self, group: Consumer[Any, Any] | GroupMetadata, offsets: Offsets | None = None) -> None:
        """Commit offsets of a consumer's group with the transaction. Everything else as `kohort.client.Transaction`."""
        source = group._client if isinstance(group, Consumer) else group
        self._runner.run(lambda: self._client.send_offsets(source, offsets))


class Producer(_Blocking[_Producer[SentK, SentV]], Generic[SentK, SentV]):
    """`kohort.Producer`, blocking; threads may share one. Use it with `with`, which writes what waits at the end."""

    @_makes(_Producer)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        key_serializer: Callable[[SentK], bytes | None] | None = None,
        value_serializer: Callable[[SentV], bytes | None] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Replaced."""

    start = _blocking(_Producer.start)
    flush = _blocking(_Producer.flush)

    @property
    def client_id(self) -> str:
        """The name that brokers know this client by."""
        return self._client.client_id

    def metrics(self) -> dict[str, float]:
        """Return what this producer measured, by the names of docs/metrics.md. Any thread may ask."""
        return self._client.metrics()

    def send(
        self,
        topic: str,
        value: SentV | None,
        key: SentK | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Put a record into a batch; `result()` of what is returned waits until it is written. Raises as `Producer`."""
        sent = self._runner.run(lambda: self._client.send(topic, value, key, partition, timestamp_ms, headers))
        return Delivery(sent, self._runner)

    def send_and_wait(
        self, topic: str, value: SentV | None, key: SentK | None = None, **more: Unpack[SendOptions]
    ) -> RecordMetadata:
        """Send one record and return where it was written, as `kohort.Producer.send_and_wait` does."""
        return self._runner.run(lambda: self._client.send_and_wait(topic, value, key, **more))

    def transaction(self) -> Transaction:
        """Return a new transaction; `with` begins it, commits it at the end, and aborts it on an exception."""
        return Transaction(_plain(_Producer.transaction)(self), self._runner)

    def stop(self, *, timeout_ms: int | None = None) -> None:
        """Write what waits, for at most `timeout_ms` (the delivery timeout by default), and end everything."""
        self._runner.end(lambda: self._client.stop(timeout_ms=timeout_ms))


class Admin(_Blocking[_Admin]):
    """`kohort.Admin`, blocking. Use it with `with`."""

    @_makes(_Admin)
    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[AdminSettings]) -> None:
        """Replaced."""

    start = _blocking(_Admin.start)
    describe_cluster = _blocking(_Admin.describe_cluster)
    lag = _blocking(_Admin.lag)
    list_topics = _blocking(_Admin.list_topics)
    describe_topics = _blocking(_Admin.describe_topics)
    create_topic = _blocking(_Admin.create_topic)
    delete_topic = _blocking(_Admin.delete_topic)
    create_partitions = _blocking(_Admin.create_partitions)
    list_offsets = _blocking(_Admin.list_offsets)
    delete_records = _blocking(_Admin.delete_records)
    describe_configs = _blocking(_Admin.describe_configs)
    alter_configs = _blocking(_Admin.alter_configs)
    create_acls = _blocking(_Admin.create_acls)
    describe_acls = _blocking(_Admin.describe_acls)
    delete_acls = _blocking(_Admin.delete_acls)
    describe_user_scram_credentials = _blocking(_Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(_Admin.alter_user_scram_credentials)
    list_groups = _blocking(_Admin.list_groups)
    describe_groups = _blocking(_Admin.describe_groups)
    describe_consumer_groups = _blocking(_Admin.describe_consumer_groups)
    describe_topology = _blocking(_Admin.describe_topology)
    delete_group = _blocking(_Admin.delete_group)
    group_offsets = _blocking(_Admin.group_offsets)
    reset_offsets = _blocking(_Admin.reset_offsets)
    delete_offsets = _blocking(_Admin.delete_offsets)
    remove_members = _blocking(_Admin.remove_members)
    list_transactions = _blocking(_Admin.list_transactions)
    describe_transactions = _blocking(_Admin.describe_transactions)
    describe_producers = _blocking(_Admin.describe_producers)
    abort_transaction = _blocking(_Admin.abort_transaction)
    describe_log_dirs = _blocking(_Admin.describe_log_dirs)

    def stop(self) -> None:
        """End every connection."""
        self._runner.end(self._client.stop)
