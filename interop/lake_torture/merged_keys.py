"""Which records of a topic become one row: `group_job` merges them, and `account` computes what must come of it."""

KEYS = 37
"""Into how many keys of each partition records are merged: the key is the offset modulo this."""

DELETES = 11
"""Records whose offset this divides delete their key."""
