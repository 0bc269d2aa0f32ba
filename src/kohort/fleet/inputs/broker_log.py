"""Lines of a Kafka broker's log about groups: which members joined, left or were evicted, and why.

`CHANGES` are the messages of Kafka 4 as patterns; other lines are skipped. A log has no time zone: times are read as
UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.inputs.export_lines import lines_of
from kohort.fleet.inputs.input_splits import Split
from kohort.fleet.schema import STATE_CHANGES

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST: Final = 8192
_LINE = re.compile(
    r"\[?(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3})\]?\s+\[?(?P<level>[A-Z]+)\]?\s+"
    r"(?:\[GroupCoordinator[^\]]*\]:? )?(?P<text>.*?)(?: \([\w.$]+\))?\s*$"
)
_GROUP = r"\[Group(?:Id)?[ =](?P<group>.*?)\](?:\[MemberId (?P<inside>.*?)\])? "
_STATE = r"(?P<state>[A-Z]\w+)"
_EPOCH = r"(?P<epoch>-?\d{1,9})"
_MEMBER = r"(?P<member>\S+)"
_INSTANCE = r"(?P<instance>.+)"

CHANGES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "rebalance",
            rf"Preparing to rebalance group (?P<group>.+) in state {_STATE} with old generation {_EPOCH} "
            r"\(reason: (?P<reason>.*)\)\.?$",
        ),
        ("generation", rf"Stabilized group (?P<group>.+) generation {_EPOCH} with (?P<reason>\d+ members)\.?"),
        ("emptied", rf"Group (?P<group>.+) with generation {_EPOCH} is now empty"),
        (
            "assignment",
            rf"Assignment received from leader {_MEMBER} for group (?P<group>.+) for generation {_EPOCH}\. "
            r"(?P<reason>The group has .*)$",
        ),
        ("failed", rf"Member {_MEMBER} in group (?P<group>.+) has failed, removing it from the group"),
        (
            "pending_failed",
            rf"Pending member {_MEMBER} in group (?P<group>.+) has been removed after session timeout expiration",
        ),
        ("not_rejoined", r"Group (?P<group>.+) removed dynamic members who haven't joined: (?P<reason>.*)$"),
        ("not_synced", r"Group (?P<group>.+) removed members who haven't sent their sync requests: (?P<reason>.*)$"),
        ("round_failed", r"Group (?P<group>.+) could not complete rebalance because (?P<reason>no members rejoined)"),
        (
            "joined",
            r"Dynamic member with unknown member id joins group (?P<group>.+) in (?:state )?"
            rf"(?P<state>[A-Z]\w+)(?: state)?\. Created a new member id {_MEMBER} and (?P<reason>.*?)\.?$",
        ),
        (
            "joined",
            rf"Pending dynamic member with id {_MEMBER} joins group (?P<group>.+) in {_STATE} state",
        ),
        (
            "replaced",
            rf"Static member with groupInstanceId={_INSTANCE} and unknown member id joins group (?P<group>.+) in "
            rf"{_STATE} state\. Replacing (?P<reason>previously mapped member {_MEMBER})",
        ),
        (
            "joined",
            rf"Static member with groupInstanceId={_INSTANCE} and unknown member id joins group (?P<group>.+) in "
            rf"{_STATE} state\. Created a new member id {_MEMBER}",
        ),
        (
            "left",
            rf"{_GROUP}Static member {_MEMBER} with instance id {_INSTANCE} has left group through explicit "
            r"`LeaveGroup` request; client reason: (?P<reason>.*)$",
        ),
        (
            "left",
            rf"{_GROUP}(?:Dynamic m|Pending m|M)ember {_MEMBER} has left group through explicit `LeaveGroup` "
            r"request; client reason: (?P<reason>.*)$",
        ),
        ("fenced", rf"{_GROUP}(?:Streams m|M)ember {_MEMBER} fenced from the group because (?P<reason>.*?)\.?$"),
        (
            "fenced",
            rf"{_GROUP}Static member (?P<reason>{_MEMBER} with instance id {_INSTANCE} is fenced by existing "
            r"member \S+?)\.?$",
        ),
        ("away", rf"{_GROUP}Static member {_MEMBER} with instance id {_INSTANCE} temporarily left"),
        ("left", rf"{_GROUP}Static member {_MEMBER} with instance id {_INSTANCE} left the \w+ group"),
        ("left", rf"{_GROUP}Member {_MEMBER} left the \w+ group"),
        (
            "joined",
            rf"{_GROUP}Static member {_MEMBER} with instance id {_INSTANCE} joins the \w+ group using the "
            r"(?P<reason>\w+ protocol)",
        ),
        (
            "replaced",
            rf"{_GROUP}Static member with instance id {_INSTANCE} re-joins the \w+ group using the "
            rf"(?P<reason>\w+ protocol)\. Created a new member {_MEMBER}",
        ),
        ("joined", rf"{_GROUP}Member {_MEMBER} joins the \w+ group using the (?P<reason>\w+ protocol)"),
        ("joined", rf"{_GROUP}Member joins the streams group"),
        ("epoch", rf"{_GROUP}Bumped (?:streams )?group epoch to {_EPOCH} with (?P<reason>.*?)\.?$"),
        (
            "target",
            rf"{_GROUP}Computed a new target assignment for epoch {_EPOCH} with (?P<reason>'[^']*' assignor in \d+ms)",
        ),
        (
            "assigned",
            rf"{_GROUP}Member(?: {_MEMBER}|'s) new assignment state: epoch={_EPOCH}, (?P<reason>.*?)\.?$",
        ),
        ("subscribed", rf"{_GROUP}Member {_MEMBER} updated its (?P<reason>subscribed (?:topics|regex) to: .*?)\.?$"),
        ("converted", rf"{_GROUP}(?P<reason>Converted the .* group)\.?$"),
        ("not_converted", r"(?P<reason>Cannot (?:up|down)grade (?:the )?\w+ group (?P<group>\S+?):? .*)$"),
        ("loaded", r"Loaded (?P<reason>\w+ group) (?P<group>.+) with \d+ members"),
    )
)  # fmt: skip
"""Kinds of lines and the patterns of their messages, in the order in which they are tried."""


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield rows of bronze `state_changes` from a broker's log."""
    import pyarrow as pa

    rows: list[dict[str, object]] = []
    for position, line in lines_of(Path(split.where)):
        if isinstance(line, Fault) or not (row := state_change(line.decode("utf-8", "replace"))):
            continue
        rows.append({"source": split.source, "file": split.where, "position": position, **row})
        if len(rows) == 10_000:
            yield pa.RecordBatch.from_pylist(rows, schema=STATE_CHANGES.arrow())
            rows.clear()
    yield pa.RecordBatch.from_pylist(rows, schema=STATE_CHANGES.arrow())


def state_change(line: str) -> dict[str, object] | None:
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
