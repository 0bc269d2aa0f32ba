"""The application object of a service: which functions are called with the records of which topics.

A decorator returns the function as it is, so that a test calls it with a record.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from kohort.client.consumer.consumer_settings import SharedConsumerSettings
from kohort.client.consumer.processing.process_settings import ProcessOptions
from kohort.client.consumer.topic_subscription import Topic
from kohort.client.record import K, Record, V
from kohort.client.service.record_handler import RecordHandler, ResultTopic
from kohort.client.settings import ClientSettings

P = ParamSpec("P")
ReturnedT = TypeVar("ReturnedT")
SentT = TypeVar("SentT")

Lifespan = Callable[[], AbstractAsyncContextManager[object]]


class ConsumeOptions(SharedConsumerSettings, ProcessOptions, total=False):
    """The keyword arguments of `Service.consume`: those of a `Consumer`, and those of its `process`."""


class Producing(Protocol[SentT]):
    """A decorator of functions that return a value to be sent, or None."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, SentT | None]], /
    ) -> Callable[P, Coroutine[Any, Any, SentT | None]]: ...
    @overload
    def __call__(self, function: Callable[P, SentT | None], /) -> Callable[P, SentT | None]: ...


class Service:
    """Functions that handle records, to be run by `kohort run MODULE:NAME`.

    The settings are those that all clients have in common, such as `client_id`, `security_protocol` and `sasl_…`;
    `kohort run` may be given another cluster. `lifespan` returns an asynchronous context manager that is entered before
    the first record is read, and left after the last: it opens what handlers need. Raises TypeError, ValueError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        lifespan: Lifespan | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        self.settings: dict[str, Any] = dict(settings)
        if bootstrap_servers is not None:
            self.settings["bootstrap_servers"] = bootstrap_servers
        self.lifespan = lifespan
        self.handlers: list[RecordHandler] = []
        self._outputs: dict[Callable[..., Any], list[ResultTopic]] = {}

    @overload
    def consume(
        self,
        *topics: Topic,
        group_id: str,
        batch: None = None,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        **options: Unpack[ConsumeOptions],
    ) -> Callable[[Callable[[Record[K, V]], ReturnedT]], Callable[[Record[K, V]], ReturnedT]]: ...
    @overload
    def consume(
        self,
        *topics: Topic,
        group_id: str,
        batch: int,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        **options: Unpack[ConsumeOptions],
    ) -> Callable[[Callable[[list[Record[K, V]]], ReturnedT]], Callable[[list[Record[K, V]]], ReturnedT]]: ...
    def consume(self, *topics: Topic, group_id: str, batch: int | None = None, **options: Any) -> Any:
        """Have a function called with each record of these topics, by a member of this group.

        The options are those of a `Consumer` and of `Consumer.process`, which explains what is called when and what is
        committed. The function is a plain or a coroutine function of a record, or of a list of records with `batch`.
        Raises TypeError, ValueError.
        """
        if not topics:
            raise ValueError("consume names no topic: consume('orders', group_id='billing')")
        how = cast(
            ProcessOptions, {name: options.pop(name) for name in ProcessOptions.__annotations__ if name in options}
        )

        def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self.handlers.append(RecordHandler(function, topics, batch, how, {"group_id": group_id, **options}))
            return function

        return decorate

    @overload
    def produce(self, topic: str, *, key: Callable[[bytes], bytes | None] | None = None) -> Producing[bytes]: ...
    @overload
    def produce(
        self,
        topic: str,
        *,
        value_serializer: Callable[[SentT], bytes | None],
        key: Callable[[SentT], bytes | None] | None = None,
    ) -> Producing[SentT]: ...
    def produce(
        self,
        topic: str,
        *,
        value_serializer: Callable[[Any], bytes | None] | None = None,
        key: Callable[[Any], bytes | None] | None = None,
    ) -> Any:
        """Have what a function of `consume` returns sent to a topic; None is not sent.

        The record that it was called with is finished once the result is written, with `exactly_once` in the same
        transaction. The result has the record's key, or what `key` makes of the result.
        """

        def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self._outputs.setdefault(function, []).append(ResultTopic(topic, key, value_serializer))
            return function

        return decorate

    def outputs_of(self, handler: RecordHandler) -> Sequence[ResultTopic]:
        """Return where the results of a handler are sent."""
        return self._outputs.get(handler.function, ())

    def check(self) -> None:
        """Refuse to be run with no handler, or with outputs of none. Raises TypeError, ValueError."""
        if not self.handlers:
            raise ValueError("it handles nothing: decorate a function with @NAME.consume('topic', group_id='…')")
        for handler in self.handlers:
            handler.check_outputs(self.outputs_of(handler))
        if alone := set(self._outputs) - {each.function for each in self.handlers}:
            name = sorted(each.__qualname__ for each in alone)[0]
            raise ValueError(f"{name} has a produce and no consume: decorate it with both, of the same object")
