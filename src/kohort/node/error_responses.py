"""Errors as responses carry them: of a whole request, or in the entry of a topic, partition, resource or group.

An API whose error response has another form has a function `refuse` of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError

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
