"""The one table of settings: Kafka's names, types, defaults, bounds and what each does here.

Three kinds: the broker's own, and those of a topic and of a group, whose default is a broker setting. A setting that is
accepted only so that tools can store it says so in its text. It knows nothing of where values come from.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
HOUR_MS = 3_600_000


class Kind(Enum):
    """The type of a setting: its name in sentences and its number in DescribeConfigs."""

    BOOLEAN = ("a boolean (true or false)", 1)
    STRING = ("a string", 2)
    INT = ("an int", 3)
    LONG = ("a long", 5)
    DOUBLE = ("a number", 6)
    LIST = ("a list (comma-separated)", 7)
    PASSWORD = ("a password", 9)

    def __init__(self, noun: str, code: int) -> None:
        self.noun = noun
        self.code = code


class Setting(NamedTuple):
    """One setting. `default` is text as a file would hold it, or None; `choices` bounds a string or a list's items."""

    name: str
    kind: Kind
    default: str | None
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_dynamic: bool = False
    broker_names: tuple[str, ...] = ()
    """Of a topic's or a group's setting: the broker settings that give its default, the first that is set wins."""


_B, _S, _I, _L, _D, _A, _P = (
    Kind.BOOLEAN, Kind.STRING, Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.LIST, Kind.PASSWORD,
)  # fmt: skip
_STORED = "Accepted and stored for tools; has no effect on one broker."
_CLEANUP = ("delete", "compact")
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMPS = ("CreateTime", "LogAppendTime")
_PROTOCOLS = ("classic", "consumer")
_s = Setting

