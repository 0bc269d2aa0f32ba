"""A query's progress in its group is in the text that Spark shows as the latest offset of a source."""

from __future__ import annotations

import json

from kohort.spark.membership.group_progress import GroupProgress, group_progress

PROGRESS = GroupProgress("delays", "member-1", 4, 2, 30, 20, 3, 7)


def test_progress_is_read_from_latest_offsets_and_other_sources_have_none() -> None:
    own = json.dumps({"group": "delays", "generation": 4, "topics": {}} | PROGRESS.to_json())
    of_spark = '{"flights":{"0":12}}'
    assert list(group_progress([None, of_spark, own, "7", "no JSON", '"text"'])) == [PROGRESS]


def test_progress_as_text_is_one_line_for_a_log() -> None:
    assert str(PROGRESS) == (
        "group delays: generation 4, 2 partitions, lag 30 (longest 20), 3 rebalances, 7 offsets read again"
    )
