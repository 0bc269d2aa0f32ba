"""Numbers of ListOffsets and Fetch: the timestamps that stand for offsets, and the isolation levels.

Apart from the requests, since options are read where no cluster is, as by a process that Spark starts for a question.
"""

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

READ_UNCOMMITTED, READ_COMMITTED = 0, 1

ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
"""The isolation levels by their names in settings."""
