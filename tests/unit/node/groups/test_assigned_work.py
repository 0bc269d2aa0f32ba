"""Assignments of Kafka Connect and Kafka Streams in events: who runs which connectors and tasks."""

from __future__ import annotations

from struct import pack

import pytest
from tests.unit.wire.test_embedded_protocols import ASSIGNED_4_3, HEAD, SUBSCRIBED_4_3, TASKS, text

from kohort.group.events import GroupStored, StoredMember
from kohort.model.assignment import Assignment
from kohort.model.cause import Cause, CauseKind
from kohort.model.subscription import Subscription
from kohort.node.groups.event_fields import Noted, assigned_work, event_fields
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription

NOTHING = pack(">h", 2) + HEAD[: -len(TASKS)] + pack(">ii", -1, -1) + pack(">i", 4_000)


def stored(kind: str, protocol: str, **members: tuple[bytes, bytes]) -> GroupStored:
    each = [StoredMember(name, None, name, "/192.0.2.1", 60_000, 10_000, *blobs) for name, blobs in members.items()]
    return GroupStored("g", kind, 1, protocol, "a", 5, tuple(each), Cause(CauseKind.LEADER_SYNCED, 5, "a"))


def worker(url: str, allocation: bytes = b"") -> bytes:
    return pack(">h", 1) + text(url) + pack(">q", 7) + pack(">i", len(allocation) or -1) + allocation


def test_workers_of_connect_run_what_they_ran_and_what_is_new_without_what_is_revoked() -> None:
    ran = pack(">h", 1) + HEAD + pack(">ii", -1, 0)
    revoked = pack(">i", 1) + text("sink") + pack(">ii", 1, 0)
    given = pack(">h", 2) + HEAD[: -len(TASKS)] + pack(">i", -1) + revoked + pack(">i", 0)
    event = stored("connect", "sessioned", a=(worker("http://a/", ran), given), b=(worker("http://b/"), NOTHING))
    assert event_fields(Noted(event))["work"] == {
        "members": {
            "a": {"url": "http://a/", "runs": ["sink", "source-0"], "gives_up": ["sink-0"]},
            "b": {"url": "http://b/", "runs": [], "gives_up": []},
        },
        "leader_url": "http://a/",
        "config_offset": 7,
        "delay_ms": 4_000,
    }


def test_threads_of_streams_run_tasks_and_have_copies_of_others() -> None:
    sent = encode_subscription(Subscription(("words",), SUBSCRIBED_4_3))
    given = encode_assignment(Assignment(frozenset(), ASSIGNED_4_3))
    new = encode_subscription(Subscription(("words",))), b""
    assert event_fields(Noted(stored("consumer", "stream", a=(sent, given), b=new)))["work"] == {
        "members": {
            "a": {
                "process": "91abef59-1008-4caa-8a10-e08f6f6c3384",
                "runs": ["0_0", "1_0"],
                "copies": ["1_1"],
                "ran": ["1_0"],
                "offsets": {"1_1": 5},
            },
            "b": {"process": "", "runs": [], "copies": [], "ran": [], "offsets": {}},
        },
        "next_rebalance_ms": None,
    }


@pytest.mark.parametrize(
    ("kind", "protocol"), [("connect", "sessioned"), ("consumer", "stream"), ("consumer", "range")]
)
def test_what_cannot_be_read_and_other_groups_have_no_work(kind: str, protocol: str) -> None:
    assert assigned_work(stored(kind, protocol, a=(b"\0\1\2", b"\7"))) is None
    assert "work" not in event_fields(Noted(stored(kind, protocol, a=(b"\0\1\2", b"\7"))))
