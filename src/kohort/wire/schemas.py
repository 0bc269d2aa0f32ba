"""The schema files of this package, by message. Files are read once; a message is parsed when first asked for."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from kohort.wire.notation import Headline, MessageSchema, SchemaError, parse_headline, parse_message, split_messages


@cache
def schema_texts() -> dict[str, str]:
    """Return every message's text in the notation, by name, in the order of the files. Raises `SchemaError`."""
    texts: dict[str, str] = {}
    for entry in sorted(files("kohort.wire").joinpath("schema").iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".txt"):
            continue
        for name, text in split_messages(entry.read_text("utf-8")).items():
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
