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
from typing import TYPE_CHECKING, Literal

from kohort.client.arguments import bootstrap_addresses
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.client.config_file import connection_arguments
from kohort.model.ids import TopicPartition
from kohort.model.setting import DURATION, LONG, STRING, listed, refused, setting
from kohort.schemas.registry import PREFIX, RegistrySettings
from kohort.spark.options.member_options import MemberOptions, member_options
from kohort.spark.options.offset_choice import OffsetChoice, OffsetOptions, choice_from
from kohort.spark.options.option_values import Given, option_names
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange, ranges_from_json

if TYPE_CHECKING:
    from kohort.spark.schemas.value_decoder import Decoding, Format


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are decoded, as the options have it; `made` is what a stream has made of them already."""

    # fmt: off
    registry: Mapping[str, str] = field(default_factory=dict)
    subject: str | None = setting(None, "The subject whose schema the reader has; `TOPIC-value` where one topic is "
        "read.", kind=STRING, name="valueSubject")
    version: str = setting("latest", "The version of that schema.", name="valueSchemaVersion")
    schema: str | None = setting(None, "The reader's schema itself, instead of a subject.", kind=STRING,
        name="valueSchema")
    value_format: Format | None = setting(None, "What values are, where no registry has their schema.", kind=STRING,
        choices=("avro", "json"), name="valueFormat")
    made: str | None = setting(None, "Made by a stream for its own batches.", kind=STRING, name="decoding")
    # fmt: on

    @classmethod
    def parse(cls, given: Given, topics: tuple[str, ...]) -> ValueOptions | None:
        """Parse them; None where values stay bytes. Raises ValueError."""
        registry = {PREFIX + name: value for name, value in given.under(PREFIX).items()}
        found = given.values(cls)
        is_chosen = bool(found.keys() & {"subject", "schema", "made"})
        if not (registry or is_chosen):
            for name in ("deadLetterTopic", "valueFormat", "valueSchemaVersion"):
                if name in given:
                    raise ValueError(
                        f"{name} is for values that are decoded: set schema.registry.url, with valueSubject or"
                        " valueSchema"
                    )
            return None
        if not is_chosen:
            if len(topics) != 1:
                raise ValueError("the option valueSubject is missing: with several topics it has no default")
            found["subject"] = default_subject(topics)
        return cls(registry, **found)

    def decoding(self) -> Decoding:
        """Return how values are decoded. Raises ValueError, SchemaUnknown, RegistryUnavailable."""
        from kohort.spark.schemas.decoded_column import decoding
        from kohort.spark.schemas.value_decoder import Decoding

        if self.made is not None:
            return Decoding.from_json(self.made)
        return decoding(
            self.registry or None,
            subject=self.subject,
            version=self.version,
            schema=self.schema,
            value_format=self.value_format,
        )


def default_subject(topics: tuple[str, ...]) -> str | None:
    """Return the subject under which serializers register the values of a topic, if there is one topic."""
    return f"{topics[0]}-value" if len(topics) == 1 else None


Kind = Literal["stream", "batch", "write"]

# A batch is in no group: a prefix of the group's name has no effect.
_ONLY_BATCH = (
    *("assign", "groupIdPrefix", "ranges", "topicIds", "decoding"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
)
# Spark hands a streaming query's own options to its sink.
_ONLY_WRITE = ("topic", "checkpointLocation", "queryName")
# Of Spark's source, without effect here: timeouts and retries of its executors' consumers and its driver.
_WITHOUT_EFFECT = ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
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


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise refused("subscribe", text, "topics, such as flights,weather")
    return topics


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as cause:
        raise refused("subscribePattern", text, f"a regular expression ({cause})") from None
    return text


def _partitions(text: str) -> frozenset[TopicPartition]:
    wrong = refused("assign", text, 'JSON such as {"flights": [0, 1]}')
    try:
        topics = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(topics, dict) or not all(isinstance(numbers, list) for numbers in topics.values()):
        raise wrong
    numbers = [number for numbers in topics.values() for number in numbers]
    if not numbers or not all(type(each) is int and each >= 0 for each in numbers):
        raise wrong
    return frozenset(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)


def _ranges(text: str) -> tuple[OffsetRange, ...]:
    try:
        return tuple(ranges_from_json(text))
    except ValueError as error:
        raise ValueError(f"ranges is {text!r}: {error}") from None


def _topic_ids(text: str) -> dict[str, str]:
    try:
        return {topic: str(each) for topic, each in json.loads(text or "{}").items()}
    except (AttributeError, ValueError, RecursionError):
        raise refused("topicIds", text, 'JSON such as {"flights": "x2Bb5r9XTf6Y0kqXG1oQzQ"}') from None


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much a micro-batch of a stream reads; None does not limit it.

    Fewer than `min_offsets` offsets are left for later, until the last batch is `max_delay_ms` ago.
    """

    # fmt: off
    max_offsets: int | None = setting(None, "How many offsets a micro-batch reads at most.", 1, kind=LONG,
        name="maxOffsetsPerTrigger")
    min_offsets: int | None = setting(None, "Fewer offsets wait for later.", 1, kind=LONG, name="minOffsetsPerTrigger")
    max_bytes: int | None = setting(None, "How many bytes a micro-batch reads, about.", 1, kind=LONG,
        name="maxBytesPerTrigger")
    max_delay_ms: int = setting(15 * 60_000, "How long fewer offsets than minOffsetsPerTrigger wait.", kind=DURATION,
        name="maxTriggerDelay")
    # fmt: on


