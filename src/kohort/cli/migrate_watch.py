"""`kohort migrate watch`: the restarts of a migration as they happen, and the members left to migrate.

It polls the group's description, which brokers of any kind support.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import require_group
from kohort.cli.group_events import now_ms
from kohort.cli.terminal import output
from kohort.cli.terminal.record_lines import iso_time
from kohort.group.classic.group import COOPERATIVE
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import Identity
from kohort.group.migration.migration_plan import Goal
from kohort.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription


@dataclass(slots=True)
class Progress:
    """Progress of a group's migration between two descriptions. `expected` is the final number of members."""

    goal: Goal
    expected: int = 0
    is_fixed: bool = False
    """Whether --members set `expected`."""
    type: str = ""
    state: str = ""
    assignor: str = ""
    clock: int = -1
    members: dict[str, MemberDescription] = field(default_factory=dict)
    migrated: frozenset[str] = frozenset()
    identities: dict[str, Identity] = field(default_factory=dict)

    def take(self, group: GroupDescription | None) -> list[str]:
        """Take the current description, None for a deleted group; return the changes as sentences."""
        members = {} if group is None else {each.member_id: each for each in group.members}
        for member_id, each in members.items():
            self.identities[member_id] = Identity(each.client_id, each.instance_id)
        before, was_migrated = self.members, self.migrated
        is_first = not self.type
        changes = self._group_changes(group, is_first)
        self.members = members
        if not self.is_fixed:
            self.expected = max(self.expected, len(members))
        self.migrated = frozenset(member_id for member_id in members if self._has_migrated(members[member_id]))
        names = Names(self.identities)
        if not is_first:
            changes += [f"{names(each)} left the group" for each in sorted(before.keys() - members.keys())]
            joined = members.keys() - before
            changed = (self.migrated - was_migrated) & before.keys()
            for what, member_ids in (("joined", joined), ("migrated", changed)):
                for member_id in sorted(member_ids):
                    protocol = "consumer" if members[member_id].is_native else "classic"
                    changes.append(f"{names(member_id)} {what}, {protocol} protocol")
        return changes

    def _group_changes(self, group: GroupDescription | None, is_first: bool) -> list[str]:
        """Return the changes of the group itself."""
        changes = []
        kind = group.group_type if group is not None else self.type
        if kind != self.type and not is_first:
            changes.append(f"the group became a {kind} group")
        assignor = group.protocol if group is not None else ""
        if assignor and self.assignor and assignor != self.assignor:
            changes.append(f"assignor {assignor} in place of {self.assignor}")
        state = group.state if group is not None else "Dead"
        if state != self.state and not is_first:
            changes.append(state)
        self.type, self.state, self.assignor = kind, state, assignor or self.assignor
        self.clock = -1 if group is None else group.epoch
        return changes

    def _has_migrated(self, member: MemberDescription) -> bool:
        match self.goal:
            case Goal.CONSUMER:
                return self.type == "consumer" and member.is_native
            case Goal.CLASSIC:
                return not member.is_native
            case Goal.COOPERATIVE:
                return self.type == "classic" and self.assignor in COOPERATIVE

    @property
    def is_done(self) -> bool:
        """Whether all expected members have migrated and the group is stable and of the final type."""
        kind = "consumer" if self.goal is Goal.CONSUMER else "classic"
        is_whole = len(self.migrated) == len(self.members) and len(self.members) >= max(1, self.expected)
        return is_whole and self.type == kind and self.state == "Stable"

    def left(self) -> list[str]:
        """Return the names of the members that have not migrated yet."""
        names = Names(self.identities)
        return [names(each) for each in sorted(self.members) if each not in self.migrated]

    def summary(self) -> str:
        """Return the progress as a clause."""
        epoch = f", group epoch {self.clock}" if self.clock >= 0 else ""
        text = f"{self.type}, {self.state}{epoch}: {len(self.migrated)} of {self.expected} members {WORDS[self.goal]}"
        if (away := self.expected - len(self.members)) > 0:
            text += f", {away} away"
        left = self.left()
        if left:
            text += f", left {', '.join(left[:NAMED])}" + (f" and {len(left) - NAMED} more" * (len(left) > NAMED))
        return text

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
            "there": len(self.migrated),
            "expected": self.expected,
            "left": self.left(),
            "changes": changes,
            "is_done": self.is_done,
        }


NAMED = 5
WORDS = {
    Goal.CONSUMER: "use the consumer protocol",
    Goal.CLASSIC: "use the classic protocol",
    Goal.COOPERATIVE: "are in a cooperative group",
}


async def watch(args: argparse.Namespace, admin: Admin) -> int:
    """Follow the group until its migration is done or a signal ends the command."""
    await require_group(admin, args.group)
    progress = Progress(args.goal, args.members or 0, args.members is not None)
    try:
        await follow(args, admin, progress)
    except asyncio.CancelledError:
        output.remark(f"not over yet, {progress.summary()}")
        raise
    return 0


async def follow(args: argparse.Namespace, admin: Admin, progress: Progress) -> None:
    """Print changes until the migration is done."""
    is_first, complaint = True, ""
    while True:
        try:
            changes = progress.take(await describe(admin, args.group))
            complaint = ""
        except (KafkaError, OSError) as error:
            # Brokers may restart, too, while a group is migrated.
            if str(error) != complaint:
                complaint = str(error)
                output.remark(f"no answer: {complaint}")
            changes = []
        if (changes or is_first) and progress.type:
            is_first = False
            print_changes(args, progress, changes)
        if progress.type and progress.is_done:
            if not args.json:
                output.put(f"done: {progress.summary()}")
                if args.goal is Goal.COOPERATIVE:
                    output.remark("whether a member still offers an eager assignor is not described: see the plan")
            return
        await asyncio.sleep(args.interval / 1000)


async def describe(admin: Admin, group_id: str) -> GroupDescription | None:
    """Return the group's description, or None when it is deleted."""
    try:
        return (await admin.describe_groups([group_id]))[group_id]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None


def print_changes(args: argparse.Namespace, progress: Progress, changes: list[str]) -> None:
    """Print the changes and the progress."""
    if args.json:
        output.put_json(progress.to_json(args.group, changes))
    else:
        at = iso_time(now_ms())
        for each in changes:
            output.put(f"{at}  {each}")
        output.put(f"{at}  {progress.summary()}")
    output.flush()
