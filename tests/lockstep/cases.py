"""One thing in which the two sides differ, as the rules of the listed differences see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import Protocols
from kohort.group.consumer.group import ConsumerGroup

if TYPE_CHECKING:
    from tests.lockstep.pair import Pair


SYNCED = 4
"""How many fields a good answer to SyncGroup has."""


class Glance(NamedTuple):
    """What one of our groups was like before a step."""

    phase: str
    generation: int
    is_initial: bool
    has_newcomers: bool
    pending: frozenset[str]
    protocols: dict[str, Protocols]
    leader: str | None
    restored: frozenset[str]
    protocol: str | None
    static: dict[str, Protocols]
    """What each static member offered, by instance."""
    natives: int

    @staticmethod
    def of(group: ClassicGroup | ConsumerGroup) -> Glance:
        """Look at a group."""
        if isinstance(group, ConsumerGroup):
            return _NO_MEMBER._replace(phase=group.state, generation=group.epoch, natives=group.natives)
        return Glance(
            group.phase,
            group.generation,
            group.is_initial and group.is_gathering,
            group.has_newcomers,
            frozenset(group.pending),
            {member_id: member.protocols for member_id, member in group.members.items()},
            group.leader,
            frozenset(member_id for member_id, member in group.members.items() if member.is_restored),
            group.protocol_name,
            {
                instance_id: group.members[member_id].protocols
                for instance_id, member_id in group.static_members.items()
            },
            0,
        )


_NO_MEMBER = Glance("", -1, False, False, frozenset(), {}, None, frozenset(), None, {}, 0)


class Case(NamedTuple):
    """One thing in which the sides differ: `theirs` and `ours` are None where there is nothing.

    `kind` is `answer`, `record` (its value after the step), `timer` (its deadline after the step), `load` (a record of
    two logs that are taken up) or `forgotten` (a group that Kafka has dropped from memory alone).
    """

    kind: str
    what: str
    """The operation, or the type of the record."""
    group_id: str
    theirs: Any
    ours: Any
    command: Any
    """Whose answer it is, or what was decided last; None where time passed."""
    pair: Pair
    name: str = ""
    """Of a timer, as Kafka names it."""

    @property
    def member_id(self) -> str:
        """Whose timer it is."""
        return self.name.split(f"{self.group_id}-", 1)[-1]

    @property
    def group(self) -> Any:
        """Our group as it is now."""
        return self.pair.ours.shard.groups.get(self.group_id)

    @property
    def before(self) -> Glance:
        """What our group was like before the step."""
        return self.pair.glances.get(self.group_id, _NO_MEMBER)

    def fields(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of two records, none where there is no record."""
        if self.kind not in ("record", "load") or self.what == "Offset":
            return {}, {}
        return dict(self.theirs[1:] if self.theirs else ()), dict(self.ours[1:] if self.ours else ())


@dataclass(frozen=True)
class Difference:
    """One row of the table."""

    name: str
    kafka: str
    ours: str
    reason: str
    request: str
    """What a client sends, and where it sees the difference."""
    rule: Callable[[Case], bool]
    ends: bool | Callable[[Case], bool] = False

    matters: bool = True
    """Of timers: whether it makes a difference when they fire. The comparison of their group ends then."""

    def is_end(self, case: Case) -> bool:
        """Whether the two sides go on in different states after a case."""
        return self.ends if isinstance(self.ends, bool) else self.ends(case)


def same_but(case: Case, *names: str) -> bool:
    """Whether two records of one type differ in these fields alone."""
    if not case.theirs or not case.ours or case.theirs[0] != case.ours[0]:
        return False
    theirs, ours = case.fields()
    return all(theirs[name] == ours[name] for name in theirs if name not in names)


def is_answer(case: Case, *ops: str) -> bool:
    return case.kind == "answer" and case.what in ops


def is_joined(answer: Any) -> bool:
    return answer is not None and len(answer) == 8
