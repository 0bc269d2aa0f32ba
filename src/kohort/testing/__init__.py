"""For tests: a broker and a schema registry in the process of a test, a clock, pytest fixtures (`plugin`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.assign.quality import Quality as Quality
    from kohort.assign.quality import measure as measure
    from kohort.assign.quality import measure_target as measure_target
    from kohort.broker.embedded import EmbeddedBroker as EmbeddedBroker
    from kohort.testing.clock import ManualClock as ManualClock
    from kohort.testing.schema_registry import SchemaRegistry as SchemaRegistry

# Imported when first asked for: pytest loads the plugin into every run.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.assign.quality": "Quality measure measure_target",
        "kohort.broker.embedded": "EmbeddedBroker",
        "kohort.testing.clock": "ManualClock",
        "kohort.testing.schema_registry": "SchemaRegistry",
    },
)
