"""Text of drawings and reports: escaped names, times in UTC, durations and counts.

A group's name is any string that a client sent: ten thousand characters, control characters, or marks that reverse the
direction of text. Shown names have such characters as codes, and are cut in the middle.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
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


def rule_title(rule: str) -> str:
    """Return a rule's name as a heading: "rebalance_storm" is "Rebalance storm"."""
    words = visible(rule.replace("_", " ").replace("-", " "))[:80]
    return words[:1].upper() + words[1:]
