"""The schema files of this package, by message. Files are read once; a message is parsed when first asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from kohort import wire
from kohort.wire.message_schemas import (
    Headline,
    MessageSchema,
    SchemaError,
    parse_headline,
    parse_message,
    split_messages,
)

FILES = (
    "admin.txt",
    "embedded.txt",
    "group.txt",
    "offsets.txt",
    "offsets_topic.txt",
    "records.txt",
    "session.txt",
    "topics.txt",
    "transaction_log.txt",
    "transactions.txt",
)


def _read(name: str) -> str:
    # Through the loader, so that a zip file serves as well; `importlib.resources` takes longer to import than to use.
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(f"{wire.__path__[0]}/schema/{name}")
    return content.decode().replace("\r\n", "\n")


@cache
def schema_texts() -> dict[str, str]:
    """Return every message's text in the notation, by name, in the order of the files. Raises `SchemaError`."""
    texts: dict[str, str] = {}
    for file_name in FILES:
        for name, text in split_messages(_read(file_name)).items():
            if name in texts:
                raise SchemaError(f"{name} is described twice")
            texts[name] = text
    return texts


@cache
def schema(name: str) -> MessageSchema:
    """Return the schema of one message. Raises `KeyError` for a name that no file describes."""
    return parse_message(schema_texts()[name])


@cache
def headlines() -> dict[str, Headline]:
    """Return every message's headline by name, without parsing its fields."""
    return {name: parse_headline(text.partition("\n")[0]) for name, text in schema_texts().items()}
