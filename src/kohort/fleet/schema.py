"""The tables of `kohort fleet`, column by column, with their types in Spark and Arrow.

Every table is Parquet under one directory, by layer (`bronze/records`, `silver/events`, …); `tables.py` decides which
of its files are published. Times are milliseconds since the epoch, UTC; `day` is the UTC day of a row's time; `bucket`
is `bucket_of(partition)`: all records of a group are in one partition of `__consumer_offsets`, and this placement
stays, so that nothing is shuffled. The tables of the layer `state` are private to the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kohort.model.setting import DAY_MS as DAY_MS
from kohort.model.setting import HOUR_MS as HOUR_MS

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 and 9999, between which a date is."""

KEY = ["source", "group"]
"""The columns that identify a group."""

BUCKETS = 8


def bucket_of(partition: int) -> int:
    """Return the bucket of the groups whose records are in a partition of `__consumer_offsets`."""
    return partition % BUCKETS


EVIDENCE = "array<struct<partition int, offset bigint, at_ms bigint, what string>>"


class Evidence(NamedTuple):
    """A record of `__consumer_offsets` that proves a finding: place in the log, time, and description."""

    partition: int
    offset: int
    at_ms: int
    what: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the layer and name that make its directory, its columns as `name type` lines of Spark's DDL."""

    layer: str
    name: str
    columns: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Return the table's directory under that of all tables."""
        return f"{self.layer}/{self.name}"

    @property
    def ddl(self) -> str:
        """Return the columns as Spark's DDL."""
        return ", ".join(self.columns)

    @property
    def types(self) -> dict[str, str]:
        """Return the types of the columns by name, as Spark's DDL."""
        return dict(column.split(" ", 1) for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self.types)

    def arrow(self) -> pa.Schema:
        """Return the columns as an Arrow schema with the exact types that Spark expects of a Python function."""
        return _arrow_schema(self.columns)


@cache
def _arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, _arrow_type(kind)) for name, kind in (each.split(" ", 1) for each in columns)])


_ARROW_NAMES = {"int": "int32", "bigint": "int64", "boolean": "bool", "date": "date32"}
"""Where Arrow's name of a type is not Spark's."""


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    if kind.isalpha():
        return pa.type_for_alias(_ARROW_NAMES.get(kind, kind))
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "struct":
        parts = (part.split(" ") for part in inner.split(", "))
        return pa.struct([(name, _arrow_type(of)) for name, of in parts])
    assert outer == "array", f"a column's type is one that is known, not {kind}"
    return pa.list_(_arrow_type(inner))


_PLACE = ("source string", "partition int", "offset bigint", "at_ms bigint")
_BY_DAY = ("day date", "bucket int")
_PARTITIONED = ("day", "bucket")

RECORDS = Table(
    "bronze",
    "records",
    (
        *_PLACE,
        "record_type int",  # the version of the key: 0 to 23, or an unknown number
        "value_version int",  # null of a tombstone
        "tombstone boolean",
        "group string",
        "member string",  # of types 5 7 8 10 13 14 19 21 22; of 16 the expression
        "topic string",  # these eight of types 0 and 1 only
        "topic_partition int",
        "committed_offset bigint",
        "leader_epoch int",
        "commit_metadata string",  # of bytes that are not UTF-8 their hex after `0x`
        "commit_at_ms bigint",
        "expire_at_ms bigint",
        "topic_id string",  # as Kafka writes it, 22 characters; null where the commit has none
        "producer_id bigint",  # of a transactional batch, else null
        "producer_epoch int",
        "transaction string",  # committed, aborted or open; null where there is none
        "fields string",  # JSON of the value, of types 2 and more; null of a tombstone and of types 0 and 1
        "run bigint",  # the run that read it
        *_BY_DAY,
    ),
    _PARTITIONED,
)
"""Decoded records. `fields` is the value as JSON, each field with Kafka's name in camel case (`memberEpoch`, as
kafka-dump-log writes it), topic ids as Kafka's text of 22 characters, numbers as numbers, absent tagged fields left out
or null. Bytes of a known layout are replaced by its fields:
- type 2: `members[].subscription` {version, topics, userData, ownedPartitions [{topic, partitions}], generationId,
  rackId} and `members[].assignment` {version, assignedPartitions [{topic, partitions}], userData}, where protocolType
  is `consumer` and they can be read; else {"hex": first 64 bytes, "length": n}. `userData` is hex (at most 64 bytes of
  it) or null. An empty assignment is null.
- type 5: `classicMemberMetadata.supportedProtocols[].metadata` likewise as a subscription.
Our own tag of type 2 is `awaitsSync`: true of a generation that formed and has no assignment yet.
"""

DECODED = Table(
    "state",
    "decoded",
    (
        *(column for column in RECORDS.columns if not column.startswith("run ")),
        "file string",
        "position bigint",
        "reason string",
        "sample string",
        "next_offset bigint",
    ),
)
"""The frame that decoding yields: three tables in one. A row with a `reason` belongs to the quarantine, one with a
`next_offset` is the position reached in a partition, all others are records. A transaction marker is a row without a
record type; later runs match it with the transaction's commits."""