NO_LIMITS = TriggerLimits()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options as values. Of `topics`, `pattern` and `assigned` one is given.

    `member` are the options of a stream as a member. `ranges` are a batch's exact offsets, instead of all others that
    state what is read. `values` are the options that decode values. `topic` is a sink's, which uses of `read` what
    leads to the cluster.
    """

    # fmt: off
    kind: Kind
    read: ReadSettings
    topics: tuple[str, ...] = setting((), "Topics to read, separated by commas.", kind=STRING, reader=_topics,
        name="subscribe")
    pattern: str | None = setting(None, "Topics whose whole names match this expression of Python.", kind=STRING,
        reader=_pattern, name="subscribePattern")
    assigned: frozenset[TopicPartition] = setting(frozenset(), "Partitions by topic, as JSON, for a batch.",
        kind=STRING, reader=_partitions, name="assign")
    ranges: tuple[OffsetRange, ...] | None = setting(None, "Exact offsets, as a round has them, for a batch.",
        kind=STRING, reader=_ranges)
    topic_ids: Mapping[str, str] = setting({}, "The ids that topics must have, as JSON, for a batch.", kind=STRING,
        reader=_topic_ids, name="topicIds")
    starting: OffsetChoice = _LATEST_START
    ending: OffsetChoice = _LATEST_END
    member: MemberOptions | None = None
    topic: str | None = setting(None, "A sink's topic, where rows have no column topic.", kind=STRING)
    limits: TriggerLimits = NO_LIMITS
    min_partitions: int | None = setting(None, "How many tasks a micro-batch or batch has at least.", 1, kind=LONG,
        name="minPartitions")
    max_records_per_partition: int | None = setting(None, "How many offsets a task reads at most.", 1, kind=LONG,
        name="maxRecordsPerPartition")
    allow_auto_create_topics: bool = setting(False, "Whether the broker may create a topic that is missing.",
        name="kafka.allow.auto.create.topics")
    values: ValueOptions | None = None
    # fmt: on

    @classmethod
    def parse(cls, options: Mapping[str, str], kind: Kind = "stream") -> SourceOptions:
        """Parse the options for this kind of use. Raises ValueError."""
        given = Given(options)
        _refuse(given, kind)
        servers = given.required("host:port, or several with commas between them", "kafka.bootstrap.servers")
        bootstrap_addresses(servers, "kafka.bootstrap.servers")
        if kind != "write":
            _check_ways(given, kind)
        own = given.values(cls)
        properties = _security(given.under("kafka."))
        read = ReadSettings(servers, properties=properties, **given.values(ReadSettings))
        if kind == "write":
            return cls(kind, read, **own)
        return cls(
            kind,
            read,
            **own,
            starting=choice_from(options, "starting", default="latest" if kind == "stream" else "earliest"),
            ending=choice_from(options, "ending", default="latest"),
            member=member_options(given) if kind == "stream" else None,
            limits=_limits(given) if kind == "stream" else NO_LIMITS,
            values=ValueOptions.parse(given, own.get("topics", ())),
        )._checked()

    def with_decoding(self) -> SourceOptions:
        """Return these options with the reader's schema. Raises ValueError, SchemaUnknown, RegistryUnavailable."""
        if self.values is None:
            return self
        return replace(self, read=replace(self.read, decoding=self.values.decoding()))

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


_OPTIONS = (
    *("kafka.bootstrap.servers", *_WITHOUT_EFFECT, *option_names(RegistrySettings)),
    *option_names(SourceOptions, OffsetOptions, ReadSettings, ValueOptions, MemberOptions, TriggerLimits),
)


def check(options: Mapping[str, str]) -> SourceOptions:
    """Refuse wrong options in `load()`, when it is not known whether it is a batch or a stream. Raises ValueError."""
    given = Given(options)
    limits = [name for name in option_names(TriggerLimits) if name in given]
    if limits and not any(name in given for name in ("group.id", "kafka.group.id")):
        raise ValueError(
            f"the option group.id is missing: {limits[0]} is a stream's, and a stream is a member of a group; a batch"
            f" does without {limits[0]}"
        )
    is_batch = any(name in given for name in _ONLY_BATCH if name != "groupIdPrefix")
    is_stream = any(name in given for name in (*option_names(MemberOptions), "kafka.group.id"))
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
    own = {"stream": (), "batch": _ONLY_BATCH, "write": _ONLY_WRITE}
    known = [name for name in _OPTIONS if name not in _ONLY_BATCH + _ONLY_WRITE] + [*own[kind]]
    # `_security` checks the settings that secure a connection.
    secured = [name for name in given.under("kafka.") if name.startswith(_SECURES)]
    given.refuse_unknown(_OWNERS[kind], known, (*_KAFKA_NAMES, *secured))


def _security(properties: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in properties.items() if name.startswith(_SECURES)}
    try:
        connection_arguments(found)
    except (ValueError, OSError) as error:
        raise ValueError(f"kafka.*: {error}") from None
    return found


def _check_ways(given: Given, kind: Kind) -> None:
    """Refuse more or fewer than one option that selects topics. Raises ValueError."""
    ways = ("subscribe", "subscribePattern", *(("assign", "ranges") if kind == "batch" else ()))
    used = [name for name in ways if name in given]
    if len(used) != 1:
        what = f"there are {listed(used)}" if used else "there is none"
        raise ValueError(f"one option of {listed(ways[:3])} is needed to select topics: {what}")
    given.required("topics, such as flights,weather", used[0])


def _limits(given: Given) -> TriggerLimits:
    found = TriggerLimits(**given.values(TriggerLimits))
    if found.min_offsets and found.max_offsets and found.min_offsets > found.max_offsets:
        raise ValueError(
            f"minOffsetsPerTrigger={found.min_offsets}: expected at most maxOffsetsPerTrigger, which is"
            f" {found.max_offsets}"
        )
    return found
