"""The options of the source: what they mean, and the one sentence in which a wrong one is refused."""

from __future__ import annotations

import pytest

from kohort.assign import CapacityAssignor, RebalanceProtocol
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.model.ids import TopicPartition
from kohort.spark.options.member_options import MemberOptions
from kohort.spark.options.source_options import Kind, SourceOptions, check

BASE = {"kafka.bootstrap.servers": "a:9092", "subscribe": "flights", "group.id": "g"}
URL = {"schema.registry.url": "http://r:8081"}


def test_the_subject_of_a_single_topic_is_that_of_its_values() -> None:
    found = SourceOptions.parse(BASE | URL | {"deadLetterTopic": "bad", "schema.registry.timeout.ms": "5"})
    assert found.values is not None
    assert (found.values.subject, found.values.version) == ("flights-value", "latest")
    assert found.values.registry == URL | {"schema.registry.timeout.ms": "5"}
    assert (found.read.dead_letter_topic, found.read.group_id) == ("bad", "g")
    assert SourceOptions.parse(BASE).values is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"deadLetterTopic": "bad"}, "deadLetterTopic is for values that are decoded: set schema.registry.url"),
        ({"valueFormat": "avro"}, "valueFormat is for values that are decoded"),
        (URL | {"subscribe": "a,b"}, "the option valueSubject is missing: with several topics it has no default"),
        (URL | {"deadLetterTopic": "flights"}, "deadLetterTopic is flights, which is read"),
        (URL | {"valueFormat": "xml"}, "valueFormat='xml': expected avro or json"),
        ({"schema.registry.ulr": "http://r:8081"}, "has no option 'schema.registry.ulr'; did you mean"),
        ({"deadlettertopics": "x"}, "has no option 'deadlettertopics'; did you mean 'deadLetterTopic'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SourceOptions.parse(BASE | options)


SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
STREAM = SERVERS | {"subscribe": "flights", "group.id": "g"}


def refusal(options: dict[str, str], kind: Kind = "stream") -> str:
    with pytest.raises(ValueError) as raised:
        SourceOptions.parse(options, kind)
    return str(raised.value)


def member(**options: str) -> MemberOptions:
    found = SourceOptions.parse(STREAM | {name.replace("_", "."): value for name, value in options.items()}).member
    assert found is not None
    return found


def test_a_stream_needs_servers_topics_and_a_group_and_nothing_else() -> None:
    options = SourceOptions.parse(STREAM)
    assert (options.read.bootstrap_servers, options.topics) == ("localhost:9092", ("flights",))
    assert options.member == MemberOptions("g")
    assert (options.starting.end, options.read.fail_on_data_loss, options.read.include_headers) == (LATEST, True, False)
    assert options.limits.max_offsets is None


def test_a_batch_needs_no_group_and_begins_at_the_earliest_offsets() -> None:
    options = SourceOptions.parse(SERVERS | {"subscribe": "flights, weather"}, "batch")
    assert options.topics == ("flights", "weather")
    assert options.member is None
    assert options.starting.end == EARLIEST


def test_names_are_read_in_any_case_as_spark_hands_them_over() -> None:
    options = SourceOptions.parse({name.lower(): value for name, value in (STREAM | {"minPartitions": "7"}).items()})
    assert options.min_partitions == 7


def test_a_query_of_sparks_own_source_moves_by_the_name_of_the_format() -> None:
    options = SourceOptions.parse(
        SERVERS
        | {
            "subscribePattern": "fl.*",
            "startingOffsets": '{"flights": {"0": 5}}',
            "maxOffsetsPerTrigger": "1000",
            "failOnDataLoss": "FALSE",
            "kafka.group.id": "g",
            "kafkaConsumer.pollTimeoutMs": "512",
            "fetchOffset.numRetries": "3",
            "kafka.receive.buffer.bytes": "65536",
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": "2000000",
        }
    )
    assert options.pattern == "fl.*"
    assert options.starting.offsets == {TopicPartition("flights", 0): 5}
    assert (options.limits.max_offsets, options.read.fail_on_data_loss) == (1000, False)
    assert (options.read.isolation, options.read.fetch_bytes) == ("read_committed", 2_000_000)


def test_security_options_have_kafkas_names_and_are_passed_as_plain_values() -> None:
    scram = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": 'Login required username="u" password="p";',
    }
    settings = SourceOptions.parse(STREAM | scram).read
    assert settings.properties == {name.removeprefix("kafka."): value for name, value in scram.items()}


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({}, "stream", "the option kafka.bootstrap.servers is missing: it takes host:port"),
        (STREAM | {"kafka.bootstrap.servers": "here"}, "stream", "kafka.bootstrap.servers='here': expected HOST:PORT"),
        (SERVERS | {"group.id": "g"}, "stream", "one option of subscribe or subscribePattern is needed"),
        (STREAM | {"subscribePattern": "f.*"}, "stream", "there are subscribe or subscribePattern"),
        (SERVERS | {"subscribe": "f"}, "stream", "the option group.id is missing: it takes the name of the group"),
        (STREAM | {"assign": "{}"}, "stream", "a stream has no option assign: the group assigns partitions"),
        (STREAM | {"endingOffsets": "latest"}, "stream", "a stream has no option endingOffsets"),
        (STREAM | {"startingOffset": "earliest"}, "stream", "no option 'startingOffset'; did you mean"),
        (
            STREAM | {"kafka.sesion.timeout.ms": "9000"},
            "stream",
            "a stream has no option 'kafka.sesion.timeout.ms'; did you mean 'kafka.session.timeout.ms'",
        ),
        (SERVERS | {"kafka.my.own": "1"}, "write", "Kafka's clients have no setting my.own"),
        (
            STREAM | {"kafka.ssl.truststor.location": "f"},
            "stream",
            "; did you mean 'ssl.truststore.location'?",
        ),
        (
            STREAM
            | {"kafka.security.protocol": "SSL"}
            | dict.fromkeys(("kafka.ssl.truststore.location", "kafka.ssl.truststore.password"), "store.jks"),
            "stream",
            "ssl.truststore.location is no PEM file by ssl.truststore.type",
        ),
        (STREAM | {"onNewCheckpoint": "latest"}, "stream", "expected fail, group or startingOffsets"),
        (STREAM | {"startingOffsets": "first"}, "stream", "startingOffsets='first': expected earliest, latest, or"),
        (STREAM | {"startingOffsets": '{"flihgts": {"0": 5}}'}, "stream", "names flihgts, and subscribe is flights"),
        (
            SERVERS | {"subscribePattern": "f.*", "group.id": "g", "startingOffsets": '{"weather": {"0": 5}}'},
            "stream",
            "startingOffsets names weather, and subscribePattern is f.*: it takes topics that are read",
        ),
        (
            STREAM | {"protocol": "sticky"},
            "stream",
            "protocol='sticky': expected auto, eager, cooperative or consum",
        ),
        (
            STREAM | {"protocol": "consumer", "assignor": "capacity"},
            "stream",
            "assignor='capacity': expected uniform, range or standby with protocol=consumer",
        ),
        (STREAM | {"assignor": "by_hand"}, "stream", "for a custom one of the broker, set protocol, too"),
        (STREAM | {"onOffsetMismatch": "ignore"}, "stream", "expected fail, group or checkpoint"),
        (
            STREAM | {"maxOffsetsPerTrigger": "0"},
            "stream",
            "maxOffsetsPerTrigger='0': expected a whole number from 1",
        ),
        (
            STREAM | {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
            "stream",
            "minOffsetsPerTrigger=6: expected at most maxOffsetsPerTrigger, which is 5",
        ),
        (STREAM | {"maxTriggerDelay": "soon"}, "stream", "maxTriggerDelay='soon': expected a time such as 500ms"),
        (STREAM | {"failOnDataLoss": "no"}, "stream", "failOnDataLoss='no': expected true or false"),
        (STREAM | {"kafka.auto.offset.reset": "latest"}, "stream", "startingOffsets sets where"),
        (STREAM | {"kafka.enable.auto.commit": "true"}, "stream", "offsets are committed when a batch is finished"),
        (STREAM | {"kafka.group.protocol": "consumer"}, "stream", "use the option protocol"),
        (STREAM | {"kafka.sasl.kerberos.service.name": "k"}, "stream", "no setting 'sasl.kerberos.service.name'"),
        (STREAM | {"assignor.weight": "4"}, "stream", "only assignor=capacity uses it"),
        (STREAM | {"assignor": "capacity", "assignor.weight": "-1"}, "stream", "expected a number above 0"),
        (STREAM | {"kafka.heartbeat.interval.ms": "45000"}, "stream", "expected less than kafka.session.timeout.ms"),
        (
            SERVERS | {"subscribe": "f", "startingOffsets": "latest"},
            "batch",
            "startingOffsets=latest: expected earliest",
        ),
        (SERVERS | {"subscribe": "f", "endingOffsets": "earliest"}, "batch", "endingOffsets=earliest: expected"),
        (
            SERVERS | {"assign": '{"f": 0}'},
            "batch",
            'assign=\'{"f": 0}\': expected JSON such as {"flights": [0, 1]}',
        ),
        (SERVERS | {"kafka.transactional.id": "t"}, "write", "no option kafka.transactional.id: each task has an"),
        (SERVERS | {"kafka.partitioner.class": "P"}, "write", "no option kafka.partitioner.class: a row goes to"),
        (SERVERS | {"subscribePattern": "("}, "batch", "subscribePattern='(': expected a regular expression"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(options: dict[str, str], kind: Kind, sentence: str) -> None:
    text = refusal(options, kind)
    assert sentence in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("options", "protocol", "assignor"),
    [
        ({}, "auto", None),
        ({"assignor": "capacity"}, "cooperative", "capacity"),
        ({"assignor": "sticky"}, "eager", "sticky"),
        ({"assignor": "UNIFORM"}, "auto", "uniform"),
        ({"assignor": "standby"}, "auto", "standby"),
        ({"assignor": "standby", "protocol": "consumer"}, "consumer", "standby"),
        ({"assignor": "billing.assignors:by_hand", "protocol": "consumer"}, "consumer", "billing.assignors:by_hand"),
        ({"assignor": "byHand", "protocol": "auto"}, "auto", "byHand"),
        ({"protocol": "eager", "assignor": "range"}, "eager", "range"),
    ],
)
def test_an_assignor_alone_says_which_protocol_is_meant(
    options: dict[str, str], protocol: str, assignor: str | None
) -> None:
    found = member(**options)
    assert (found.protocol, found.assignor) == (protocol, assignor)


def test_a_job_is_weighed_by_its_cores_unless_it_says_otherwise() -> None:
    [by_cores] = member(assignor="capacity").assignors(cores=16)
    [by_word] = member(assignor="capacity", assignor_weight="2.5").assignors(cores=16)
    assert isinstance(by_cores, CapacityAssignor)
    assert isinstance(by_word, CapacityAssignor)
    assert (by_cores.weight, by_word.weight) == (16, 2.5)


def test_capacity_of_an_eager_member_is_eager() -> None:
    [eager] = member(assignor="capacity", protocol="eager").assignors(cores=1)
    assert eager.protocols == (RebalanceProtocol.EAGER,)


def test_a_sink_takes_no_topics_to_read_and_a_topic_to_write() -> None:
    of_spark = {"queryName": "copy", "checkpointLocation": "state"}
    options = SourceOptions.parse(SERVERS | of_spark | {"topic": "flights", "includeHeaders": "true"}, "write")
    assert (options.topic, options.read.include_headers) == ("flights", True)


def test_where_a_query_is_written_its_options_say_whether_it_is_a_stream() -> None:
    check(SERVERS | {"subscribe": "flights", "kafka.group.id": "g"})
    check(SERVERS | {"subscribe": "flights", "kafka.group.id": "g", "startingOffsets": "latest"})
    check(SERVERS | {"subscribe": "flights", "groupIdPrefix": "batch"})
    check(STREAM | {"endingOffsets": "latest"})
    with pytest.raises(ValueError, match=r"expected earliest.* in a batch; a stream needs the option group\.id"):
        check(SERVERS | {"subscribe": "flights", "startingOffsets": "latest"})
    with pytest.raises(ValueError, match=r"group\.id is missing: maxOffsetsPerTrigger is a stream's"):
        check(SERVERS | {"subscribe": "flights", "maxOffsetsPerTrigger": "5"})
    with pytest.raises(ValueError, match=r"groupIdPrefix: the group is named by group\.id"):
        check(STREAM | {"groupIdPrefix": "query"})
    with pytest.raises(ValueError, match="protocol='x'"):
        check(STREAM | {"protocol": "x"})
    with pytest.raises(ValueError, match="did you mean 'startingOffsets'"):
        check(SERVERS | {"subscribe": "flights", "startingOffset": "earliest"})
