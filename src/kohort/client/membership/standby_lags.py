"""How far the standby copies of a program are behind, as it reports them (KIP-848's extension for standby members)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kohort.member import ClassicMember, ConsumerMember
from kohort.member.inputs import LagsReported
from kohort.model.ids import TopicPartition

log = logging.getLogger("kohort.client.membership")

Lags = Mapping[TopicPartition, int]


class StandbyLags:
    """The lags that a program reported last: values, or a function that returns those of now."""

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
        """Have a member of the consumer protocol read the lags before each heartbeat; return the input for now."""
        if isinstance(member, ConsumerMember):
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
