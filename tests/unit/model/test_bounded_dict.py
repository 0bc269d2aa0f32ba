"""A dict with a limit forgets what was set longest ago."""

from __future__ import annotations

from kohort.model.bounded_dict import BoundedDict


def test_the_entry_that_was_set_longest_ago_goes_first() -> None:
    remembered: BoundedDict[str, int] = BoundedDict(2)
    for number, key in enumerate(("a", "b", "a", "c")):
        remembered[key] = number
    assert remembered == {"a": 2, "c": 3}
