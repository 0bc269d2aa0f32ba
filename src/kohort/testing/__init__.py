"""For tests: a broker and a schema registry in the process of a test, a clock, pytest fixtures (`plugin`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.broker.embedded import EmbeddedBroker
    from kohort.testing.clock import ManualClock
    from kohort.testing.schema_registry import SchemaRegistry

# Imported when first asked for: pytest loads the plugin into every run.
_NAMES_IN = {
    "kohort.broker.embedded": "EmbeddedBroker",
    "kohort.testing.clock": "ManualClock",
    "kohort.testing.schema_registry": "SchemaRegistry",
}

__all__ = ["EmbeddedBroker", "ManualClock", "SchemaRegistry"]

__getattr__ = lazy_exports(__name__, _NAMES_IN)


def __dir__() -> list[str]:
    return sorted(__all__)
