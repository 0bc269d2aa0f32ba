"""`kohort migrate watch`: the restarts of a migration as they happen, and the members left to migrate.

It polls the group's description, which brokers of any kind support.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import require_group
from kohort.cli.group_state.group_events import now_ms
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
class MigrationProgress:
    """Progress of a group's migration between two descriptions. `wanted` is the final number of members, if given."""

    goal: Goal
    wanted: int | None = None
    most: int = 0
    """The highest number of members so far."""
    group: GroupDescription | None = None
    """The latest description, with the last known assignor; of a deleted group, what it was, without members."""
    identities: dict[str, Identity] = field(default_factory=dict)

    def update(self, described: GroupDescription | None) -> list[str]:
        """Take the current description, None for a deleted group; return the changes as sentences."""
        before, known, was_migrated = self.group, self.members, self.migrated
        if described is not None:
            assignor = described.protocol or ("" if before is None else before.protocol)
            self.group = replace(described, protocol=assignor)
        elif before is not None:
            self.group = replace(before, state="Dead", members=(), epoch=-1)
        members = self.members
        self.identities |= {each.member_id: Identity(each.client_id, each.instance_id) for each in members.values()}
        self.most = max(self.most, len(members))
        if before is None or self.group is None:
            return []
        changes = []
        if self.group.group_type != before.group_type:
            changes.append(f"the group became a {self.group.group_type} group")
        if before.protocol and self.group.protocol != before.protocol:
            changes.append(f"assignor {self.group.protocol} in place of {before.protocol}")
        if self.group.state != before.state:
            changes.append(self.group.state)
        names = Names(self.identities)
        changes += [f"{names(each)} left the group" for each in sorted(known.keys() - members.keys())]
        joined = members.keys() - known.keys()
        changed = (self.migrated - was_migrated) & known.keys()
        for what, member_ids in (("joined", joined), ("migrated", changed)):
            for member_id in sorted(member_ids):
                protocol = "consumer" if members[member_id].is_native else "classic"
                changes.append(f"{names(member_id)} {what}, {protocol} protocol")
        return changes

    @property
    def members(self) -> dict[str, MemberDescription]:
        """The members by their ids."""
        return {} if self.group is None else {each.member_id: each for each in self.group.members}

    @property
    def expected(self) -> int:
        """How many members there are to be in the end."""
        return self.most if self.wanted is None else self.wanted

    @property
    def migrated(self) -> frozenset[str]:
        """The members that have migrated."""
        group = self.group
        if group is None:
            return frozenset()
        if self.goal is Goal.COOPERATIVE:
            is_there = group.group_type == "classic" and group.protocol in COOPERATIVE
            return frozenset(self.members if is_there else ())
        is_native = self.goal is Goal.CONSUMER
        is_there = group.group_type == "consumer" or not is_native
        return frozenset(each for each, member in self.members.items() if is_there and member.is_native is is_native)

    @property
    def is_done(self) -> bool:
        """Whether all expected members have migrated and the group is stable and of the final type."""
        if self.group is None:
            return False
        kind = "consumer" if self.goal is Goal.CONSUMER else "classic"
        is_whole = len(self.migrated) == len(self.members) >= max(1, self.expected)
        return is_whole and self.group.group_type == kind and self.group.state == "Stable"

    def left(self) -> list[str]:
        """Return the names of the members that have not migrated yet."""
        names = Names(self.identities)
        return [names(each) for each in sorted(self.members.keys() - self.migrated)]

    def summary(self) -> str:
        """Return the progress as a clause."""
        if self.group is None:
            return "the group was not described yet"
        epoch = f", group epoch {self.group.epoch}" if self.group.epoch >= 0 else ""
        text = f"{self.group.group_type}, {self.group.state}{epoch}: "
        text += f"{len(self.migrated)} of {self.expected} members {WORDS[self.goal]}"
        if (away := self.expected - len(self.members)) > 0:
            text += f", {away} away"
        if left := self.left():
            text += f", left {', '.join(left[:NAMED])}" + (f" and {len(left) - NAMED} more" * (len(left) > NAMED))
        return text

    def to_json(self, group: GroupDescription, changes: list[str]) -> dict[str, Any]:
        """Return the documented fields."""
        return {
            "at_ms": now_ms(),
            "group": group.group_id,
            "to": self.goal,
            "type": group.group_type,
            "state": group.state,
            "protocol": group.protocol,
            "epoch": None if group.epoch < 0 else group.epoch,
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
    progress = MigrationProgress(args.goal, args.members)
    try:
        await follow(args, admin, progress)
    except asyncio.CancelledError:
        output.remark(f"not over yet, {progress.summary()}")
        raise
    return 0


async def follow(args: argparse.Namespace, admin: Admin, progress: MigrationProgress) -> None:
    """Print changes until the migration is done."""
    is_first, complaint = True, ""
    while True:
        try:
            changes = progress.update(await describe(admin, args.group))
            complaint = ""
        except (KafkaError, OSError) as error:
            # Brokers may restart, too, while a group is migrated.
            if str(error) != complaint:
                complaint = str(error)
                output.remark(f"no answer: {complaint}")
            changes = []
        if (changes or is_first) and progress.group is not None:
            is_first = False
            at = iso_time(now_ms())
            lines = [f"{at}  {each}" for each in (*changes, progress.summary())]
            output.put_result(args, progress.to_json(progress.group, changes), "\n".join(lines))
            output.flush()
        if progress.is_done:
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
