"""Lines of a Kafka broker's log about groups: which members joined, left or were evicted, and why.

`CHANGES` are the messages of Kafka 4 as patterns; other lines are skipped. A log has no time zone: times are read as
UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.inputs.input_splits import Split
from kohort.fleet.inputs.text_files import rows_of_lines
from kohort.fleet.schema import STATE_CHANGES

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST: Final = 8192
_LINE = re.compile(
    r"\[?(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3})\]?\s+\[?(?P<level>[A-Z]+)\]?\s+"
    r"(?:\[GroupCoordinator[^\]]*\]:? )?(?P<text>.*?)(?: \([\w.$]+\))?\s*$"
)
_PARTS: Final = {
    "in_group": r"\[Group(?:Id)?[ =](?P<group>.*?)\](?:\[MemberId (?P<inside>.*?)\])?",
    "group": r"(?P<group>.+)",
    "state": r"(?P<state>[A-Z]\w+)",
    "epoch": r"(?P<epoch>-?\d{1,9})",
    "member": r"(?P<member>\S+)",
    "instance": r"(?P<instance>.+)",
    "reason": r"(?P<reason>.*)",
}
"""The parts of messages, as patterns."""

_MESSAGES: Final = r"""
rebalance: Preparing to rebalance group {group} in state {state} with old generation {epoch} \(reason: {reason}\)\.?$
generation: Stabilized group {group} generation {epoch} with (?P<reason>\d+ members)\.?
emptied: Group {group} with generation {epoch} is now empty
assignment: Assignment received from leader {member} for group {group} for generation {epoch}\.
  (?P<reason>The group has .*)$
failed: Member {member} in group {group} has failed, removing it from the group
pending_failed: Pending member {member} in group {group} has been removed after session timeout expiration
not_rejoined: Group {group} removed dynamic members who haven't joined: {reason}$
not_synced: Group {group} removed members who haven't sent their sync requests: {reason}$
round_failed: Group {group} could not complete rebalance because (?P<reason>no members rejoined)
joined: Dynamic member with unknown member id joins group {group} in (?:state )?(?P<state>[A-Z]\w+)(?: state)?\.
  Created a new member id {member} and (?P<reason>.*?)\.?$
joined: Pending dynamic member with id {member} joins group {group} in {state} state
replaced: Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state\.
  Replacing (?P<reason>previously mapped member {member})
joined: Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state\.
  Created a new member id {member}
left: {in_group} Static member {member} with instance id {instance} has left group through explicit
  `LeaveGroup` request; client reason: {reason}$
left: {in_group} (?:Dynamic m|Pending m|M)ember {member} has left group through explicit `LeaveGroup` request;
  client reason: {reason}$
fenced: {in_group} (?:Streams m|M)ember {member} fenced from the group because (?P<reason>.*?)\.?$
fenced: {in_group} Static member (?P<reason>{member} with instance id {instance} is fenced by existing member \S+?)\.?$
away: {in_group} Static member {member} with instance id {instance} temporarily left
left: {in_group} Static member {member} with instance id {instance} left the \w+ group
left: {in_group} Member {member} left the \w+ group
joined: {in_group} Static member {member} with instance id {instance} joins the \w+ group using the
  (?P<reason>\w+ protocol)
replaced: {in_group} Static member with instance id {instance} re-joins the \w+ group using the
  (?P<reason>\w+ protocol)\. Created a new member {member}
joined: {in_group} Member {member} joins the \w+ group using the (?P<reason>\w+ protocol)
joined: {in_group} Member joins the streams group
epoch: {in_group} Bumped (?:streams )?group epoch to {epoch} with (?P<reason>.*?)\.?$
target: {in_group} Computed a new target assignment for epoch {epoch} with (?P<reason>'[^']*' assignor in \d+ms)
assigned: {in_group} Member(?: {member}|'s) new assignment state: epoch={epoch}, (?P<reason>.*?)\.?$
subscribed: {in_group} Member {member} updated its (?P<reason>subscribed (?:topics|regex) to: .*?)\.?$
converted: {in_group} (?P<reason>Converted the .* group)\.?$
not_converted: (?P<reason>Cannot (?:up|down)grade (?:the )?\w+ group (?P<group>\S+?):? .*)$
loaded: Loaded (?P<reason>\w+ group) {group} with \d+ members
"""
"""Kinds of lines and the patterns of their messages, in the order in which they are tried; indented lines continue."""

CHANGES: Final = tuple(
    (change, re.compile(message.format_map(_PARTS)))
    for change, _, message in (line.partition(": ") for line in _MESSAGES.replace("\n  ", " ").strip().splitlines())
)


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield rows of bronze `state_changes` from a broker's log."""

    def found(line: str) -> Iterator[dict[str, Any]]:
        if row := state_change(line):
            yield row

    return rows_of_lines(split, found, STATE_CHANGES)


def state_change(line: str) -> dict[str, Any] | None:
    """Return the columns of a line about a group, None for other lines."""
    if len(line) > _LONGEST or (found := _LINE.match(line)) is None or "roup" not in found["text"]:
        return None
    text = found["text"]
    for change, pattern in CHANGES:
        if match := pattern.match(text):
            values = match.groupdict()
            return {
                "at_ms": _at_ms(found["at"]),
                "level": found["level"],
                "group": values.get("group"),
                "change": change,
                "epoch": int(values["epoch"]) if values.get("epoch") else None,
                "member": values.get("member") or values.get("inside"),
                "instance": values.get("instance"),
                "state": values.get("state"),
                "reason": values.get("reason"),
                "text": text,
            }
    return None


def _at_ms(text: str) -> int | None:
    try:
        at = datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(at.timestamp() * 1000)
