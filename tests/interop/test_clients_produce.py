"""Producing with other people's clients: every codec, idempotent and not, read back by all of them."""

from __future__ import annotations

import pytest
from interop.brokers import Broker
from interop.group import LIBRARIES, Group, check_keys, keyed, merged
from interop.producers import CODECS, produce

pytestmark = pytest.mark.timeout(120)
PRODUCERS = (*LIBRARIES, "kohort")
IMPORTS = {"kohort": "kohort", "librdkafka": "confluent_kafka", "kafka_python": "kafka", "aiokafka": "aiokafka"}


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("library", PRODUCERS)
@pytest.mark.capability("{library}", "produce, {codec}")
def test_producer_gets_the_offset_of_each_record(
    library: str, codec: str, idempotent: bool, broker: Broker, topic: str
) -> None:
    pytest.importorskip(IMPORTS[library])
    written = produce(library, broker.bootstrap, topic, keyed(400, 13), codec=codec, idempotent=idempotent)
    check_keys(written, is_ordered=idempotent)
    ends = {partition: max(o for p, o in written if p == partition) + 1 for partition, _ in written}
    assert sum(ends.values()) == len(written), "the offsets have a hole or start above 0"


@pytest.mark.parametrize("reader", PRODUCERS)
@pytest.mark.capability("{reader}", "read batches of every codec and producer")
def test_every_codec_of_every_producer_is_read(reader: str, broker: Broker, group: Group) -> None:
    pytest.importorskip(IMPORTS[reader])
    written = merged(
        produce(library, broker.bootstrap, group.topic, keyed(60, 7), codec=codec)
        for library in PRODUCERS
        for codec in CODECS
    )
    group.start(reader)
    group.drain(written)
    group.check(written)
