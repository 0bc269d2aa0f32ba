"""The rebalance listener, and calls into the user's code: its callbacks, the assignor's `on_assignment`, standby lags.

The listener's callbacks run one at a time, never beside each other. While one runs the group waits for this member, at
most for the rebalance timeout; offsets may be committed in `on_partitions_revoked`, and no longer in
`on_partitions_lost`. The law (KIP-429): an exception of one call stops no other; the first one of a round is raised
from the user's own next call, once all calls of the round have had their turn. A function of lags that fails is logged,
and its last lags stand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable

from kohort.assign.spec import Assignor
from kohort.client.errors import AssignmentFailed
from kohort.member import ClassicMember, ConsumerMember, effects, inputs
from kohort.member.effects import Callback
from kohort.member.inputs import LagsReported
from kohort.model.assignment import Partitions, in_order
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

ListenerCallback = Callable[[Partitions], Awaitable[None] | None]


class RebalanceListener:
    """Subclass it and override what you need, with `async def` or plain `def`.

    A plain method of a listener of `kohort.sync` runs on the program's thread, any other on the loop's: it must not
    block. An exception is raised again by the next `poll`.
    """

    def on_partitions_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        """These partitions are about to go to other members: finish with them. Empty where nothing was owned."""

    def on_partitions_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        """These partitions are now this member's; nothing of them has been read yet."""

    def on_partitions_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        """These partitions already belong to others: drop what is half done. Calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


async def finished(outcome: object) -> None:
    """Wait for what a listener's method returned, if it can be awaited: a plain function may return any value."""
    if isawaitable(outcome):
        await outcome


class CallbackAbandoned(Exception):
    """Raised by a listener that could not run in time: the partitions count as still owned."""


class Callbacks(RebalanceListener):
    """Calls the functions that were given; `on_lost` is `on_revoked` unless it was given too, as in Java."""

    def __init__(
        self,
        on_assigned: ListenerCallback | None,
        on_revoked: ListenerCallback | None,
        on_lost: ListenerCallback | None,
    ) -> None:
        self._assigned = on_assigned
        self._revoked = on_revoked
        self._lost = on_lost or on_revoked

    def on_partitions_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        return None if self._assigned is None else self._assigned(partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        return None if self._revoked is None else self._revoked(partitions)

    def on_partitions_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        return None if self._lost is None else self._lost(partitions)


def listener_of(
    listener: RebalanceListener | None,
    on_assigned: ListenerCallback | None,
    on_revoked: ListenerCallback | None,
    on_lost: ListenerCallback | None,
) -> RebalanceListener | None:
    """Return the listener, or one of the functions, or None where neither was given. Raises ValueError for both."""
    if on_assigned is None and on_revoked is None and on_lost is None:
        return listener
    if listener is not None:
        raise ValueError("give a listener or the functions on_assigned, on_revoked and on_lost, not both")
    return Callbacks(on_assigned, on_revoked, on_lost)


Lags = Mapping[TopicPartition, int]


@dataclass(eq=False)
class UserCallbacks:
    """One member's calls, and what is still to be raised."""

    _group_id: str
    _listener: RebalanceListener
    _assignors: Mapping[str, Assignor]
    _timeout_ms: int
    _error: Exception | None = None
    _failure: AssignmentFailed | None = None

    def raise_in_poll(self, effect: effects.RaiseInPoll) -> None:
        """Raise it from the user's next call, unless a round succeeds before that."""
        log.warning("group %s: %s", self._group_id, effect.text)
        self._failure = AssignmentFailed(effect.text)

    def call_on_assignment(self, effect: effects.OnAssignment) -> None:
        """Call the assignor's `on_assignment`, if it has one: assignors of before KIP-429 have none."""
        self._failure = None
        on_assignment = getattr(self._assignors[effect.protocol_name], "on_assignment", None)
        if on_assignment is None:
            return
        try:
            on_assignment(effect.assignment, effect.generation)
        except Exception as error:
            log.exception("group %s: on_assignment of %s failed", self._group_id, effect.protocol_name)
            self._error = self._error or error

    async def run(self, effect: effects.RunCallback) -> inputs.CallbackFinished:
        """Run a callback of the listener, for as long as the group waits at most."""
        callback, partitions = effect.callback, in_order(effect.partitions)
        names = ", ".join(map(str, sorted(partitions))) or "nothing"
        log.info("group %s: %s %s: %s", self._group_id, callback, names, effect.cause)
        call = {
            Callback.REVOKED: self._listener.on_partitions_revoked,
            Callback.ASSIGNED: self._listener.on_partitions_assigned,
            Callback.LOST: self._listener.on_partitions_lost,
        }[callback]
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await finished(call(partitions))
        except CallbackAbandoned:
            return inputs.CallbackFinished(callback, is_abandoned=True)
        except Exception as error:
            log.exception("group %s: on_partitions_%s failed", self._group_id, callback)
            self._error = self._error or error
        return inputs.CallbackFinished(callback)

    def check(self, *, is_between: bool) -> None:
        """Raise what is to be raised, once; a callback's exception not while others of its rebalance are to come."""
        if self._error is not None and not is_between:
            error, self._error = self._error, None
            raise error
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


class StandbyLags:
    """How far standby copies are behind, as a program reported it last (KIP-848's extension): values or a function."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._reported: Lags | Callable[[], Lags] = {}
        self._last: Lags = {}

    @property
    def is_reported(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._reported)

    def report(self, lags: Lags | Callable[[], Lags]) -> None:
        """Replace what was reported before."""
        self._reported = lags

    def attach(self, member: ClassicMember | ConsumerMember) -> LagsReported:
        """Have a member read the lags before each heartbeat; return the input for now."""
        member.lag_source = self._current if callable(self._reported) else None
        return LagsReported(self._current())

    def _current(self) -> Lags:
        if not callable(self._reported):
            self._last = dict(self._reported)
            return self._last
        try:
            self._last = dict(self._reported())
        except Exception:
            log.exception("group %s: the function given to report_standby_lag failed", self._group_id)
        return self._last
