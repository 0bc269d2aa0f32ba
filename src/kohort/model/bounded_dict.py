"""Dict with a limit, for what is remembered of names that clients choose."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class BoundedDict(OrderedDict[KeyT, ValueT]):
    """At most `most` entries, in the order in which they were set: beyond that the first one goes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        if key in self:
            self.move_to_end(key)
        elif len(self) >= self.most:
            self.popitem(last=False)
        super().__setitem__(key, value)
