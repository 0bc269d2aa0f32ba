"""A group's records as a coordinator would write them, folded one by one: what tests of the fold are made of."""

from __future__ import annotations

from typing import Any

from kohort.fleet.decode.value_json import fields_of
from kohort.fleet.fold.fold import COMMITS, fold
from kohort.fleet.fold.folded_group import FoldedRecord, Group, Interval, SilverEvent
from kohort.fleet.fold.hours import Hour
from kohort.group.events import (
    Assigned,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    GroupDeleted,
    GroupStored,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    StoredMember,
    TargetStored,
)
from kohort.log.consumer_records import WRITERS
from kohort.log.group_records import LOADED, group_key, group_value
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription

START = 1_700_000_400_000 - 1_700_000_400_000 % 3_600_000
HOUR = 3_600_000
TOPIC = bytes(range(16))


class Written:
    """One group whose records are folded as they are written."""

    def __init__(self, group_id: str = "orders") -> None:
        self.group = Group("cluster", group_id)
        self.group.name_of = {topic_id_text(TOPIC): "flights"}.get  # type: ignore[assignment]
        self.now_ms = START
        self.offset = 0
        self.records: list[FoldedRecord] = []
        self.events: list[SilverEvent] = []
        self.ended: list[Interval] = []
        self.hours: list[Hour] = []

    def after(self, seconds: float) -> Written:
        """Let time pass."""
        self.now_ms += int(seconds * 1000)
        return self

    def write(self, event: Any, *, is_gap: bool = False) -> Written:
        """Append what an event is stored as."""
        if isinstance(event, GroupStored | GroupDeleted):
            key, value = group_key(event.group_id), None if isinstance(event, GroupDeleted) else group_value(event)
        else:
            key, value = WRITERS[type(event)](event)
        kind = int.from_bytes(key[:2], "big")
        fields = None if value is None else fields_of(kind, value)
        return self.append(kind, getattr(event, "member_id", None), fields, is_gap=is_gap)

    def append(self, kind: int, member_id: str | None, fields: str | None, *, is_gap: bool = False) -> Written:
        """Append a record as bronze has it."""
        record = FoldedRecord(7, self.offset, self.now_ms, kind, fields is None, member_id, fields)
        self.records.append(record)
        return self._take(record, is_gap=is_gap)

    def commit(self, count: int = 1, deletions: int = 0) -> Written:
        """Count commits of this hour."""
        return self._take(FoldedRecord(7, self.offset, self.now_ms, COMMITS, False, None, None, count, deletions))

    def _take(self, record: FoldedRecord, *, is_gap: bool = False) -> Written:
        found = fold(self.group, record, is_gap=is_gap)
        self.events += found.events
        self.ended += found.ended
        self.hours += found.hours
        self.offset += 1
        return self

    def summary(self, *names: str) -> list[tuple[Any, ...]]:
        """Return (event, epoch, member, partitions) of all events, or those of these names."""
        return [
            (each.event, each.epoch, each.member, tuple(each.partitions or ()))
            for each in self.events
            if not names or each.event in names
        ]

    def all_hours(self) -> list[Hour]:
        """Return every hour, in order."""
        self.hours += self.group.hours.collect(all_of_them=True)
        return self.hours

    # -- consumer groups

    def joins(self, member_id: str, instance: str | None = None) -> Written:
        """A member's metadata."""
        return self.write(
            ConsumerMemberStored(
                self.group.group, member_id, instance, None, f"client-{member_id}", "/192.0.2.1", ("flights",), "",
                60_000, None, None, LOADED,
            )
        )  # fmt: skip

    def goes(self, member_id: str) -> Written:
        """A member's three tombstones."""
        for tombstone in (MemberAssignmentDeleted, MemberTargetDeleted, ConsumerMemberDeleted):
            self.write(tombstone(self.group.group, member_id, LOADED))
        return self

    def epoch(self, epoch: int) -> Written:
        """The group's epoch."""
        return self.write(ConsumerGroupStored(self.group.group, epoch, 0, LOADED))

    def targets(self, epoch: int, **targets: tuple[int, ...]) -> Written:
        """A target assignment."""
        for member_id, partitions in targets.items():
            held = ((TOPIC, partitions),) if partitions else ()
            self.write(MemberTargetStored(self.group.group, member_id, held, LOADED))
        return self.write(TargetStored(self.group.group, epoch, self.now_ms, LOADED))

    def has(
        self,
        member_id: str,
        epoch: int,
        *partitions: int,
        pending: tuple[int, ...] = (),
        state: MemberState | None = None,
    ) -> Written:
        """What a member was granted, and asked to give up."""
        state = state or (MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE)
        assigned = (Assigned(TOPIC, partitions, (epoch,) * len(partitions)),) if partitions else ()
        asked = (Assigned(TOPIC, pending, (epoch,) * len(pending)),) if pending else ()
        return self.write(
            MemberAssignmentStored(self.group.group, member_id, epoch, epoch - 1, state, assigned, asked, LOADED)
        )

    # -- classic groups

    def generation(
        self,
        generation: int,
        members: dict[str, tuple[int, ...]],
        *,
        owned: dict[str, tuple[int, ...]] | None = None,
        formed_s_ago: float = 0,
        strategy: str = "range",
        instances: dict[str, str] | None = None,
        is_synced: bool = True,
        is_gap: bool = False,
    ) -> Written:
        """A generation whose members are assigned these partitions."""
        stored = [
            classic(member_id, held, (owned or {}).get(member_id, ()), (instances or {}).get(member_id))
            for member_id, held in members.items()
        ]
        event = GroupStored(
            self.group.group, "consumer", generation, strategy if members else None, next(iter(members), None),
            self.now_ms - int(formed_s_ago * 1000), tuple(stored), LOADED, is_synced,
        )  # fmt: skip
        return self.write(event, is_gap=is_gap)

    def deleted(self) -> Written:
        """The tombstone of a classic group."""
        return self.write(GroupDeleted(self.group.group, LOADED))


def classic(member_id: str, held: tuple[int, ...], owned: tuple[int, ...], instance: str | None) -> StoredMember:
    """Return a classic member as it is stored."""
    subscription = Subscription(("flights",), owned=tuple(TopicPartition("flights", each) for each in owned))
    assigned = Assignment(frozenset(TopicPartition("flights", each) for each in held))
    blobs = encode_subscription(subscription), encode_assignment(assigned)
    return StoredMember(member_id, instance, f"client-{member_id}", "/192.0.2.1", 300_000, 45_000, *blobs)
