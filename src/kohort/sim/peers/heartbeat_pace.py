"""When a classic member of a given client sends its next heartbeat: what differs from one client library to another.

`ClassicMember` counts the interval from the send and waits for the answer, as aiokafka, kafka-python and our client do.
Java sends the next heartbeat on time although the last one is not answered, librdkafka skips a heartbeat that falls due
while another is unanswered, and kgo counts the interval from the answer. Only a broker that keeps heartbeats unanswered
sees the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kohort.member import ClassicMember, inputs
from kohort.member.identity import Identity
from kohort.sim.kernel.host import Host

Pace = Literal["waits", "overlaps", "skips", "from answer"]
"""`waits`: from the send, after the answer. `overlaps`: from the send, answered or not (Java). `skips`: one that falls
due while another is unanswered is left out (librdkafka). `from answer`: an interval after the answer (kgo)."""


LONGEST_GAPS = {"waits": 1, "overlaps": 1, "skips": 2, "from answer": 2}
"""How many intervals may lie between two heartbeats of a client, however long a broker keeps the first."""


class Heartbeats:
    """One member's pace: call `sent` when a heartbeat leaves, `answered` before the member takes the answer."""

    def __init__(
        self, pace: Pace, member: ClassicMember, host: Host, interval_ms: int, take: Callable[[inputs.Input], None]
    ) -> None:
        self._pace = pace
        self._member = member
        self._host = host
        self._interval_ms = interval_ms
        self._take = take

    def sent(self, identity: Identity) -> None:
        """A heartbeat leaves."""
        if self._pace == "overlaps":
            self._host.after_us(self._interval_ms * 1000, self._send_next, identity)

    def answered(self, identity: Identity) -> None:
        """An answer is here, to a heartbeat that was sent as `identity`."""
        member, session, now_ms = self._member, self._member.session, self._host.now_ms()
        if identity != member.identity or session.heartbeat_ms is None:
            return
        match self._pace:
            case "overlaps" if member.beat_as is None:
                member.beat_as = identity  # it was taken for answered when the next one fell due
            case "skips":
                while session.heartbeat_ms <= now_ms:
                    session.heartbeat_ms += self._interval_ms
            case "from answer":
                session.mark_heartbeat_sent(now_ms)
            case _:
                pass

    def _send_next(self, identity: Identity) -> None:
        """The interval is over: have the member send the next heartbeat, whether or not the last one is answered."""
        if self._member.beat_as == identity == self._member.identity:
            self._member.beat_as = None
            self._take(inputs.Tick())


__all__ = ["LONGEST_GAPS", "Heartbeats", "Pace"]
