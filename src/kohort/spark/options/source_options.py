"""The options of `format("kohort")`: those of Spark's own Kafka source and sink, with the same meaning, and ours.

The law: a wrong option is an error of one sentence with its name and the values that it takes, before a cluster is
asked and before Spark starts a job. An unknown name is refused: a typing error must not change what is read. Settings
of Kafka's clients (`kafka.…`) that have no effect here are accepted, so that a query changes only its format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from kohort.client.arguments import bootstrap_addresses
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.client.config_file import reach
from kohort.model.ids import TopicPartition
from kohort.model.setting import listed
from kohort.spark.options.member_options import MemberOptions, member_options
from kohort.spark.options.offset_choice import OffsetChoice, choice_from
from kohort.spark.options.option_values import Given
from kohort.spark.options.value_options import VALUE_OPTIONS, ValueOptions
from kohort.spark.rows.read_settings import FETCH_BYTES, Isolation, ReadSettings
from kohort.spark.rows.rounds import OffsetRange, ranges_from_json

Kind = Literal["stream", "batch", "write"]

_EVERYWHERE = ("kafka.bootstrap.servers", "includeHeaders")
_READ = (
    *_EVERYWHERE,
    *("subscribe", "subscribePattern", "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition"),
    *("isolationLevel", "fetchBytes"),
    *VALUE_OPTIONS,
    # Of Spark's source, without effect here: timeouts and retries of its executors' consumers and its driver.
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
)
_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay")
KNOWN: dict[Kind, tuple[str, ...]] = {
    "stream": (
        *_READ,
        *_LIMITS,
        *("group.id", "protocol", "assignor", "assignor.weight", "instance.id", "onOffsetMismatch", "onNewCheckpoint"),
        *("boundPartitions", "allowSharedState"),
    ),
    # A batch is in no group: a prefix of the group's name has no effect.
    "batch": (
        *(*_READ, "assign", "groupIdPrefix", "ranges", "topicIds", "decoding"),
        *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    ),
    # Spark hands a streaming query's own options to its sink.
    "write": (*_EVERYWHERE, "topic", "checkpointLocation", "queryName"),
}
"""The options of each kind of use, beside `kafka.*`."""

_OWNERS: dict[Kind, str] = {"stream": "a stream", "batch": "a batch", "write": "a sink"}
_REFUSED = {
    "auto.offset.reset": "startingOffsets sets where a partition without a committed offset begins",
    "enable.auto.commit": "offsets are committed when a batch is finished",
    "key.deserializer": "keys are binary; cast them in the query",
    "value.deserializer": "values are binary; cast them in the query",
    "key.serializer": "keys are written as they are",
    "value.serializer": "values are written as they are",
    "interceptor.classes": "there are no interceptors",
}
_NOT_FOR_TASKS = {
    "transactional.id": "each task has an idempotent producer, and no transaction spans the tasks",
    "partitioner.class": "a row goes to the partition of its column partition, else to that of its key by Kafka's hash",
}
_SECURES = ("security.", "ssl.", "sasl.", "enable.ssl.")
_ONLY_STREAM = (
    "group.id",
    "kafka.group.id",
    "protocol",
    "assignor",
    "instance.id",
    "onOffsetMismatch",
    "onNewCheckpoint",
    "boundPartitions",
    "allowSharedState",
)
_NOT_FOR_MEMBERS = {
    "assign": "the group assigns partitions: name topics by subscribe or subscribePattern",
    "groupIdPrefix": "the group is named by group.id",
    "endingOffsets": "a stream has no end; trigger(availableNow=True) stops at the latest offsets",
    "endingTimestamp": "a stream has no end; trigger(availableNow=True) stops at the latest offsets",
    "endingOffsetsByTimestamp": "a stream has no end; trigger(availableNow=True) stops at the latest offsets",
}


_NAMES = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size bootstrap.controllers
    bootstrap.servers buffer.memory check.crcs client.dns.lookup client.id client.rack
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level config.providers
    connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms enable.auto.commit enable.idempotence
    enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer key.serializer
    linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
    share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.deserializer value.serializer
"""
_KAFKA_NAMES = frozenset(_NAMES.split())
"""Settings of `ConsumerConfig`, `ProducerConfig` and `AdminClientConfig` of Kafka 4.3, but those of security.

An option `kafka.…` that is none of them is a typing error."""

_LATEST_START = OffsetChoice("startingOffsets", end=LATEST)
_LATEST_END = OffsetChoice("endingOffsets", end=LATEST)


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much a micro-batch of a stream reads; None does not limit it.

    Fewer than `min_offsets` offsets are left for later, until the last batch is `max_delay_ms` ago.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = 15 * 60_000


