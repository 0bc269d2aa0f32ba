"""How much memory something keeps once it is over."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def bytes_kept_by(work: Callable[[], object]) -> int:
    """Return how many bytes were allocated in a function and are still referred to after it."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before
