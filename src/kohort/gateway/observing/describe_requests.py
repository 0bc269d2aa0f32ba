"""When a group of which not all is known is looked up at its coordinator: at once, and not twice within two seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kohort.gateway.observing.group_signals import GroupSignals
from kohort.model.bounded_dict import BoundedDict
from kohort.node.timers import Timers

LookUp = Callable[[str, int | None], None]
"""Takes a group of which not all is known, and its generation, None for a consumer group: what DescribeGroups or
ConsumerGroupDescribe shows goes to `ObservedGroups.described` or `ObservedGroups.consumer_described`."""

LOOK_UP_AGAIN_MS = 2_000
"""How long to wait until the same group is looked up again."""

MOST_LOOKED_UP = 10_000
"""How many groups are remembered as looked up."""


class DescribeRequests:
    """The look-ups of one gateway that were requested lately, or wait to be."""

    def __init__(self, timers: Timers, look_up: LookUp, signals: GroupSignals) -> None:
        self._timers = timers
        self._look_up = look_up
        self._signals = signals
        self._begun_ms: BoundedDict[tuple[str, bool], int] = BoundedDict(MOST_LOOKED_UP)
        """By group, and whether it is looked up as a classic one, when it was last."""

    def request(self, group_id: str, generation: int | None, now_ms: int, *, is_guess: bool = False) -> None:
        """Look a group up, soon. With `is_guess` it takes no other's place that waits."""
        key = group_id, generation is not None
        due_ms = self._begun_ms.get(key, -LOOK_UP_AGAIN_MS) + LOOK_UP_AGAIN_MS
        if due_ms > now_ms:
            waiting = "look up", key
            if not is_guess or self._timers.deadline_ms(waiting) is None:
                self._timers.arm(waiting, due_ms, partial(self.request, group_id, generation))
            return
        self._begun_ms[key] = now_ms
        self._signals.look_up_begun(group_id, generation, now_ms)
        self._look_up(group_id, generation)

    def generation_proved(self, group_id: str, generation: int) -> None:
        """A heartbeat shows that a classic group has this generation: a look-up of it that waits is in that one."""
        due_ms = self._timers.deadline_ms(("look up", (group_id, True)))
        if due_ms is not None:
            self._timers.arm(("look up", (group_id, True)), due_ms, partial(self.request, group_id, generation))