NO_LIMITS = TriggerLimits()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options as values. Of `topics`, `pattern` and `assigned` one is given.

    `member` are the options of a stream as a member. `ranges` are a batch's exact offsets, instead of all others that
    state what is read. `values` are the options that decode values. `topic` is a sink's, which uses of `read` what
    leads to the cluster.
    """

    kind: Kind
    read: ReadSettings
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] = frozenset()
    ranges: tuple[OffsetRange, ...] | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    starting: OffsetChoice = _LATEST_START
    ending: OffsetChoice = _LATEST_END
    member: MemberOptions | None = None
    topic: str | None = None
    limits: TriggerLimits = NO_LIMITS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    allow_auto_create_topics: bool = False
    values: ValueOptions | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], kind: Kind = "stream") -> SourceOptions:
        """Parse the options for this kind of use. Raises ValueError."""
        given = Given(options)
        _refuse(given, kind)
        servers = given.required("kafka.bootstrap.servers", "host:port, or several with commas between them")
        bootstrap_addresses(servers, "kafka.bootstrap.servers")
        read = ReadSettings(
            servers,
            include_headers=given.truth("includeHeaders", default=False),
            client_id=given.text("kafka.client.id") or "kohort",
            properties=_security(given.under("kafka.")),
        )
        creates = given.truth("kafka.allow.auto.create.topics", default=False)
        if kind == "write":
            return cls(kind, read, topic=given.text("topic") or None, allow_auto_create_topics=creates)
        what = _what(given, kind)
        return cls(
            kind,
            replace(
                read,
                group_id=given.text("group.id", "kafka.group.id") or "",
                dead_letter_topic=given.text("deadLetterTopic") or "",
                fetch_bytes=given.number("fetchBytes", "kafka.max.partition.fetch.bytes", least=1) or FETCH_BYTES,
                isolation=_isolation(given),
                fail_on_data_loss=given.truth("failOnDataLoss", default=True),
                client_rack=given.text("kafka.client.rack") or "",
            ),
            *what,
            topic_ids=_topic_ids(given),
            starting=choice_from(options, "starting", default="latest" if kind == "stream" else "earliest"),
            ending=choice_from(options, "ending", default="latest"),
            member=member_options(given) if kind == "stream" else None,
            limits=_limits(given) if kind == "stream" else NO_LIMITS,
            min_partitions=given.number("minPartitions", least=1),
            max_records_per_partition=given.number("maxRecordsPerPartition", least=1),
            allow_auto_create_topics=creates,
            values=ValueOptions.parse(given, what[0]),
        )._checked()

    def with_decoding(self) -> SourceOptions:
        """Return these options with the reader's schema. Raises ValueError, SchemaUnknown, RegistryUnavailable."""
        return self if self.values is None else replace(self, read=self.values.resolved(self.read))

    def _checked(self) -> SourceOptions:
        choice = self.starting
        letters = self.read.dead_letter_topic
        if letters and self._is_read(TopicPartition(letters, 0)):
            raise ValueError(f"deadLetterTopic is {letters}, which is read: its records would be bad again")
        if self.kind == "batch" and (choice.end == LATEST or LATEST in choice.offsets.values()):
            raise ValueError(
                f"{choice.option}=latest: expected earliest, -2 or offsets per partition in a batch; a stream"
                " needs the option group.id"
            )
        if self.kind == "stream" and (
            others := {each.topic for each in choice.named() or () if not self._is_read(each)}
        ):
            what = f"subscribe is {','.join(self.topics)}" if self.topics else f"subscribePattern is {self.pattern}"
            raise ValueError(
                f"{choice.option} names {listed(sorted(others))}, and {what}: it takes topics that are read"
            )
        if self.kind == "batch" and (self.ending.end == EARLIEST or EARLIEST in self.ending.offsets.values()):
            raise ValueError(f"{self.ending.option}=earliest: expected latest, -1 or offsets per partition")
        return self

    def _is_read(self, partition: TopicPartition) -> bool:
        return partition.topic in self.topics or bool(self.pattern and re.fullmatch(self.pattern, partition.topic))