QUARANTINE = Table(
    "bronze",
    "quarantine",
    (
        "source string",
        "file string",
        "partition int",
        "position bigint",
        "offset bigint",
        "reason string",
        "sample string",  # hex of at most 64 bytes
        "day date",
    ),
)

COUNTS = Table(
    "bronze",
    "counts",
    (
        "source string",
        "partition int",
        "record_type int",
        "kind string",  # the record type's name; `unknown` of an unknown one
        "records bigint",
        "tombstones bigint",
        "last_offset bigint",
    ),
)

TOPICS = Table(
    "bronze",
    "topics",
    (
        "source string",
        "topic_id string",
        "topic string",
        "partitions int",  # null where only the name is known
        "end_offsets array<bigint>",  # by partition, where the cluster was asked; lag is made of them
        "read_at_ms bigint",
    ),
)
"""Topic names, ids, partition counts and end offsets, as far as the inputs contain them."""

METRICS = Table(
    "bronze",
    "metrics",
    (
        "source string",
        "file string",
        "position bigint",
        "at_ms bigint",  # time of the sample, else the file's modification time
        "client_id string",
        "group string",
        "metric string",  # as the file spells it
        "topic string",
        "topic_partition int",
        "labels string",  # JSON of all other labels; null where there are none
        "value double",
    ),
)
"""Metrics of members: from Prometheus' text format, or JSON of `Consumer.metrics()`."""

STATE_CHANGES = Table(
    "bronze",
    "state_changes",
    (
        "source string",
        "file string",
        "position bigint",
        "at_ms bigint",  # time of the line, read as UTC
        "level string",
        "group string",
        "change string",  # kind of the line: see `CHANGES` in `inputs/broker_log.py`
        "epoch int",  # a generation, or an epoch of the group or member
        "member string",
        "instance string",
        "state string",  # of the group, before the change
        "reason string",
        "text string",  # the message
    ),
)
"""Lines about groups from the log of a Kafka broker."""

EVENTS = Table(
    "silver",
    "events",
    (
        *_PLACE,
        "group string",
        "kind string",  # classic, consumer, share, streams
        "event string",
        "epoch int",  # the generation, group epoch, target epoch or member epoch that the event is about
        "member string",
        "instance string",
        "client_id string",
        "host string",
        "partitions array<string>",  # `topic-7`; a topic whose name is unknown by its id; of streams `subtopology_7`
        "protocol string",  # classic, by the generation: `consumer`, `connect`, …
        "strategy string",  # the assignor that was chosen
        "cause string",
        "detail string",  # JSON
        *_BY_DAY,
    ),
    _PARTITIONED,
)
"""What happened to groups. The values of `event`:

- `joined`: a new member; `detail` {rebalance_timeout_ms}
- `left`: a member left: nothing in the log indicates an eviction
- `evicted`: a member was removed by a timeout, or fenced
- `rejoined`: a static member rejoined under a new member id; `detail` has the old one
- `paused`: a static member left temporarily (epoch -2)
- `generation_formed`: classic: a generation; `epoch` is its number, `detail` {members, owning}
- `generation_synced`: classic: its assignment was stored
- `generation_failed`: classic: a generation that formed and never got an assignment
- `epoch_bumped`: the group epoch increased
- `target`: the target assignment for `epoch` was stored
- `assigned`: a member owns `partitions` more than before
- `revoked`: a member gave `partitions` up
- `revoking`: a member was asked to give `partitions` up
- `lost`: a member that left or was evicted owned `partitions`
- `settled`: the rebalance is over; `detail` `{ms, moved, kept, failed}`
- `subscription_changed`
- `leader_changed`: classic
- `emptied`: the last member left
- `deleted`: the group's tombstone
- `converted`: the group changed its type
- `expired`: tombstones of its offsets while it had no members
- `rewound`: the committed offset of a partition went back; `detail` {topic, partition, from, to, producer: of a commit
  in a transaction}
- `unreadable`: a record with contradictory fields; skipped
- `corrected`: an earlier conclusion was wrong: records were compacted away between two runs
"""

OWNERSHIP = Table(
    "silver",
    "ownership",
    (
        "source string",
        "group string",
        "topic string",
        "topic_partition int",
        "member string",
        "client_id string",
        "from_ms bigint",
        "until_ms bigint",  # null while it owns it
        *_BY_DAY,  # the day it ended; of one that is open the day it began
    ),
    _PARTITIONED,
)
"""Intervals of partition ownership. A time without a row is a time without an owner. Share groups have no rows."""

