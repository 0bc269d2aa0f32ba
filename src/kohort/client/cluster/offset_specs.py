"""Numbers of ListOffsets and Fetch: the timestamps that stand for offsets, and the isolation levels.

Apart from the requests, since options are read where no cluster is, as by a process that Spark starts for a question.
"""

import re

from kohort.model.setting import refused

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

READ_UNCOMMITTED, READ_COMMITTED = 0, 1

ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
"""The isolation levels by their names in settings."""

_RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
RESET_FORMS = "earliest, latest, none, or by_duration: and a duration of ISO 8601, such as by_duration:PT1H"
"""The values of `auto_offset_reset`."""

_DURATION = re.compile(
    r"by_duration:([-+]?)P(?:([-+]?\d+)D)?(T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECOND_NS = 1_000_000_000


def reset_timestamp(reset: str, now_ms: int) -> int | None:
    """Return the timestamp of ListOffsets that `auto_offset_reset` stands for, None for "none".

    `by_duration` (KIP-1106) takes what Java's `Duration.parse` takes. Raises SettingsError for another text.
    """
    if reset in _RESETS:
        return _RESETS[reset]
    found = _DURATION.fullmatch(reset)
    if found is None or not (found[2] or found[3]) or not reset.startswith("by_duration:"):
        raise refused("auto_offset_reset", reset, RESET_FORMS)
    sign, days, _, hours, minutes, second_sign, seconds, fraction = found.groups(default="")
    second_ns = int(seconds or 0) * _SECOND_NS + int(fraction.ljust(9, "0"))
    minute_count = (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)
    duration_ns = minute_count * 60 * _SECOND_NS + (-second_ns if second_sign == "-" else second_ns)
    duration_ns = -duration_ns if sign == "-" else duration_ns
    if duration_ns < 0:
        raise refused("auto_offset_reset", reset, RESET_FORMS)
    return max(0, (now_ms * 1_000_000 - duration_ns) // 1_000_000)
