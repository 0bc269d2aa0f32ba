"""The tables that a run leaves for the next one. Nobody else reads them; what they hold may change with any version."""

from __future__ import annotations

from kohort.fleet.schema import OWNERSHIP, RECORDS, Table

STATE_GROUPS = Table(
    "state",
    "groups",
    (
        "source string",
        "group string",
        "partition int",
        "bucket int",
        "kind string",
        "state string",
        "epoch int",
        "members int",
        "static_members int",
        "partitions int",
        "topics array<string>",
        "strategy string",
        "protocol string",
        "supported_protocols array<string>",
        "embedded_versions array<int>",
        "has_user_data boolean",
        "client_ids array<string>",
        "hosts array<string>",
        "largest_share int",
        "smallest_share int",
        "idle_members int",
        "emptied_ms bigint",
        "running_since_ms bigint",
        "first_seen_ms bigint",
        "last_seen_ms bigint",
        "records bigint",
        "rebalances int",
        "last_offset bigint",
        "folded string",  # what the next run goes on with
    ),
)
"""What was folded of each group; all groups, written anew by each run."""

STATE_COMMITS = Table(
    "state",
    "commits",
    (
        "source string",
        "group string",
        "topic string",
        "topic_partition int",
        "offset bigint",
        "at_ms bigint",
        "committed_offset bigint",  # null of a tombstone
        "commit_at_ms bigint",
        "expire_at_ms bigint",
        "first_ms bigint",
        "bucket int",
    ),
)
"""The last commit of each partition of each group."""

STATE_OPEN = Table("state", "open_ownership", OWNERSHIP.columns)
"""Who owns what now: the rows of `ownership` that have not ended; `silver.ownership` reads both."""

STATE_PENDING = Table("state", "pending_commits", RECORDS.columns)
"""Commits of transactions whose end had not been read: they count once it is."""
