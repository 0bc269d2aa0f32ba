"""`kohort migrate watch`: the restarts of a migration as they happen, and what is left, until every member is there.

It asks for the group's description again and again, which tells little enough that a broker of any kind can answer.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kohort.cli.group_events import now_ms
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import unknown
from kohort.cli.terminal.record_lines import iso_time
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import Identity
from kohort.group.member_kinds import COOPERATIVE
from kohort.group.migration.migration_plan import Goal
from kohort.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription


@dataclass(slots=True)
class Progress:
    """How far a group is, from one look at it to the next. `expected` is how many members there are to be."""

    goal: Goal
    expected: int = 0
    is_fixed: bool = False
    """Whether somebody said how many."""
    type: str = ""
    state: str = ""
    assignor: str = ""
    clock: int = -1
    members: dict[str, MemberDescription] = field(default_factory=dict)
    there: frozenset[str] = frozenset()
    identities: dict[str, Identity] = field(default_factory=dict)

    def take(self, group: GroupDescription | None) -> list[str]:
        """Take what the group is now; return what is new, in sentences. None stands for a group that is gone."""
        members = {} if group is None else {each.member_id: each for each in group.members}
        for member_id, each in members.items():
            self.identities[member_id] = Identity(each.client_id, each.instance_id)
        before, was_there = self.members, self.there
        is_first = not self.type
        said = self._turned(group, is_first)
        self.members = members
        if not self.is_fixed:
            self.expected = max(self.expected, len(members))
        self.there = frozenset(member_id for member_id in members if self._is_there(members[member_id]))
        names = Names(self.identities)
        if not is_first:
            said += [f"{names(each)} went" for each in sorted(before.keys() - members.keys())]
            said += [f"{names(each)} came, {self._speaks(members[each])}" for each in sorted(members.keys() - before)]
            changed = sorted((self.there - was_there) & before.keys())
            said += [f"{names(each)} is there, {self._speaks(members[each])}" for each in changed]
        return said

    def _turned(self, group: GroupDescription | None, is_first: bool) -> list[str]:
        """Return what is new about the group itself."""
        said = []
        kind = group.group_type if group is not None else self.type
        if kind != self.type and not is_first:
            said.append(f"the group became a {kind} group")
        assignor = group.protocol if group is not None else ""
        if assignor and self.assignor and assignor != self.assignor:
            said.append(f"assignor {assignor} in place of {self.assignor}")
        state = group.state if group is not None else "Dead"
        if state != self.state and not is_first:
            said.append(state)
        self.type, self.state, self.assignor = kind, state, assignor or self.assignor
        self.clock = -1 if group is None else group.epoch
        return said

    def _is_there(self, member: MemberDescription) -> bool:
        match self.goal:
            case Goal.CONSUMER:
                return self.type == "consumer" and member.is_native
            case Goal.CLASSIC:
                return not member.is_native
            case Goal.COOPERATIVE:
                return self.type == "classic" and self.assignor in COOPERATIVE

    def _speaks(self, member: MemberDescription) -> str:
        protocol = "consumer" if member.is_native else "classic"
        return f"{protocol} protocol"

    @property
    def is_done(self) -> bool:
        """Whether everybody is back and there, and the group at rest, of the type that it is to be."""
        kind = "consumer" if self.goal is Goal.CONSUMER else "classic"
        is_whole = len(self.there) == len(self.members) and len(self.members) >= max(1, self.expected)
        return is_whole and self.type == kind and self.state == "Stable"

    def left(self) -> list[str]:
        """Return the names of the members that are not there yet."""
        names = Names(self.identities)
        return [names(each) for each in sorted(self.members) if each not in self.there]

    def standing(self) -> str:
        """Return in a clause how far it is."""
        epoch = f", group epoch {self.clock}" if self.clock >= 0 else ""
        said = f"{self.type}, {self.state}{epoch}: {len(self.there)} of {self.expected} members {WORDS[self.goal]}"
        if (away := self.expected - len(self.members)) > 0:
            said += f", {away} away"
        left = self.left()
        if left:
            said += f", left {', '.join(left[:NAMED])}" + (f" and {len(left) - NAMED} more" * (len(left) > NAMED))
        return said

    def to_json(self, group_id: str, changes: list[str]) -> dict[str, Any]:
        """Return the documented fields."""
        return {
            "at_ms": now_ms(),
            "group": group_id,
            "to": self.goal,
            "type": self.type,
            "state": self.state,
            "protocol": self.assignor,
            "epoch": None if self.clock < 0 else self.clock,
            "members": len(self.members),
            "there": len(self.there),
            "expected": self.expected,
            "left": self.left(),
            "changes": changes,
            "is_done": self.is_done,
        }


NAMED = 5
WORDS = {
    Goal.CONSUMER: "speak the consumer protocol",
    Goal.CLASSIC: "speak the classic protocol",
    Goal.COOPERATIVE: "are in a cooperative group",
}


async def watch(args: argparse.Namespace, admin: Admin) -> int:
    """Look at the group until it is there; a signal ends it before."""
    known = [group.group_id for group in await admin.list_groups()]
    if args.group not in known:
        raise unknown("group", args.group, known, "a group begins when its first member joins")
    progress = Progress(args.goal, args.members or 0, args.members is not None)
    try:
        await follow(args, admin, progress)
    except asyncio.CancelledError:
        output.remark(f"not over yet, {progress.standing()}")
        raise
    return 0


async def follow(args: argparse.Namespace, admin: Admin, progress: Progress) -> None:
    """Tell what changes, until it is done."""
    is_first, complaint = True, ""
    while True:
        try:
            changes = progress.take(await look(admin, args.group))
            complaint = ""
        except (KafkaError, OSError) as error:
            # Brokers may restart, too, while a group is migrated.
            if str(error) != complaint:
                complaint = str(error)
                output.remark(f"no answer: {complaint}")
            changes = []
        if (changes or is_first) and progress.type:
            is_first = False
            tell(args, progress, changes)
        if progress.type and progress.is_done:
            if not args.json:
                output.put(f"done: {progress.standing()}")
                if args.goal is Goal.COOPERATIVE:
                    output.remark("whether a member still offers an eager assignor is not described: see the plan")
            return
        await asyncio.sleep(args.interval / 1000)


async def look(admin: Admin, group_id: str) -> GroupDescription | None:
    """Return the group as it is, or None when it is gone."""
    try:
        return (await admin.describe_groups([group_id]))[group_id]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None


def tell(args: argparse.Namespace, progress: Progress, changes: list[str]) -> None:
    """Print what is new and how far it is."""
    if args.json:
        output.put_json(progress.to_json(args.group, changes))
    else:
        at = iso_time(now_ms())
        for each in changes:
            output.put(f"{at}  {each}")
        output.put(f"{at}  {progress.standing()}")
    output.flush()
