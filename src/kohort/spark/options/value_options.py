"""The options of a source that decodes values: the schema registry, the reader's schema, and the dead-letter topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kohort.spark.options.option_values import Given
from kohort.spark.rows.read_settings import ReadSettings

if TYPE_CHECKING:
    from kohort.spark.schemas.value_decoder import Decoding, Format

_REGISTRY = "schema.registry."
_NAMES = ("url", "basic.auth.user.info", "bearer.auth.token", "ssl.ca.location", "ssl.certificate.location")
VALUE_OPTIONS = (
    *(_REGISTRY + name for name in (*_NAMES, "ssl.key.location", "timeout.ms", "retry.ms")),
    *("valueSubject", "valueSchemaVersion", "valueSchema", "valueFormat", "deadLetterTopic"),
)
_FORMATS: tuple[Format, ...] = ("avro", "json")


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are decoded, as the options have it; `made` is what a stream has made of them already."""

    registry: Mapping[str, str] = field(default_factory=dict)
    subject: str | None = None
    version: str = "latest"
    schema: str | None = None
    value_format: Format | None = None
    made: str | None = None

    @classmethod
    def parse(cls, given: Given, topics: tuple[str, ...]) -> ValueOptions | None:
        """Parse them; None where values stay bytes. Raises ValueError."""
        registry = {_REGISTRY + name: value for name, value in given.under(_REGISTRY).items()}
        subject, schema, made = given.text("valueSubject"), given.text("valueSchema"), given.text("decoding")
        if not (registry or subject or schema or made):
            for name in ("deadLetterTopic", "valueFormat", "valueSchemaVersion"):
                if name in given:
                    raise ValueError(
                        f"{name} is for values that are decoded: set schema.registry.url, with valueSubject or"
                        " valueSchema"
                    )
            return None
        if subject is None and schema is None and made is None:
            if len(topics) != 1:
                raise ValueError("the option valueSubject is missing: with several topics it has no default")
            subject = default_subject(topics)
        value_format = given.choice("valueFormat", _FORMATS, "avro") if "valueFormat" in given else None
        return cls(registry, subject, given.text("valueSchemaVersion") or "latest", schema, value_format, made)

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

    def resolved(self, read: ReadSettings) -> ReadSettings:
        """Return settings that decode values. Raises ValueError, SchemaUnknown, RegistryUnavailable."""
        return replace(read, decoding=self.decoding())


def default_subject(topics: tuple[str, ...]) -> str | None:
    """Return the subject under which serializers register the values of a topic, if there is one topic."""
    return f"{topics[0]}-value" if len(topics) == 1 else None