# fmt: off
_IDENTITY = [
    _s("node.id", _I, "1", "The number of this broker in Metadata and DescribeCluster.", 0, INT_MAX),
    _s("broker.rack", _S, None, "The rack that Metadata reports for this broker."),
    _s("listeners", _S, "PLAINTEXT://127.0.0.1:9092", "Where to listen: PLAINTEXT://HOST:PORT, one listener."),
    _s("advertised.listeners", _S, None, "Where clients shall connect to; the listener itself when not set."),
    _s("kohort.compatible", _S, None,
       "Behave as that version of Apache Kafka: what improves on it is off, unless its own setting says otherwise.",
       choices=("kafka-4.3",)),
    _s("kohort.sasl.plain.users", _P, None, "NAME:PASSWORD,…: when set, clients must pass SASL/PLAIN."),
]
_TOPICS = [
    _s("auto.create.topics.enable", _B, "true", "Whether Metadata creates topics that clients ask for."),
    _s("delete.topic.enable", _B, "true", "Whether DeleteTopics may delete."),
    _s("num.partitions", _I, "1",
       "Partitions of a topic that is created without a number.", 1, 100000, is_dynamic=True),
    _s("default.replication.factor", _I, "1", "Replication factor of created topics; one broker holds one.", 1, 1),
    _s("min.insync.replicas", _I, "1", _STORED, 1, INT_MAX, is_dynamic=True),
    _s("compression.type", _S, "producer",
       "Stored; batches stay as their producer compressed them.", choices=_CODECS, is_dynamic=True),
    _s("message.max.bytes", _I, "1048588", "The largest record batch that Produce takes.", 0, INT_MAX, is_dynamic=True),
]
_LOGS = [
    _s("log.segment.bytes", _I, "1073741824",
       "A segment is closed when it reaches this size.", 1024, INT_MAX, is_dynamic=True),
    _s("log.roll.ms", _L, None,
       "A segment is closed at this age; log.roll.hours when not set.", 1, LONG_MAX, is_dynamic=True),
    _s("log.roll.hours", _I, "168", "A segment is closed at this age.", 1, INT_MAX),
    _s("log.retention.ms", _L, None,
       "How long records are kept, -1 for ever; else log.retention.minutes.", -1, LONG_MAX, is_dynamic=True),
    _s("log.retention.minutes", _I, None, "How long records are kept; else log.retention.hours.", -1, INT_MAX),
    _s("log.retention.hours", _I, "168", "How long records are kept.", -1, INT_MAX),
    _s("log.retention.bytes", _L, "-1", "How much a partition keeps, -1 without limit.", -1, LONG_MAX, is_dynamic=True),
    _s("log.retention.check.interval.ms", _L, "300000", "How often retention is enforced.", 1, LONG_MAX),
    _s("log.index.interval.bytes", _I, "4096", "Bytes between two index entries.", 0, INT_MAX, is_dynamic=True),
    _s("log.index.size.max.bytes", _I, "10485760", _STORED, 4, INT_MAX, is_dynamic=True),
    _s("log.cleanup.policy", _A, "delete",
       "delete what is old or too much, compact to the last record of each key, or both.",
       choices=_CLEANUP, is_dynamic=True),
    _s("log.segment.delete.delay.ms", _L, "60000", _STORED, 0, LONG_MAX, is_dynamic=True),
    _s("log.preallocate", _B, "false", _STORED, is_dynamic=True),
    _s("unclean.leader.election.enable", _B, "false", _STORED, is_dynamic=True),
    _s("log.flush.interval.messages", _L, str(LONG_MAX),
       "Below its default, a reply waits for fsync; else the system decides.", 1, LONG_MAX, is_dynamic=True),
    _s("log.flush.interval.ms", _L, None, _STORED, 0, LONG_MAX, is_dynamic=True),
    _s("log.message.timestamp.type", _S, "CreateTime",
       "Whose time records carry.", choices=_TIMESTAMPS, is_dynamic=True),
    _s("log.message.timestamp.before.max.ms", _L, str(LONG_MAX),
       "How old a batch may be when it arrives.", 0, LONG_MAX, is_dynamic=True),
    _s("log.message.timestamp.after.max.ms", _L, "3600000",
       "How far ahead of our clock a batch may be.", 0, LONG_MAX, is_dynamic=True),
]
_CLEANER = [
    _s("log.cleaner.enable", _B, "true", "Whether logs with the policy compact are compacted."),
    _s("log.cleaner.backoff.ms", _L, "15000",
       "How often the cleaner looks for work when there was none.", 0, LONG_MAX, is_dynamic=True),
    _s("log.cleaner.min.cleanable.ratio", _D, "0.5",
       "A log is cleaned when more than this part of what may be cleaned is dirty.", 0, 1, is_dynamic=True),
    _s("log.cleaner.min.compaction.lag.ms", _L, "0",
       "How young a record may be for the cleaner to touch it.", 0, LONG_MAX, is_dynamic=True),
    _s("log.cleaner.max.compaction.lag.ms", _L, str(LONG_MAX),
       "How old a record may get before it is cleaned, whatever the ratio.", 1, LONG_MAX, is_dynamic=True),
    _s("log.cleaner.delete.retention.ms", _L, "86400000",
       "How long a tombstone stays once what it deletes is gone.", 0, LONG_MAX, is_dynamic=True),
    _s("log.cleaner.dedupe.buffer.size", _L, "134217728",
       "Memory for the keys of one cleaning; more keys take more cleanings.", 1048576, LONG_MAX, is_dynamic=True),
    _s("log.cleaner.io.max.bytes.per.second", _D, "1.7976931348623157E308",
       "How much the cleaner reads in a second at most.", 1, is_dynamic=True),
    _s("log.cleaner.threads", _I, "1", _STORED, 0, INT_MAX, is_dynamic=True),
]
_REQUESTS = [
    _s("socket.request.max.bytes", _I, "104857600",
       "The largest request; a larger one closes its connection.", 1, INT_MAX),
    _s("kohort.request.max.entries", _I, "20000",
       "How many entries the lists of one request may have together; a request with more closes its connection.",
       4096, INT_MAX),
    _s("connections.max.idle.ms", _L, "600000", "A connection that says nothing for so long is closed.", 1, LONG_MAX),
    _s("max.connections", _I, str(INT_MAX),
       "How many connections are open at once, no more than the limit of open files leaves; others are closed.",
       0, INT_MAX, is_dynamic=True),
    _s("fetch.max.bytes", _I, "57671680", "The most that one Fetch answers, its first batch excepted.", 1024, INT_MAX),
    _s("max.incremental.fetch.session.cache.slots", _I, "1000", "Fetch sessions (KIP-227) kept at most.", 0, INT_MAX),
    _s("max.request.partition.size.limit", _I, "2000", "Partitions in one DescribeTopicPartitions answer.", 1, INT_MAX),
    _s("producer.id.expiration.ms", _I, "86400000",
       "How long an idle producer's sequence is remembered.", 1, INT_MAX, is_dynamic=True),
]
_CONSUMER_GROUPS = [
    _s("group.consumer.session.timeout.ms", _I, "45000",
       "After what silence a member of a consumer group is out; a group's own setting goes before it.", 1, INT_MAX),
    _s("group.consumer.min.session.timeout.ms", _I, "45000",
       "The shortest session timeout that a group may set for itself.", 1, INT_MAX),
    _s("group.consumer.max.session.timeout.ms", _I, "60000",
       "The longest session timeout that a group may set for itself.", 1, INT_MAX),
    _s("group.consumer.heartbeat.interval.ms", _I, "5000",
       "How often members of consumer groups send heartbeats; a group's own setting goes before it.", 1, INT_MAX),
    _s("group.consumer.min.heartbeat.interval.ms", _I, "5000",
       "The shortest heartbeat interval that a group may set for itself.", 1, INT_MAX),
    _s("group.consumer.max.heartbeat.interval.ms", _I, "15000",
       "The longest heartbeat interval that a group may set for itself.", 1, INT_MAX),
    _s("group.consumer.assignment.interval.ms", _I, "1000",
       "How long after a target assignment the next is computed at the latest; sooner where that is cheap.", 0, 15000),
    _s("group.consumer.min.assignment.interval.ms", _I, "0",
       "The shortest assignment interval that a group may set for itself.", 0, INT_MAX),
    _s("group.consumer.max.assignment.interval.ms", _I, "15000",
       "The longest assignment interval that a group may set for itself.", 0, INT_MAX),
    _s("group.consumer.max.size", _I, str(INT_MAX), "How many members a consumer group may have.", 1, INT_MAX),
    _s("group.consumer.assignors", _A, "uniform,range",
       "The assignors that members may name; the first is that of members that name none."),
    _s("group.consumer.migration.policy", _S, "bidirectional",
       "Which conversions of groups with members are made: none, to the consumer protocol, from it, or both.",
       choices=("disabled", "upgrade", "downgrade", "bidirectional")),
    _s("group.consumer.regex.refresh.interval.ms", _I, "600000",
       "Accepted for tools; expressions are matched again whenever topics change.", 10000, INT_MAX),
    _s("kohort.group.migration.min.embedded.version", _I, "3",
       "The oldest version of embedded metadata whose members a group may take into the consumer protocol.", 0, 3),
    _s("kohort.group.migration.ignore.echoed.data", _B, "false",
       "Whether a group is converted whose assignments carry user data that is nothing but what their members said "
       "themselves, or the generation of cooperative-sticky. Kafka converts no group with user data in assignments."),
    _s("kohort.group.consumer.assignment.early", _B, "true",
       "Whether a target is computed before the assignment interval is over where that is cheap."),
    _s("kohort.group.consumer.heartbeat.settling.ms", _I, "500",
       "The interval that a member is told which has something to do or to wait for, where no heartbeat is parked; "
       "0: the group's own.", 0, INT_MAX),
    _s("kohort.group.consumer.heartbeat.park.ms", _I, "1000",
       "How long a consumer group's heartbeat with nothing to say waits for news at most; 0 answers at once.",
       0, INT_MAX),
    _s("kohort.group.consumer.heartbeat.park.stable.ms", _I, "3000",
       "The same for a member that has heard no news for half a minute.", 0, INT_MAX),
]
_GROUPS = [
    _s("group.coordinator.rebalance.protocols", _A, "classic,consumer",
       "The group protocols in force.", choices=_PROTOCOLS),
    _s("group.min.session.timeout.ms", _I, "6000",
       "The shortest session timeout a classic member may ask for.", 1, INT_MAX),
    _s("group.max.session.timeout.ms", _I, "1800000",
       "The longest session timeout a classic member may ask for.", 1, INT_MAX),
    _s("group.initial.rebalance.delay.ms", _I, "3000", "How long an empty group waits for more members.", 0, INT_MAX),
    _s("kohort.group.initial.quiet.ms", _I, "100",
       "An empty group waits no longer once no join came for so long; -1: always the whole delay.", -1, INT_MAX),
    _s("kohort.group.heartbeat.park", _B, "true",
       "Whether a heartbeat waits for news, up to its sender's interval, and eager members learn of a rebalance "
       "together; false answers each at once."),
    _s("kohort.group.commit.hold.ms", _I, "0",
       "How long the answer to a commit waits for its sender's parked heartbeat. Members with auto-commit then learn "
       "of each rebalance at once, and a synchronous commit takes as long; 0 answers both at once.", 0, INT_MAX),
    _s("kohort.group.requests.overtake", _B, "true",
       "Whether a member's commit and leave are carried out on arrival while its own JoinGroup or SyncGroup waits on "
       "the connection; false has them wait, as in Kafka."),
    _s("kohort.group.join.reasons", _B, "true",
       "Whether the reasons `blind` and `topic_metadata_change` of a JoinGroup act."),
    _s("kohort.group.leader.by.version", _B, "true",
       "Whether a member of a consumer group whose metadata cannot say what it owns leads only where nobody else can."),
    _s("kohort.group.events", _B, "true",
       "Whether what happens to groups is written to __kohort_group_events, from which `kohort explain` reads."),
    _s("kohort.extensions", _B, "true",
       "Whether fields of ours are offered and told in messages of Kafka's, as tagged fields that others skip."),
    _s("kohort.group.sync.hold.ms", _I, "1000",
       "How long members wait for their assignment while others must revoke and rejoin; 0 never lets them wait.",
       0, INT_MAX),
    _s("group.max.size", _I, str(INT_MAX), "How many members a classic group may have.", 1, INT_MAX),
    *_CONSUMER_GROUPS,
    _s("offsets.topic.num.partitions", _I, "50", "Partitions of __consumer_offsets, when it is created.", 1, INT_MAX),
    _s("offsets.topic.segment.bytes", _I, "104857600", "Segment size of __consumer_offsets.", 1, INT_MAX),
    _s("offsets.topic.replication.factor", _I, "1",
       "Replication factor of __consumer_offsets; one broker holds one.", 1, 1),
    _s("kohort.offsets.load.ignore", _A, "",
       "PARTITION@OFFSET,…: records of __consumer_offsets to go on without where they cannot be read."),
    _s("offset.metadata.max.bytes", _I, "4096", "The longest metadata text of a committed offset.", 0, INT_MAX),
    _s("offsets.retention.minutes", _I, "10080", "How long the offsets of an empty group are kept.", 1, INT_MAX),
    _s("offsets.retention.check.interval.ms", _L, "600000", "How often expired offsets are looked for.", 1, LONG_MAX),
]
# fmt: on