def check(options: Mapping[str, str]) -> SourceOptions:
    """Refuse wrong options in `load()`, when it is not known whether it is a batch or a stream. Raises ValueError."""
    given = Given(options)
    limits = [name for name in _LIMITS if name in given]
    if limits and not any(name in given for name in ("group.id", "kafka.group.id")):
        raise ValueError(
            f"the option group.id is missing: {limits[0]} is a stream's, and a stream is a member of a group; a batch"
            f" does without {limits[0]}"
        )
    is_batch = any(name in given for name in set(KNOWN["batch"]) - set(KNOWN["stream"]) - {"groupIdPrefix"})
    is_stream = any(name in given for name in _ONLY_STREAM)
    return SourceOptions.parse(options, "stream" if is_stream and not is_batch else "batch")


def _refuse(given: Given, kind: Kind) -> None:
    """Refuse options that have no meaning for this kind of use. Raises ValueError."""
    for name, why in _REFUSED.items():
        if f"kafka.{name}" in given:
            raise ValueError(f"the option kafka.{name} cannot be set: {why}")
    if kind == "write":
        for name, why in _NOT_FOR_TASKS.items():
            if f"kafka.{name}" in given:
                raise ValueError(f"a sink has no option kafka.{name}: {why}")
    if kind == "stream":
        for name, why in _NOT_FOR_MEMBERS.items():
            if name in given:
                raise ValueError(f"a stream has no option {name}: {why}")
    # A batch and a sink are in no group: a stream's options are accepted there without effect.
    known = KNOWN["stream"] + (KNOWN[kind] if kind != "stream" else ())
    # `_security` checks the settings that secure a connection.
    secured = [name for name in given.under("kafka.") if name.startswith(_SECURES)]
    given.refuse_unknown(_OWNERS[kind], known, (*_KAFKA_NAMES, *secured))


def _security(properties: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in properties.items() if name.startswith(_SECURES)}
    try:
        reach(found)
    except (ValueError, OSError) as error:
        raise ValueError(f"kafka.*: {error}") from None
    return found


def _what(
    given: Given, kind: Kind
) -> tuple[tuple[str, ...], str | None, frozenset[TopicPartition], tuple[OffsetRange, ...] | None]:
    """Return topics, pattern, partitions and ranges to read, of which one is given. Raises ValueError."""
    ways = ("subscribe", "subscribePattern", *(("assign", "ranges") if kind == "batch" else ()))
    used = [name for name in ways if name in given]
    if len(used) != 1:
        what = f"there are {listed(used)}" if used else "there is none"
        raise ValueError(f"one option of {listed(ways[:3])} is needed to select topics: {what}")
    text = given.required(used[0], "topics, such as flights,weather")
    match used[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
            if not topics:
                raise ValueError(f"subscribe={text!r}: expected topics, such as flights,weather")
            return topics, None, frozenset(), None
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as cause:
                raise ValueError(f"subscribePattern={text!r}: expected a regular expression ({cause})") from None
            return (), text, frozenset(), None
        case "assign":
            return (), None, _partitions(text), None
    try:
        return (), None, frozenset(), tuple(ranges_from_json(text))
    except ValueError as error:
        raise ValueError(f"ranges is {text!r}: {error}") from None


def _topic_ids(given: Given) -> dict[str, str]:
    text = given.text("topicIds") or "{}"
    try:
        return {topic: str(each) for topic, each in json.loads(text).items()}
    except (AttributeError, ValueError, RecursionError):
        raise ValueError(f'topicIds={text!r}: expected JSON such as {{"flights": "x2Bb5r9XTf6Y0kqXG1oQzQ"}}') from None


def _partitions(text: str) -> frozenset[TopicPartition]:
    wrong = ValueError(f'assign={text!r}: expected JSON such as {{"flights": [0, 1]}}')
    try:
        topics = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(topics, dict) or not topics:
        raise wrong
    found = set()
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(type(each) is int and each >= 0 for each in numbers):
            raise wrong
        found |= {TopicPartition(topic, number) for number in numbers}
    if not found:
        raise wrong
    return frozenset(found)


def _isolation(given: Given) -> Isolation:
    allowed: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
    return given.choice("isolationLevel", allowed, "read_uncommitted", "kafka.isolation.level")


def _limits(given: Given) -> TriggerLimits:
    found = TriggerLimits(
        given.number("maxOffsetsPerTrigger", least=1),
        given.number("minOffsetsPerTrigger", least=1),
        given.number("maxBytesPerTrigger", least=1),
        given.duration_ms("maxTriggerDelay", NO_LIMITS.max_delay_ms),
    )
    if found.min_offsets and found.max_offsets and found.min_offsets > found.max_offsets:
        raise ValueError(
            f"minOffsetsPerTrigger={found.min_offsets}: expected at most maxOffsetsPerTrigger, which is"
            f" {found.max_offsets}"
        )
    return found
