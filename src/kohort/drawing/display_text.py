"""Text of drawings and reports: escaped names, times in UTC and their labels on an axis, durations and counts.

A group's name is any string that a client sent: ten thousand characters, control characters, or marks that reverse the
direction of text. Shown names have such characters as codes, and are cut in the middle.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

NAME_LENGTH = 96
"""Longer names are cut in the middle; what is left carries a digest, so that two of them stay apart."""

SENTENCE_LENGTH = 600

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that show nothing, or that change how others are shown."""


def display_name(name: str) -> str:
    """Return a name as it may be shown: never empty, at most NAME_LENGTH characters, nothing invisible in it."""
    if not name:
        return "(empty name)"
    cut = name
    if len(name) > NAME_LENGTH:
        digest = blake2b(name.encode(errors="backslashreplace"), digest_size=3).hexdigest()
        cut = f"{name[:40]}…{name[-16:]} ({len(name):,} characters, {digest})"
    return visible(cut)[: 4 * NAME_LENGTH]


def visible(text: str) -> str:
    """Return a text with invisible characters as their codes, and spaces at its ends as ␠."""
    spelled = "".join(_spelled(character) for character in text)
    inner = spelled.strip(" ")
    before = len(spelled) - len(spelled.lstrip(" "))
    after = 0 if not inner else len(spelled) - before - len(inner)
    return "␠" * before + inner + "␠" * after


