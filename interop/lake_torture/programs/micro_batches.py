"""Lines of a streaming query: one for each micro-batch that had rows, until the query ends."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

LOOK_S = 0.05


def print_batches(query: StreamingQuery) -> None:
    """Print the rows of each micro-batch, and raise what ended the query."""
    last = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != last and progress["numInputRows"]:
            last = progress["batchId"]
            print(json.dumps({"rows": progress["numInputRows"], "stored": True}), flush=True)
        time.sleep(LOOK_S)
    query.awaitTermination()
