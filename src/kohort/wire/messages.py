"""Every message of the protocol, one class for all its versions, made from wire/schema when first asked for.

`messages.pyi` beside this file states their fields; `make gen` writes it.
"""

from __future__ import annotations

from typing import Any

from kohort.wire.message import message_class
from kohort.wire.message_schemas import schema, schema_texts


def __getattr__(name: str) -> Any:
    try:
        found = schema(name)
    except KeyError:
        raise AttributeError(f"Kafka has no message {name!r} that kohort knows") from None
    made = globals()[name] = message_class(found, __name__)
    return made


def __dir__() -> list[str]:
    return sorted(schema_texts())
