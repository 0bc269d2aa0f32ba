"""Records of `__consumer_offsets` as the steps of a `LogCheck`: what it asks of a key and a value, and no more."""

from __future__ import annotations

from struct import Struct

from kohort.fleet.log_check.load_check import Step
from kohort.group.consumer.events import MemberAssignmentStored
from kohort.log.consumer_records import MEMBER_ASSIGNMENT, read_member_assignment
from kohort.log.record_parts import read_text
from kohort.model.ids import topic_id_text
from kohort.wire.codec import MalformedMessage

_SHORT = Struct(">h")
_WITH_MEMBER = frozenset({5, 7, 8, 10, 13, 14, 16, 19, 21, 22})
NEWEST_TYPE = 23


def step_of(offset: int, at_ms: int, key: bytes, value: bytes | None) -> Step:
    """Return a record as a step. Raises MalformedMessage."""
    if len(key) < 2:
        raise MalformedMessage("the record has no key that says what it is")
    (record_type,) = _SHORT.unpack_from(key)
    if not 0 <= record_type <= NEWEST_TYPE:
        return Step(offset, at_ms, record_type, "", is_tombstone=value is None)
    group, position = read_text(key, 2)
    member = read_text(key, position)[0] if record_type in _WITH_MEMBER else ""
    if record_type != MEMBER_ASSIGNMENT or value is None:
        return Step(offset, at_ms, record_type, group, member, value is None)
    event = read_member_assignment(key, value)
    assert isinstance(event, MemberAssignmentStored), "a value is no tombstone"
    held = [
        (topic_id_text(topic.topic_id), partition)
        for topic in (*event.assigned, *event.pending)
        for partition in topic.partitions
    ]
    return Step(offset, at_ms, record_type, group, member, False, event.epoch, held)
