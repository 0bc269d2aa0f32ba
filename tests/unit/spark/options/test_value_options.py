"""The options of a source that decodes values."""

from __future__ import annotations

import pytest

from kohort.spark.options.source_options import SourceOptions

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
