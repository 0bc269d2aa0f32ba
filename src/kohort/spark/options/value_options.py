"""The options of a source that decodes values: the schema registry, the reader's schema, and the dead-letter topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.model.setting import STRING, setting
from kohort.spark.options.option_values import Given
from kohort.spark.schemas.registry import PREFIX

if TYPE_CHECKING:
    from kohort.spark.schemas.value_decoder import Decoding, Format


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are decoded, as the options have it; `made` is what a stream has made of them already."""

    # fmt: off
    registry: Mapping[str, str] = field(default_factory=dict)
    subject: str | None = setting(None, "The subject whose schema the reader has; `TOPIC-value` where one topic is "
        "read.", kind=STRING, name="valueSubject")
    version: str = setting("latest", "The version of that schema.", name="valueSchemaVersion")
    schema: str | None = setting(None, "The reader's schema itself, instead of a subject.", kind=STRING,
        name="valueSchema")
    value_format: Format | None = setting(None, "What values are, where no registry has their schema.", kind=STRING,
        choices=("avro", "json"), name="valueFormat")
    made: str | None = setting(None, "Made by a stream for its own batches.", kind=STRING, name="decoding")
    # fmt: on

    @classmethod
    def parse(cls, given: Given, topics: tuple[str, ...]) -> ValueOptions | None:
        """Parse them; None where values stay bytes. Raises ValueError."""
        registry = {PREFIX + name: value for name, value in given.under(PREFIX).items()}
        found = given.values(cls)
        is_chosen = bool(found.keys() & {"subject", "schema", "made"})
        if not (registry or is_chosen):
            for name in ("deadLetterTopic", "valueFormat", "valueSchemaVersion"):
                if name in given:
                    raise ValueError(
                        f"{name} is for values that are decoded: set schema.registry.url, with valueSubject or"
                        " valueSchema"
                    )
            return None
        if not is_chosen:
            if len(topics) != 1:
                raise ValueError("the option valueSubject is missing: with several topics it has no default")
            found["subject"] = default_subject(topics)
        return cls(registry, **found)

    def decoding(self) -> Decoding:
        """Return how values are decoded. Raises ValueError, SchemaUnknown, RegistryUnavailable."""
        from kohort.spark.schemas.decoded_column import decoding
        from kohort.spark.schemas.value_decoder import Decoding

        if self.made is not None:
            return Decoding.from_json(self.made)
        return decoding(
            self.registry or None,
            subject=self.subject,
            version=self.version,
            schema=self.schema,
            value_format=self.value_format,
        )


def default_subject(topics: tuple[str, ...]) -> str | None:
    """Return the subject under which serializers register the values of a topic, if there is one topic."""
    return f"{topics[0]}-value" if len(topics) == 1 else None
