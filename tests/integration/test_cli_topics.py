"""`kohort topics` on a running broker."""

from __future__ import annotations

import pytest
from tests.integration.commands import Commands


def test_a_topic_is_created_shown_and_deleted(kohort: Commands) -> None:
    assert kohort("topics", "create", "flights", "--partitions", "2").out == "created flights with 2 partitions\n"
    assert ["flights", "2"] in kohort("topics", "list").rows
    described = kohort("topics", "describe", "flights")
    assert described.rows[0][:5] == ["flights:", "2", "partitions,", "0", "offsets,"]
    assert described.rows[2:] == [
        ["PARTITION", "LEADER", "EARLIEST", "LATEST"],
        ["0", "1", "0", "0"],
        ["1", "1", "0", "0"],
    ]
    assert kohort("topics", "delete", "--yes", "flights").out == "deleted flights\n"
    assert kohort("topics", "describe", "flights").status == 2


def test_a_topic_without_a_number_gets_the_brokers_number_of_partitions(kohort: Commands) -> None:
    assert kohort("topics", "create", "alone", "--json").json == {"name": "alone", "partitions": 1}


def test_settings_of_a_topic_are_shown_and_its_defaults_are_not(kohort: Commands) -> None:
    kohort("topics", "create", "kept", "--config", "retention.ms=1000", "--config", "segment.bytes=1048576")
    assert kohort("topics", "describe", "kept", "--json").json["configs"] == {
        "retention.ms": "1000",
        "segment.bytes": "1048576",
    }


def test_json_has_its_documented_fields(kohort: Commands) -> None:
    kohort("topics", "create", "fields")
    described = kohort("topics", "describe", "fields", "--json").json
    assert list(described) == ["name", "topic_id", "internal", "partitions", "configs"]
    assert described["partitions"] == [{"partition": 0, "leader": 1, "earliest": 0, "latest": 0}]
    (listed,) = [topic for topic in kohort("topics", "list", "--json").json if topic["name"] == "fields"]
    assert listed == {"name": "fields", "topic_id": described["topic_id"], "internal": False, "partitions": 1}
    assert kohort("topics", "delete", "--yes", "fields", "--json").json == {"name": "fields", "deleted": True}


def test_internal_topics_are_listed_only_when_asked_for(kohort: Commands) -> None:
    kohort("topics", "create", "seen")
    kohort("consume", "seen", "--group", "makes-the-offsets-topic", "--timeout-ms", "1")
    assert "__consumer_offsets" not in kohort("topics", "list").out
    assert "__consumer_offsets" in kohort("topics", "list", "--internal").out


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("create", "twice"), 1, "already exists"),
        (("create", "a/b"), 2, "'a/b' was not created"),
        (("create", "new", "--config", "retention.ms=soon"), 2, "retention.ms"),
        (("create", "new", "--config", "retention.sm=1"), 2, "retention.ms"),
        (("create", "new", "--config", "retention.ms"), 2, "is not NAME=VALUE"),
        (("create", "new", "--partitions", "0"), 2, "expected a whole number from 1 on"),
        (("create", "new", "--partitions", "many"), 2, "expected a whole number from 1 on"),
        (("describe", "twcie"), 2, "did you mean 'twice'?"),
        (
            ("delete", "nothing-like-it", "--yes"),
            2,
            "there is no topic 'nothing-like-it': `kohort topics list` lists them",
        ),
        (("create", "new", "--replication-factor", "3"), 2, "only 1 broker is registered"),
        (("delete", "__kohort_group_events", "--yes"), 2, "--force deletes it all the same"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    kohort: Commands, words: tuple[str, ...], status: int, sentence: str
) -> None:
    kohort("topics", "create", "twice")
    kohort("topics", "create", "__kohort_group_events")
    outcome = kohort("topics", *words)
    assert outcome.status == status
    assert sentence in outcome.err.splitlines()[-1]
    assert outcome.out == ""


def test_a_topic_gets_more_partitions_and_other_settings_and_its_defaults_back(kohort: Commands) -> None:
    kohort("topics", "create", "grown", "--partitions", "2", "--config", "segment.bytes=1048576")
    altered = kohort("topics", "alter", "grown", "--partitions", "5", "--config", "retention.ms=1000")
    assert altered.out == "grown has 5 partitions, 3 of them new\n  retention.ms=1000\n  segment.bytes=1048576\n"
    altered = kohort("topics", "alter", "grown", "--reset", "segment.bytes", "--json")
    assert altered.json == {"name": "grown", "partitions": 5, "configs": {"retention.ms": "1000"}}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "nothing to change: give --partitions, --config or --reset"),
        (("--partitions", "1"), "shrunk has 2 partitions, and partitions cannot be taken away"),
        (("--config", "retention.ns=1"), "retention.ns"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_made_changes_nothing(
    kohort: Commands, options: tuple[str, ...], sentence: str
) -> None:
    kohort("topics", "create", "shrunk", "--partitions", "2")
    outcome = kohort("topics", "alter", "shrunk", *options)
    assert outcome.status == 2
    assert sentence in outcome.err
    described = kohort("topics", "describe", "shrunk", "--json").json
    assert (len(described["partitions"]), described["configs"]) == (2, {})
