"""A frame as tables use it, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from kohort.spark.direct_rows import columns_of


class Frame:
    """Rows `x` from one number to another; `read` is called when they are read."""

    def __init__(self, first: int = 0, stop: int = 10, read: Callable[[], object] = bool) -> None:
        self.rows = pa.table({"x": list(range(first, stop))})
        self.schema = columns_of(self.rows.schema)
        self._read = read

    def to(self, _: Any) -> Frame:
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        self._read()
        return self.rows

    def mapInArrow(self, function: Any, _: Any) -> Any:  # noqa: N802
        self._read()
        made = [row for batch in function(iter(self.rows.to_batches())) for row in batch.to_pylist()]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(**row) for row in made])
