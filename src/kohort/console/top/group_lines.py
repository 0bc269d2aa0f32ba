"""What `kohort top` shows, as lines of characters: all groups, one group, one rebalance. Pure text of any width.

Names come from clients and may be anything: each is cut, and has no character that acts on a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from kohort.console.command_runs import command_words
from kohort.console.history.ownership_strip import ownership_drawing
from kohort.console.history.rebalance_view import RebalanceView, latest, rebalance_view
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.history.watched_group import GroupSummary, WatchedGroup, task_words
from kohort.drawing.display_text import (
    cells,
    clock,
    counted,
    display_name,
    display_sentence,
    duration,
    fitted,
    moment,
    short_duration,
    short_number,
)
from kohort.drawing.ownership_characters import BRIEFLY, NO_MEMBERS, UNOWNED, drawn_lanes, letters_of, strip
from kohort.group.explain.explain_text import Names, refusal
from kohort.group.explain.remedy import Remedy

MEMBERS, PARTITIONS, LANES = 200, 500, 30
"""Lines of a table; what is left out is counted."""

ALARM, BOLD, DIM = "alarm", "bold", "dim"


class TopLine(NamedTuple):
    """Pieces with their styles. `key` names what Enter opens, or is the command to copy; Tab moves to headings."""

    pieces: tuple[tuple[str, str], ...] = ()
    key: str = ""
    is_heading: bool = False

    @property
    def text(self) -> str:
        """The characters alone."""
        return "".join(piece for piece, _ in self.pieces)


class Column(NamedTuple):
    """A column: its width at least and at most; the columns with the highest `rank` go first where there is no room."""

    heading: str
    least: int
    most: int
    rank: int
    cell: Callable[[Any], tuple[str, str]]
    is_number: bool = False
    is_name: bool = False


def laid_out(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Return the columns that fit, with their widths: what is left goes to the first, up to their most."""
    shown = list(columns)
    while len(shown) > 1 and sum(each.least + 1 for each in shown) - 1 > width:
        shown.remove(max(shown, key=lambda each: each.rank))
    spare = width - sum(each.least + 1 for each in shown) + 1
    widths = {}
    for each in sorted(shown, key=lambda each: each.rank):
        widths[each.heading] = each.least + max(0, min(each.most - each.least, spare))
        spare -= widths[each.heading] - each.least
    return [(each, widths[each.heading]) for each in shown]


def heading(columns: Sequence[tuple[Column, int]]) -> TopLine:
    """Return the headings of columns."""
    cells_of = (fitted(each.heading, width, is_number=each.is_number) for each, width in columns)
    return TopLine(((" ".join(cells_of), BOLD),))


def row_line(columns: Sequence[tuple[Column, int]], row: Any, key: str = "") -> TopLine:
    """Return a row under these columns."""
    pieces = []
    for each, width in columns:
        text, style = each.cell(row)
        pieces.append((fitted(text, width, is_number=each.is_number, is_name=each.is_name), style))
        pieces.append((" ", ""))
    return TopLine(tuple(pieces[:-1]), key)


