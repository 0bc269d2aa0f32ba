"""How many inputs a property gets, and how many worlds a service: ten times as many in `make properties`.

Inputs differ from run to run, so that what one run does not draw, another one or the night does.
"""

from __future__ import annotations

import os

PERCENT = int(os.environ.get("KOHORT_EXAMPLES") or 40)
"""How many of a hundred inputs are drawn."""


def examples(count: int) -> int:
    """Return how many of `count` inputs are drawn; at least one."""
    return max(1, count * PERCENT // 100)
