"""Range and round robin give what Java's assignors gave for the same groups, static members and racks included.

`java_cases.jsonl` holds random groups and what kafka-clients 4.3.1 assigned; a topic is its partitions' replica racks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kohort.assign import Assignor, GroupSpec, MemberSpec, RangeAssignor, RoundRobinAssignor, TopicSpec
from kohort.model.subscription import Subscription

CASES = [json.loads(line) for line in (Path(__file__).parent / "java_cases.jsonl").read_text().splitlines()]
ASSIGNORS: dict[str, Assignor] = {"range": RangeAssignor(), "roundrobin": RoundRobinAssignor()}


def group(case: dict[str, Any]) -> GroupSpec:
    members = {
        member: MemberSpec(Subscription(tuple(each["topics"]), rack=each["rack"]), each["instance"])
        for member, each in case["members"].items()
    }
    topics = {
        topic: TopicSpec(len(racks), tuple(frozenset(held) for held in racks))
        for topic, racks in case["topics"].items()
        if racks
    }
    return GroupSpec(members, topics)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_assignment_is_java_s(number: int) -> None:
    case = CASES[number]
    found = ASSIGNORS[case["assignor"]].assign(group(case))
    assert {member: sorted(map(str, held.partitions)) for member, held in found.items()} == case["expected"]
