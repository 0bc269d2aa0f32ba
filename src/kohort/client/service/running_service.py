"""One run of a service: a consumer for each handler, one producer for their results, all stopped together.

A handler whose policy is to stop ends all of them: those of the others finish, and what they did is committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

from kohort.client.consumer.consumer import Consumer
from kohort.client.metric_families import consumer_families, producer_families
from kohort.client.producer.producer import Producer
from kohort.client.service.record_handler import RecordHandler
from kohort.client.service.service import Service
from kohort.model.exposition import MetricFamily

log = logging.getLogger(__name__)


class RunningService:
    """A service that runs once. `settings` replace those of the service; raises TypeError, ValueError as its clients.

    `on_stopping` is called when it begins to end, by `stop` or by a failure.
    """

    def __init__(
        self,
        service: Service,
        settings: Mapping[str, Any],
        *,
        stop_timeout_ms: int,
        on_stopping: Callable[[], object] = lambda: None,
    ) -> None:
        service.check()
        self._service = service
        self._stop_timeout_ms = stop_timeout_ms
        self._on_stopping = on_stopping
        connection = {**service.settings, **settings}
        self._consumers = {each: each.consumer(connection) for each in service.handlers}
        is_producing = any(service.outputs_of(each) and not each.is_exactly_once for each in service.handlers)
        self._producer: Producer | None = Producer(**connection) if is_producing else None
        self._starting: dict[Consumer[Any, Any], asyncio.Task[None]] = {}
        self._is_stopping = False

    async def run(self) -> None:
        """Handle records until `stop`. Raises what a handler or a client raised first, once all have ended."""
        async with AsyncExitStack() as stack:
            if self._service.lifespan is not None:
                await stack.enter_async_context(self._service.lifespan())
            if self._producer is not None:
                await stack.enter_async_context(self._producer)
            tasks = [
                asyncio.create_task(self._handle(*each), name="kohort service") for each in self._consumers.items()
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                await self.stop()
                await asyncio.wait(tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            failures = [task.exception() for task in tasks if not task.cancelled()]
            for failure in filter(None, failures):
                raise failure

    async def stop(self) -> None:
        """End all: running handlers finish, what they did is committed, the members leave their groups.

        It takes at most the timeout of this service; handlers have three quarters of it, and are cancelled then.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        self._on_stopping()
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*map(self._stop, self._consumers.values()))

    def unready(self) -> str:
        """Return why this process does not handle records yet, or no longer; an empty text where it does."""
        if self._is_stopping:
            return "stopping"
        reasons = ((handler.name, consumer.unready()) for handler, consumer in self._consumers.items())
        return "; ".join(f"{name}: {why}" for name, why in reasons if why)

    def families(self) -> Iterator[MetricFamily]:
        """Return the metrics of all clients."""
        producers = [] if self._producer is None else [self._producer]
        return chain(consumer_families([*self._consumers.values()]), producer_families(producers))

    async def _handle(self, handler: RecordHandler, consumer: Consumer[Any, Any]) -> None:
        task = asyncio.current_task()
        assert task is not None, "each handler has a task"
        self._starting[consumer] = task
        await consumer.start()
        del self._starting[consumer]
        log.info("%s: %s in group %s", handler.name, ", ".join(map(str, handler.topics)), consumer.group_id)
        try:
            outputs = self._service.outputs_of(handler)
            await handler.process(consumer, outputs, self._producer)
        finally:
            await self._stop(consumer)

    async def _stop(self, consumer: Consumer[Any, Any]) -> None:
        await consumer.stop(timeout_ms=self._stop_timeout_ms * 19 // 20)
