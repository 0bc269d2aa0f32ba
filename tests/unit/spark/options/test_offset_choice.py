"""The grammar of `startingOffsets` and its kin: what wins over what, and what is refused with which words."""

from __future__ import annotations

import pytest

from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.model.ids import TopicPartition
from kohort.spark.options.offset_choice import choice_from

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


@pytest.mark.parametrize(("word", "end"), [("earliest", EARLIEST), ("LATEST", LATEST)])
def test_a_word_is_for_all_partitions(word, end):
    choice = choice_from({"startingOffsets": word}, "starting", default="latest")
    assert (choice.place(FIRST), choice.time(FIRST), choice.named()) == (end, None, None)


def test_a_missing_option_is_the_default():
    assert choice_from({}, "ending", default="latest").place(FIRST) == LATEST


def test_offsets_are_for_the_partitions_that_they_name():
    choice = choice_from({"endingoffsets": '{"flights": {"0": 23, "1": -1}}'}, "ending", default="latest")
    assert (choice.place(FIRST), choice.place(SECOND)) == (23, LATEST)
    assert choice.named() == {FIRST, SECOND}
    assert choice.place(TopicPartition("weather", 0)) is None


def test_a_time_for_all_wins_over_times_and_times_win_over_offsets():
    options = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"flights": {"0": 5}}',
        "startingTimestamp": "7",
    }
    choice = choice_from(options, "starting", default="latest")
    assert (choice.option, choice.time(FIRST), choice.time(SECOND)) == ("startingTimestamp", 7, 7)
    del options["startingTimestamp"]
    choice = choice_from(options, "starting", default="latest")
    assert (choice.option, choice.time(FIRST), choice.time(SECOND)) == ("startingOffsetsByTimestamp", 5, None)


def test_only_a_start_can_be_strict_about_its_time():
    options = {"startingTimestamp": "7", "endingTimestamp": "9"}
    assert choice_from(options, "starting", default="latest").is_strict
    assert not choice_from(options, "ending", default="latest").is_strict
    relaxed = options | {"startingOffsetsByTimestampStrategy": "latest"}
    assert not choice_from(relaxed, "starting", default="latest").is_strict


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "23"}, "startingOffsets='23': expected earliest, latest, or JSON"),
        ({"startingOffsets": '{"flights": {"zero": 1}}'}, "startingOffsets="),
        ({"startingOffsets": '{"flights": {"0": "1"}}'}, "startingOffsets="),
        ({"startingOffsets": '{"flights": {"0": true}}'}, "startingOffsets="),
        ({"startingOffsets": '{"flights": [0]}'}, "startingOffsets="),
        ({"startingOffsets": "{}"}, "startingOffsets="),
        ({"startingOffsets": "[" * 100_000}, "startingOffsets="),
        ({"startingOffsets": '{"flights": {"0": -3}}'}, "an offset is 0 or more, -2 for the earliest or -1"),
        ({"startingTimestamp": "noon"}, "startingTimestamp='noon': expected milliseconds"),
        ({"startingOffsetsByTimestamp": '{"flights": {"0": -1}}'}, "none is negative"),
        ({"startingOffsetsByTimestamp": "latest"}, "startingOffsetsByTimestamp='latest': expected JSON"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "expected error or latest"),
    ],
)
def test_what_cannot_be_read_names_the_option_and_what_it_takes(options, text):
    with pytest.raises(ValueError, match=text):
        choice_from(options, "starting", default="latest")
