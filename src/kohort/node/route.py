"""One API in one version, as requests are served by it, and errors as its responses carry them.

It is handed the module of the API and imports none, so that connections and the modules of the APIs can both name it.
An error is that of a whole request, or stands in the entry of a topic, partition, resource or group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.exposition import Histogram
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api, flexible_from, request_class, response_class
from kohort.wire.codec import Buffer, decoder, gatherer, stepwise_decoder, stepwise_gatherer


class Route:
    """One API in one version: how to read, serve, refuse and write it."""

    def __init__(self, api: Api, version: int, module: Any) -> None:
        self.api = api
        self.version = version
        name = api.name.lower()
        self.handle: Callable[[Any, Any, Any], Any] = getattr(module, name)
        """Returns a response, None if it comes later, or a generator of steps that ends so."""
        self._refuse: Callable[[Any, ErrorCode, str, int], Any] | None = getattr(module, f"refuse_{name}", None)
        self.overtakes: Callable[[Any, Any, Any, int], bool] | None = getattr(module, f"{name}_overtakes", None)
        """Whether a request may be served before the parked one that it came behind; most never are."""
        self.served = 0
        """Requests that were taken up."""
        self.handled = Histogram()
        """How long the handler took, of one request in `MEASURED_EVERY`, where time is measured."""
        self.decode = decoder(request_class(api), version)
        self.gather = gatherer(response_class(api), version)
        self.has_tagged_request = version >= flexible_from(api)
        # KIP-511: the response header of ApiVersions is v0 for ever, so that any client can read it.
        self.has_tagged_response = self.has_tagged_request and api != Api.API_VERSIONS

    def refuse(self, message: Any, code: ErrorCode, text: str) -> Any:
        """Return an error response."""
        if self._refuse is not None:
            return self._refuse(message, code, text, self.version)
        return error_response(response_class(self.api), message, code, text)

    @cached_property
    def decode_in_steps(self) -> Callable[[Buffer, int, int], Steps[tuple[Any, int]]]:
        """Decodes a request of a frame, from a position, of a limited number of entries. Raises MalformedMessage."""
        return stepwise_decoder(request_class(self.api), self.version)

    @cached_property
    def gather_in_steps(self) -> Callable[[Any, list[Buffer]], Steps[None]]:
        """Encodes a response as `gather` does."""
        return stepwise_gatherer(response_class(self.api), self.version)


_NAMES = ("name", "topic", "topic_id", "index", "partition", "partition_index", "resource_type", "resource_name")
"""Fields by which a request and its response name the same thing."""

_UNKNOWN = {"base_offset": -1, "low_watermark": -1, "producer_epoch": -1}
"""Fields that have another value than their default where there is an error."""


def error_response(cls: Any, asked: Any, code: ErrorCode, text: str | None) -> Any:
    """Return a response, or one of its structs, with an error.

    The error is in the struct itself where there is a field for it, else in an entry for each thing that is `asked`.
    """
    shared, values = _fields(cls, asked.__class__)
    response, fields = cls(**values), cls.__slots__
    for name in shared:
        setattr(response, name, getattr(asked, name))
    if "error_code" in fields:
        response.error_code = code
        if "error_message" in fields:
            response.error_message = text or None
        if "group_id" in fields:
            response.group_id = asked  # a request names groups by text alone
    else:
        entries = next(name for name in fields if isinstance(getattr(response, name), list))
        named = next(value for name in asked.__slots__ if isinstance(value := getattr(asked, name), list))
        entry = next(value for value in vars(cls).values() if isinstance(value, type))
        setattr(response, entries, [error_response(entry, each, code, text) for each in named])
    return response


@cache
def _fields(response: type[Any], asked: type[Any]) -> tuple[list[str], dict[str, int]]:
    """Return the fields that name the same thing in both, and those that differ from their default."""
    shared = [name for name in _NAMES if name in response.__slots__ and name in getattr(asked, "__slots__", ())]
    return shared, {name: value for name, value in _UNKNOWN.items() if name in response.__slots__}


def set_error(entry: Any, error: KafkaError | StorageError) -> None:
    """Write an error into an entry of a response."""
    if isinstance(error, KafkaError):
        code, text = error.code, error.text
    else:
        code, text = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    entry.error_code = code
    if "error_message" in entry.__slots__:
        entry.error_message = text