BROKER: dict[str, Setting] = {
    setting.name: setting for setting in (*_IDENTITY, *_TOPICS, *_LOGS, *_CLEANER, *_REQUESTS, *_GROUPS)
}


COMPATIBLE: dict[str, dict[str, str]] = {
    "kafka-4.3": {
        "kohort.group.heartbeat.park": "false",
        "kohort.group.consumer.heartbeat.park.ms": "0",
        "kohort.group.consumer.heartbeat.settling.ms": "0",
        "kohort.group.consumer.assignment.early": "false",
        "kohort.group.requests.overtake": "false",
        "kohort.group.sync.hold.ms": "0",
        "kohort.group.initial.quiet.ms": "-1",
        "kohort.group.join.reasons": "false",
        "kohort.group.leader.by.version": "false",
        "kohort.group.migration.min.embedded.version": "0",
        "kohort.group.events": "false",
        "kohort.extensions": "false",
        "kohort.request.max.entries": str(INT_MAX),
    }
}
"""What settings are worth by default where `kohort.compatible` names a version."""

NEWEST_VERSIONS: dict[str, dict[int, int]] = {"kafka-4.3": {18: 4, 42: 2}}
"""The newest version of APIs, by key, that came after the version which `kohort.compatible` names."""


def _topic() -> list[Setting]:
    def s(name: str, *broker_names: str) -> Setting:
        base = BROKER[broker_names[0]]
        return base._replace(name=name, is_dynamic=True, broker_names=broker_names)

    return [
        s("cleanup.policy", "log.cleanup.policy"),
        s("compression.type", "compression.type"),
        s("delete.retention.ms", "log.cleaner.delete.retention.ms"),
        s("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        s("flush.messages", "log.flush.interval.messages"),
        s("flush.ms", "log.flush.interval.ms")._replace(default=str(LONG_MAX)),
        s("index.interval.bytes", "log.index.interval.bytes"),
        s("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        s("max.message.bytes", "message.max.bytes"),
        s("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
        s("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
        s("message.timestamp.type", "log.message.timestamp.type"),
        s("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
        s("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
        s("min.insync.replicas", "min.insync.replicas"),
        s("preallocate", "log.preallocate"),
        s("retention.bytes", "log.retention.bytes"),
        s("retention.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        s("segment.bytes", "log.segment.bytes"),
        s("segment.index.bytes", "log.index.size.max.bytes"),
        s("segment.ms", "log.roll.ms", "log.roll.hours"),
        s("unclean.leader.election.enable", "unclean.leader.election.enable"),
    ]


TOPIC: dict[str, Setting] = {setting.name: setting for setting in _topic()}


def _group() -> list[Setting]:
    def s(name: str) -> Setting:
        of_broker = BROKER[f"group.{name}"]
        return of_broker._replace(name=name, default=None, is_dynamic=True, broker_names=(of_broker.name,))

    return [s("consumer.assignment.interval.ms"), s("consumer.heartbeat.interval.ms"), s("consumer.session.timeout.ms")]


GROUP: dict[str, Setting] = {setting.name: setting for setting in _group()}
"""What a consumer group may set for itself. A value outside the broker's bounds is kept, and works as the bound."""

UNIT_MS = {"hours": HOUR_MS, "minutes": 60_000, "ms": 1}
"""What the last word of a broker setting's name is worth in milliseconds, where a setting comes in several units."""
