"""A function that a service calls with records, and the topics to which what it returns is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from kohort.client.consumer.consumer import Consumer
from kohort.client.consumer.processing.copies import OutputRecord
from kohort.client.consumer.processing.process_settings import ProcessOptions, ProcessSettings
from kohort.client.consumer.topic_subscription import Topic
from kohort.client.producer.producer import Producer
from kohort.client.record import Record
from kohort.client.service.record_context import CURRENT

THREADS = "kohort handler"
"""How the names of threads begin that run plain functions."""


@dataclass(frozen=True, slots=True)
class ResultTopic:
    """A topic to which results are sent. `key` makes a key of a result; without it, the record's key is taken."""

    topic: str
    key: Callable[[Any], bytes | None] | None
    value_serializer: Callable[[Any], bytes | None] | None

    def output(self, record: Record[Any, Any], result: Any) -> OutputRecord:
        """Return what is to be written of a result. Raises TypeError, and what the functions raise."""
        value = result if self.value_serializer is None else self.value_serializer(result)
        return OutputRecord(self.topic, value, record.key if self.key is None else self.key(result))


class RecordHandler:
    """One `consume` of a service. Raises TypeError, ValueError for what cannot be run."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        topics: Sequence[Topic],
        batch: int | None,
        how: ProcessOptions,
        settings: Mapping[str, Any],
    ) -> None:
        self.function = function
        self.topics = topics
        self._settings = settings
        self._how = how
        self._checked = ProcessSettings(handler=function, batch=batch, **how)
        self.consumer({"bootstrap_servers": "localhost:9092"})  # so that a wrong setting is refused at once

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._checked.name

    @property
    def is_exactly_once(self) -> bool:
        """Whether results are written in the transactions of `process`, without a producer of the service."""
        return self._checked.exactly_once

    def check_outputs(self, outputs: Sequence[ResultTopic]) -> None:
        """Refuse outputs that could not get a key or a record. Raises TypeError."""
        if outputs and self._checked.batch is not None:
            raise TypeError(f"{self.name}: produce is for handlers of one record; send from a batch with a Producer")
        for each in outputs:
            if each.key is None and self._settings.get("key_deserializer") is not None:
                raise TypeError(
                    f"{self.name}: key_deserializer makes keys of records: give produce({each.topic!r}) a key="
                )

    def consumer(self, connection: Mapping[str, Any]) -> Consumer[Any, Any]:
        """Return a consumer, not started. Its `client_id` has the function's name, unless the settings have one."""
        client_id = "-".join(filter(None, (connection.get("client_id"), self.name)))
        return Consumer(*self.topics, **{**connection, "client_id": client_id, **self._settings})

    async def process(
        self, consumer: Consumer[Any, Any], outputs: Sequence[ResultTopic], producer: Producer | None
    ) -> None:
        """Handle the records of a consumer until it stops. Raises as `Consumer.process`."""
        checked = self._checked
        how: ProcessOptions = {**self._how, "concurrency": checked.at_once}
        given = how.pop("executor", None)
        executor = given if checked.is_coroutine or given is not None else ThreadPoolExecutor(checked.at_once, THREADS)
        try:
            called = self._with_record(executor, outputs, producer)
            await consumer.process(called, batch=checked.batch, **how)
        finally:
            if executor is not None and executor is not given:
                executor.shutdown(wait=False, cancel_futures=True)

    def _with_record(
        self, executor: Executor | None, outputs: Sequence[ResultTopic], producer: Producer | None
    ) -> Callable[[Any], Any]:
        """Return the function as a coroutine function that names its record to the log, and sends its results.

        Exactly once it returns them to `process`, which writes them.
        """
        function, is_exactly_once = self.function, self.is_exactly_once

        @wraps(function)
        async def called(given: Any) -> Any:
            token = CURRENT.set(given if isinstance(given, Record) else None)
            try:
                if executor is None:
                    result = await function(given)
                else:
                    call = partial(function, given)
                    if isinstance(executor, ThreadPoolExecutor):  # a context cannot go to another process
                        call = partial(copy_context().run, call)
                    result = await asyncio.get_running_loop().run_in_executor(executor, call)
                if not outputs:
                    return result  # what `process` itself makes of it is its own
                written = [] if result is None else [each.output(given, result) for each in outputs]
                if is_exactly_once:
                    return written
                assert producer is not None, "a service with outputs has a producer"
                for delivery in [await producer.send(each.topic, each.value, each.key) for each in written]:
                    await delivery
                return None
            finally:
                CURRENT.reset(token)

        return called