def wrapped(text: str, width: int, style: str = "", key: str = "", indent: str = "") -> list[TopLine]:
    """Return a text in lines of at most `width` columns, broken between words where there are any."""
    spaced = "".join(each + "\0" * (cells(each) - 1) for each in text)  # as long as it is wide
    room = max(1, width - (not text.isascii()))  # a wide character may be broken behind its first column
    lines = wrap(spaced, room, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return [TopLine(((each.replace("\0", ""), style),), key) for each in lines]


# -- all groups


def _lag(row: GroupSummary) -> tuple[str, str]:
    least = "≥" if row.is_least else ""
    return ("?" if row.lag is None else f"{least}{short_number(row.lag)}"), ""


def _cause(row: GroupSummary) -> tuple[str, str]:
    if row.running:
        return display_sentence(row.running), ALARM
    return (display_sentence(row.cause) or "none seen"), "" if row.cause else DIM


def _unowned(row: GroupSummary) -> tuple[str, str]:
    return short_number(row.unowned_s), ALARM if row.unowned_s >= 1 else ""


def group_columns(rows: Sequence[GroupSummary], width: int) -> list[tuple[Column, int]]:
    """Return the columns of these groups that fit: the first is as wide as their names, within limits."""
    longest = max((len(row.group_id) for row in rows), default=0)
    name = Column("GROUP", 14, min(max(longest, 14), 40), 1, _name, is_name=True)
    return laid_out((name, *_GROUP_COLUMNS), width)


def _name(row: GroupSummary) -> tuple[str, str]:
    return display_name(row.group_id), BOLD


_GROUP_COLUMNS = (
    Column("PROTOCOL", 8, 17, 8, lambda row: (display_name(" ".join(_protocol(row))), "")),
    Column("STATE", 11, 11, 2, lambda row: (_state(row), ALARM if row.running else "")),
    Column("MEMBERS", 7, 7, 6, lambda row: (f"{row.members:,}", ""), is_number=True),
    Column("LAG", 7, 8, 3, _lag, is_number=True),
    Column("OLDEST", 6, 6, 5, lambda row: ("?" if row.age_s is None else short_duration(row.age_s), ""), True),
    Column("UNOWNED", 7, 7, 4, _unowned, is_number=True),
    Column("LAST REBALANCE", 14, 10_000, 7, _cause),
)


def _state(row: GroupSummary) -> str:
    return display_name(row.state.removesuffix("Rebalance") or "unknown")


def _protocol(row: GroupSummary) -> list[str]:
    return [each for each in (row.group_type, row.protocol) if each] or ["unknown"]


def detail_text(row: GroupSummary) -> str:
    """Return what the row of a group has no room for."""
    text = f"{display_name(row.group_id)}: {display_name(', '.join(_protocol(row)))}. "
    if row.running:
        return text + display_sentence(row.running)
    if not row.cause:
        return text + "No rebalance was seen"
    inferred = " (inferred from two looks)" if row.is_inferred else ""
    return f"{text}{moment(row.changed_ms)}: {display_sentence(row.cause)}{inferred}"


def feed_lines(watched: WatchedCluster) -> list[TopLine]:
    """Return the last rebalances of all groups, the newest first."""
    return [
        TopLine(
            (
                (f"{clock(each.at_ms)} ", DIM),
                (display_name(each.group_id), BOLD),
                (f": {display_sentence(each.text)}", ""),
            ),
            rebalance_key(each.group_id, each.number),
        )
        for each in reversed(watched.feed)
        if each.group_id
    ]


def rebalance_key(group_id: str, number: int) -> str:
    """Return the key of a rebalance: Enter opens it."""
    return f"{number}\n{group_id}"


def parsed_key(key: str) -> tuple[str, int]:
    """Return the group and the number of a key."""
    number, _, group_id = key.partition("\n")
    return group_id, int(number)


def summary_document(row: GroupSummary) -> dict[str, Any]:
    """Return a row as the documented fields of `kohort top --once --json`."""
    return {
        "group": row.group_id,
        "type": row.group_type,
        "state": row.state,
        "protocol": row.protocol or None,
        "members": row.members,
        "lag": row.lag,
        "lag_is_least": row.is_least,
        "lag_seconds": row.age_s,
        "unowned_partition_s": round(row.unowned_s, 3),
        "rebalancing": row.running or None,
        "last_cause": row.cause or None,
        "last_rebalance_ms": row.changed_ms,
        "is_inferred": row.is_inferred,
    }


def table_cells(row: GroupSummary) -> dict[str, str | int | None]:
    """Return a row as the table of `kohort top --once` shows it."""
    least = "≥ " if row.is_least else ""
    return {
        "group": row.group_id,
        "type": row.group_type or None,
        "protocol": row.protocol or None,
        "state": row.state or None,
        "members": row.members,
        "lag": None if row.lag is None else f"{least}{row.lag}",
        "oldest": None if row.age_s is None else duration(row.age_s),
        "unowned, last hour": f"{row.unowned_s:.1f}",
        "last rebalance": row.running or row.cause or None,
    }


# -- one group


def _section(text: str) -> list[TopLine]:
    return [TopLine(), TopLine(((text, BOLD),), is_heading=True)]


def group_lines(watched: WatchedCluster, group: WatchedGroup, minutes: int, now_ms: int, width: int) -> list[TopLine]:
    """Return the screen of one group."""
    report, names = group.known(now_ms)
    row = group.summary(now_ms)
    lines = wrapped(detail_text(row), width, ALARM if row.running else "")
    oldest = "" if row.age_s is None else f", oldest unread for {duration(row.age_s)}"
    lines += wrapped(
        f"{counted(row.members, 'member')}, lag {_lag(row)[0]}{oldest}; {short_number(row.unowned_s)} unowned "
        f"partition-seconds in the last hour; {counted(report.total, 'rebalance')} seen",
        width,
    )
    lines += _section(f"OWNERSHIP, last {duration(60 * minutes)}  (+ and - change it)")
    lines += _ownership(group, names, minutes, now_ms, width)
    lines += _section("REBALANCES  (Enter opens one)")
    views = [rebalance_view(each, names, now_ms, is_inferred=group.is_inferred) for each in latest(report)]
    lines += [_rebalance_line(view, row.group_id, width) for view in views] or [TopLine((("None was seen.", DIM),))]
    for each in reversed(report.refused):
        lines += wrapped(display_sentence(f"{moment(each.first_ms)} {refusal(each, names, moment)}"), width, ALARM)
    lines += _section(f"MEMBERS  {row.members}")
    lines += _members(watched, group, names, width)
    lines += _section("PARTITIONS")
    return lines + _partitions(group, names, now_ms, width)


def _rebalance_line(view: RebalanceView, group_id: str, width: int) -> TopLine:
    is_alarm = view.is_running or view.unowned_s >= 1
    running = f"running for {view.took}, {view.awaited}: " if view.is_running else ""
    inferred = "inferred: " if view.is_inferred else ""
    text = f"{running}{inferred}{display_sentence(view.cause)}; {display_sentence(view.cost)}"
    begin = f"{clock(view.started_ms)} "
    pieces = ((begin, DIM), (fitted(text, max(1, width - len(begin))).rstrip(), ALARM if is_alarm else ""))
    return TopLine(pieces, rebalance_key(group_id, view.number))


def _ownership(group: WatchedGroup, names: Names, minutes: int, now_ms: int, width: int) -> list[TopLine]:
    drawing = ownership_drawing(group.report(now_ms), names, now_ms - minutes * 60_000, now_ms)
    lanes, left_out = drawn_lanes(drawing, LANES)
    if not lanes:
        shared = "Members of a share group read partitions together: none has an owner."
        return [TopLine(((shared if group.is_shared else "No owner of any partition was seen.", DIM),))]
    letters = letters_of(drawing.owners)
    shown = [display_name(lane.name) for lane in lanes]
    wide = min(max(map(cells, shown)), max(8, width // 4))
    room = max(1, width - wide - 1)
    lines = [
        TopLine(((fitted(name, wide, is_name=True) + " ", ""), *_pieces(strip(lane, drawing.axis, letters, room))))
        for name, lane in zip(shown, lanes, strict=True)
    ]
    begin, end = clock(now_ms - minutes * 60_000), clock(now_ms)
    lines.append(TopLine(((" " * (wide + 1) + begin + fitted(end, max(1, room - len(begin)), is_number=True), DIM),)))
    legend = [f"{letter} {display_name(owner)}" for owner, letter in letters.items()]
    text = ", ".join([*legend[:20], *([f"{len(legend) - 20} more owners"] if len(legend) > 20 else [])])
    lines += wrapped(f"{text}; {UNOWNED} no owner, {BRIEFLY} for a moment none, {NO_MEMBERS} no members", width, DIM)
    return lines + (
        [TopLine(((f"{left_out:,} partitions with fewer changes are not drawn", DIM),))] if left_out else []
    )


def _pieces(characters: str) -> Iterable[tuple[str, str]]:
    """Yield the runs of a strip: a time without an owner stands out."""
    start = 0
    for place in range(1, len(characters) + 1):
        if place == len(characters) or characters[place] != characters[start]:
            yield characters[start:place], ALARM if characters[start] in (UNOWNED, BRIEFLY) else ""
            start = place


def _members(watched: WatchedCluster, group: WatchedGroup, names: Names, width: int) -> list[TopLine]:
    members = () if group.described is None else group.described.members
    drained = watched.drained(group.listed.group_id)
    has_tasks = any(map(task_words, members))
    tasks = Column("TASKS", 12, 60, 3, lambda each: (task_words(each), ""), is_name=True)
    columns = laid_out(
        (
            Column("MEMBER", 14, 30, 1, lambda each: (display_name(names(each.member_id)), BOLD), is_name=True),
            Column("PARTITIONS", 10, 10, 2, lambda each: (f"{len(each.assignment):,}", ""), is_number=True),
            *((tasks,) if has_tasks else ()),
            Column("HOST", 12, 24, 4, lambda each: (display_name(each.client_host), ""), is_name=True),
            Column("PROTOCOL", 8, 20, 5, lambda each: (_member_state(group, each, drained), "")),
            Column("CLIENT", 12, 24, 6, lambda each: (display_name(each.client_id), ""), is_name=True),
            Column("MEMBER ID", 12, 60, 7, lambda each: (display_name(each.member_id), DIM), is_name=True),
        ),
        width,
    )
    rows = [row_line(columns, each) for each in members[:MEMBERS]]
    left = [TopLine(((f"{len(members) - MEMBERS:,} more: kohort groups describe --members", DIM),))]
    return [heading(columns), *rows, *(left if len(members) > MEMBERS else [])] if rows else [TopLine((("none", DIM),))]


def _member_state(group: WatchedGroup, member: Any, drained: set[str]) -> str:
    words = [group.listed.group_type if member.is_native else "classic", member.phase.lower()]
    words += ["drained"] if member.member_id in drained else []
    return display_name(" ".join(filter(None, words)))


def _partitions(group: WatchedGroup, names: Names, now_ms: int, width: int) -> list[TopLine]:
    found = group.partitions(now_ms)

    def owner(line: Any) -> tuple[str, str]:
        if line.owner is None:
            return ("shared by members", DIM) if group.is_shared else ("no owner", ALARM)
        return display_name(names(line.owner)), ""

    def number(value: float | None) -> str:
        return "?" if value is None else short_number(value)

    def oldest(line: Any) -> tuple[str, str]:
        return ("?" if line.age_s is None else short_duration(line.age_s)), ""

    columns = laid_out(
        (
            Column("PARTITION", 16, 36, 1, lambda line: (display_name(str(line.partition)), ""), is_name=True),
            Column("LAG", 7, 8, 2, lambda line: (number(line.lag), ""), is_number=True),
            Column("OLDEST", 6, 6, 3, oldest, is_number=True),
            Column("COMMITTED", 9, 14, 6, lambda line: (number(line.committed), ""), is_number=True),
            Column("END", 7, 14, 7, lambda line: (number(line.end), ""), is_number=True),
            Column("COMMITS/S", 9, 9, 5, lambda line: (number(line.rate), ""), is_number=True),
            Column("OWNER", 12, 40, 4, owner, is_name=True),
            Column("UNKNOWN SINCE", 10, 200, 8, lambda line: (line.reason, DIM)),
        ),
        width,
    )
    rows = [row_line(columns, line) for line in found[:PARTITIONS]]
    left = [TopLine(((f"{len(found) - PARTITIONS:,} more: kohort groups describe", DIM),))]
    nothing = [TopLine((("Nothing is committed and nothing assigned.", DIM),))]
    return [heading(columns), *rows, *(left if len(found) > PARTITIONS else [])] if rows else nothing


# -- one rebalance


def rebalance_lines(
    group: WatchedGroup, number: int, command: Callable[[Sequence[str]], str], now_ms: int, width: int
) -> list[TopLine]:
    """Return the screen of one rebalance; `command` returns the whole line of a command's words."""
    report, names = group.known(now_ms)
    found = next((each for each in latest(report) if each.number == number), None)
    if found is None:
        return wrapped("This rebalance is no longer stored: only the last ones of a group are.", width)
    view = rebalance_view(found, names, now_ms, is_inferred=group.is_inferred)
    lines = wrapped(f"{moment(view.started_ms)}: {display_sentence(view.cause)}", width, BOLD)
    lines += wrapped(f"cost: {display_sentence(view.cost)}", width, ALARM if view.unowned_s >= 1 else "")
    lines += wrapped(f"running for {view.took}, {view.awaited}" if view.is_running else f"over in {view.took}", width)
    if view.is_inferred:
        joined = f" Joined: {view.joined}." if view.joined else ""
        text = "This cluster writes no events: cause and times are inferred from two looks at the group."
        lines += wrapped(display_sentence(text + joined), width, DIM)
    lines += _section("STEP BY STEP")
    for since, text in view.steps:
        first, *more = wrapped(display_sentence(text), max(20, width - 12))
        lines.append(TopLine(((fitted(since, 11, is_number=True) + " ", DIM), *first.pieces)))
        lines += [TopLine(((" " * 12, ""), *each.pieces)) for each in more]
    if view.took_lines:
        lines += _section("WHO THE OTHERS WAITED FOR")
        lines += [
            TopLine(((f"{each.took_ms:>8,} ms  ", ""), (display_name(each.member), BOLD), (f" {each.step}", "")))
            for each in view.took_lines
        ]
    lines += _section("WHAT AVOIDS IT  (c copies the command under the cursor)")
    for each in [*view.remedies, Remedy("Every event of it:", ("explain",), ("--verbose",))]:
        whole = command(command_words(each.verb, [group.listed.group_id], each.options))
        lines += wrapped(display_sentence(each.text), width, key=whole)
        lines += wrapped(whole, width, BOLD, key=whole, indent="  ")
    return lines
