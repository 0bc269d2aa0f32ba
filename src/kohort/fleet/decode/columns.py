"""The columns of the frame that `bronze.read` gives: those of bronze `records` and five more.

One frame holds three tables: a row with a `reason` is of the quarantine, one with a `next_offset` says how far a
partition was read. A transaction's marker is a row without a record type, for those who meet its commits elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from kohort.fleet.schema import RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

MORE: Final = ("file string", "position bigint", "reason string", "sample string", "next_offset bigint")
"""The columns behind those of bronze `records`."""

DDL: Final = ", ".join((*RECORDS.columns, *MORE))


@cache
def schema() -> pa.Schema:
    """Return the columns as Arrow has them."""
    import pyarrow as pa

    more = [("file", pa.string()), ("position", pa.int64()), ("reason", pa.string()), ("sample", pa.string())]
    return pa.schema([*RECORDS.arrow(), *[pa.field(*each) for each in more], pa.field("next_offset", pa.int64())])