GROUP_HOURS = Table(
    "gold",
    "group_hours",
    (
        "source string",
        "group string",
        "hour_ms bigint",
        "kind string",
        "strategy string",
        "rebalances int",
        "rebalances_failed int",
        "rebalance_ms_total bigint",
        "rebalance_ms_max bigint",
        "unowned_partition_seconds double",
        "partitions_moved int",
        "partitions_kept int",
        "stickiness double",  # share of partitions that stayed; null where nothing was assigned anew
        "commits bigint",
        "commit_rate double",  # per second of the hour
        "lag bigint",  # at the hour's last commit of each partition; null unless end offsets are known
        "members_min int",
        "members_max int",
        "joined int",
        "left int",
        "evicted int",
        "static_share double",  # of the members at the hour's end
        "protocols array<string>",
        "embedded_versions array<int>",
        "slowest_member string",  # the member that the hour's rebalances waited for longest; null where unknown
        "members int",  # at the hour's end
        "partitions int",  # owned or to be owned at the hour's end
        "last_at_ms bigint",  # the last record that counted
        *_BY_DAY,
    ),
    _PARTITIONED,
)

GROUPS = Table(
    "gold",
    "groups",
    (
        "source string",
        "group string",
        "kind string",
        "state string",  # Empty, Stable, CompletingRebalance, Assigning, Reconciling, Dead, Simple (offsets only)
        "epoch int",
        "members int",
        "static_members int",
        "partitions int",
        "topics array<string>",  # subscribed to
        "committed_topics array<string>",
        "strategy string",
        "protocol string",
        "supported_protocols array<string>",
        "embedded_versions array<int>",
        "has_user_data boolean",  # an assignment carries bytes of a custom assignor: it cannot be converted
        "client_ids array<string>",
        "hosts array<string>",
        "largest_share int",  # partitions of the member that owns most
        "smallest_share int",
        "idle_members int",  # members that own nothing
        "committed_partitions int",
        "lag bigint",
        "first_commit_ms bigint",
        "last_commit_ms bigint",
        "next_expiry_ms bigint",  # the earliest expiry that a commit itself names; null where none does
        "emptied_ms bigint",  # since when it has no members; null while it has
        "running_since_ms bigint",  # since when a rebalance runs; null where none does
        "first_seen_ms bigint",
        "last_seen_ms bigint",
        "records bigint",
        "rebalances int",
        "partition int",  # of `__consumer_offsets`
        "last_offset bigint",
        "bucket int",
    ),
)

FINDINGS = Table(
    "findings",
    "findings",
    (
        "source string",
        "group string",
        "finding string",
        "severity string",  # info, warning, critical
        "sentence string",
        "from_ms bigint",
        "until_ms bigint",
        "value double",
        f"evidence {EVIDENCE}",
        "advice string",
    ),
)

TABLES = (RECORDS, QUARANTINE, COUNTS, TOPICS, METRICS, STATE_CHANGES, EVENTS, OWNERSHIP, GROUP_HOURS, GROUPS, FINDINGS)
"""The public tables."""


_OF_COMMITS = frozenset(
    {"committed_topics", "committed_partitions", "lag", "first_commit_ms", "last_commit_ms", "next_expiry_ms"}
)
"""The columns of `groups` that come from the group's commits."""

STATE_GROUPS = Table(
    "state",
    "groups",
    (
        *(column for column in GROUPS.columns if column.split(" ")[0] not in _OF_COMMITS),
        "folded string",  # JSON of the fold's state, from which the next run continues
    ),
)
"""The folded state of every group, rewritten by each run."""

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
        "topic_id string",
        "commit_at_ms bigint",
        "expire_at_ms bigint",
        "first_ms bigint",
        "bucket int",
    ),
)
"""The last commit of each partition of each group."""

STATE_OPEN = Table("state", "open_ownership", OWNERSHIP.columns)
"""Open ownership intervals: rows of `ownership` without an end. Readers of `ownership` get both."""

STATE_PENDING = Table("state", "pending_commits", RECORDS.columns)
"""Commits of transactions whose marker has not been read yet."""

STATE_TABLES = (STATE_GROUPS, STATE_COMMITS, STATE_OPEN, STATE_PENDING)
"""The tables from which the next run continues."""

HOUR_PARTS = Table(GROUP_HOURS.layer, GROUP_HOURS.name, GROUP_HOURS.columns)
"""Parts of hours until a run has added them up; its files lie beside those of `group_hours` and are in no table."""

SETTLED = Table(STATE_PENDING.layer, STATE_PENDING.name, RECORDS.columns, ("bucket",))
"""Commits of transactions whose marker this run has read; its files are in no table, as those of `HOUR_PARTS`."""

RUNS = Table(
    "state",
    "runs",
    (
        "run bigint",
        "layout int",  # `LAYOUT` in `tables.py`; a run begins with tables of its own
        "published_at_ms bigint",
        "versions array<struct<table string, version bigint>>",  # of the Delta log of each table
        "positions array<struct<source string, partition int, offset bigint>>",  # where the next run begins
    ),
)
"""The runs that were published: which versions of the tables belong together."""
