"""For tests: a broker inside the test's process, pytest fixtures (`kohort.testing.plugin`), a clock moved by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.broker.embedded import EmbeddedBroker
    from kohort.testing.clock import ManualClock

# Imported when first asked for: pytest loads the plugin into every run.
_NAMES_IN = {
    "kohort.broker.embedded": "EmbeddedBroker",
    "kohort.testing.clock": "ManualClock",
}

__all__ = ["EmbeddedBroker", "ManualClock"]

__getattr__ = lazy_exports(__name__, _NAMES_IN)


def __dir__() -> list[str]:
    return sorted(__all__)