def _spelled(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_sentence(sentence: str) -> str:
    """Return a sentence of a finding without invisible characters, and cut where it is longer than a paragraph."""
    spelled = visible(sentence[: SENTENCE_LENGTH + 1])
    return spelled if len(sentence) <= SENTENCE_LENGTH else spelled[:SENTENCE_LENGTH] + "…"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return "1 group", "2,000 groups"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"."""
    if 0 < seconds < 0.05:
        return "under 0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds and seconds != round(seconds) else f"{seconds:.0f} s"
    whole = round(seconds)
    for unit_s, unit, lower_s, lower in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // lower_s
            return f"{whole // unit_s:,} {unit}" + (f" {rest} {lower}" if rest else "")
    return f"{whole} s"


def moment(at_ms: int | None) -> str:
    """Return a time as "3 Nov 2026 14:05:09"; in milliseconds where it is outside of the calendar."""
    return "–" if at_ms is None else _in_utc(at_ms, "%b %Y %H:%M:%S")


def hour(at_ms: int) -> str:
    """Return a time as "3 Nov 14:00"."""
    return _in_utc(at_ms, "%b %H:%M")


def day(at_ms: int) -> str:
    """Return a time as "3 Nov"."""
    return _in_utc(at_ms, "%b")


def clock(at_ms: int) -> str:
    """Return a time as "14:05:09"; in milliseconds where it is outside of the calendar."""
    return _in_utc(at_ms, "%b %H:%M:%S").split(" ", 2)[-1]


def _in_utc(at_ms: int, rest: str) -> str:
    try:
        when = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{at_ms} ms"
    return f"{when.day} {when:{rest}}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return "a, b and c", or "a, b, c and 4 more"."""
    shown = list(names[:most])
    left = len(names) - len(shown)
    if left:
        return ", ".join(shown) + f" and {left:,} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes: an East Asian wide character two, a combining one none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int, *, is_number: bool = False, is_name: bool = False) -> str:
    """Return a text in exactly `width` columns of a terminal, numbers to the right; one too long ends with "…".

    A name is cut in the middle, since what distinguishes names is often at their end.
    """
    if cells(text) > width:
        tail = _first(text[::-1], width // 3)[::-1] if is_name else ""
        text = f"{_first(text, width - 1 - cells(tail))}…{tail}" if width > 0 else ""
    blank = " " * (width - cells(text))
    return blank + text if is_number else text + blank


def _first(text: str, width: int) -> str:
    """Return the beginning of a text that fits into so many columns."""
    used = 0
    for place, character in enumerate(text):
        used += _cells(character)
        if used > width:
            return text[:place]
    return text


def short_number(value: float) -> str:
    """Return a number in at most seven characters: "0.4", "123,456", "1.2M"."""
    if abs(value) < 10 and value != round(value):
        return f"{value:.1f}"
    for unit, least in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= least:
            return f"{value / least:,.1f}{unit}"
    return f"{value:,.0f}"


def short_duration(seconds: float) -> str:
    """Return a duration in at most six characters: "0.4s", "59m59s", "2h05m", "3d04h"."""
    if seconds < 10 and seconds != round(seconds):
        return f"{max(seconds, 0.1):.1f}s"
    whole = round(seconds)
    for unit_s, unit, lower_s, lower in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit_s:
            return f"{whole // unit_s}{unit}{whole % unit_s // lower_s:02}{lower}"
    return f"{whole}s"


def rule_title(rule: str) -> str:
    """Return a rule's name as a heading: "rebalance_storm" is "Rebalance storm"."""
    words = visible(rule.replace("_", " ").replace("-", " "))[:80]
    return words[:1].upper() + words[1:]


_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(number * _SECOND for number in (1, 2, 5, 10, 20, 30)),
    *(number * _MINUTE for number in (1, 2, 5, 10, 20, 30)),
    *(number * _HOUR for number in (1, 2, 4, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 28, 91, 365, 3650)),
)
_MOST = 7
"""Steps from the beginning to the end; a phone has room for the label of every second one."""
_IN_SECONDS_MS = 10 * _MINUTE
"""A longer time since the beginning is written as hours, minutes and seconds."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time of a drawing, in milliseconds; `is_clock`: since 1970, shown in UTC, else since any beginning."""

    from_ms: float
    until_ms: float
    is_clock: bool

    @property
    def duration_ms(self) -> float:
        """How long it is, at least a millisecond."""
        return max(self.until_ms - self.from_ms, 1)

    def share(self, at_ms: float) -> float:
        """Return where a time is between the beginning, 0, and the end, 1: times outside are moved to an end."""
        return min(max((at_ms - self.from_ms) / self.duration_ms, 0), 1)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield times with their labels."""
        most = _MOST // 2 if self.is_clock and self.duration_ms < _MOST * _SECOND else _MOST  # labels with milliseconds
        step = next((each for each in _STEPS if self.duration_ms / each <= most), self.duration_ms / most)
        begin = 0.0 if self.is_clock else self.from_ms
        place = -((begin - self.from_ms) // step)
        while begin + place * step <= self.from_ms + self.duration_ms:
            at_ms = begin + place * step
            yield at_ms, self._label(at_ms, step)
            place += 1

    def text(self, at_ms: float) -> str:
        """Return a time as it is shown of one event: "1.250 s", "1:02:03", "14:05:09"."""
        if self.is_clock:
            before = f"{day(round(at_ms))} " if self.duration_ms > _DAY else ""
            return before + clock(round(at_ms))
        since_ms = at_ms - self.from_ms
        return f"{since_ms / 1000:.3f} s" if self.duration_ms <= _IN_SECONDS_MS else _hours(since_ms)

    def _label(self, at_ms: float, step_ms: float) -> str:
        if not self.is_clock:
            since_ms = at_ms - self.from_ms
            return f"{round(since_ms / 1000, 3):g} s" if self.duration_ms <= _IN_SECONDS_MS else _hours(since_ms)
        if at_ms % _DAY == 0:
            return day(round(at_ms))
        if step_ms >= _MINUTE:
            return clock(round(at_ms)).rpartition(":")[0]
        milliseconds = f".{round(at_ms) % 1000:03}" if step_ms < _SECOND else ""
        return clock(round(at_ms)) + milliseconds


def _hours(since_ms: float) -> str:
    minutes, seconds = divmod(round(since_ms / 1000), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
