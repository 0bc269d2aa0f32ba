"""Keys and values by the schemas of a schema registry, for the clients, the command line, the console and Spark.

`Schemas` makes deserializers for a `Consumer` and serializers for a `Producer`. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.schemas.registry import Reference as Reference
    from kohort.schemas.registry import RegistryUnavailable as RegistryUnavailable
    from kohort.schemas.registry import SchemaUnknown as SchemaUnknown
    from kohort.schemas.schemas import Schemas as Schemas

__getattr__, __dir__ = lazy_exports(
    "kohort.schemas",
    {
        "kohort.schemas.registry": "Reference RegistryUnavailable SchemaUnknown",
        "kohort.schemas.schemas": "Schemas",
    },
)
