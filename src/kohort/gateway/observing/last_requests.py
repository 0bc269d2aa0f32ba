"""When members of classic groups sent their last request through a gateway, and in which generation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from kohort.group.classic.exit import leave_cause
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import Heartbeat, Leave, Sync
from kohort.model.cause import Cause, CauseKind
from kohort.parking.limits import LATE_ANSWER_MS

EVICTED_SHARE = 0.9
"""A member that has sent nothing for this share of its session timeout when its group changes counts as evicted."""

MEMBER_FORGOTTEN_MS = 3_600_000
"""How long it is known when a member sent its last request: no session is as long."""


@dataclass(slots=True)
class _LastRequest:
    """Of one member."""

    sent_ms: int | None = None
    generation: int | None = None
    """The one that its last SyncGroup or heartbeat named."""
    heartbeat_ms: int | None = None
    """When it sent a heartbeat that its coordinator has not answered."""
    leaving: Cause | None = None
    """The cause of a LeaveGroup that is not answered, which another answer may overtake."""


_NOTHING = _LastRequest()


class LastRequests:
    """The members that have sent something; of senders that are no members nothing is remembered."""

    def __init__(self) -> None:
        self._last: defaultdict[str, _LastRequest] = defaultdict(_LastRequest)
        """By member id."""

    def sent(self, group: ClassicGroup | None, member_id: str, now_ms: int) -> None:
        """A request was sent to a group; its sender need not be a member, and the group need not be known."""
        if group is not None and member_id in group.members:
            last = self._last[member_id]
            last.sent_ms, last.leaving = now_ms, None

    def leaving(self, group: ClassicGroup, command: Leave, now_ms: int) -> None:
        """A LeaveGroup was sent to a group."""
        for each in command.members:
            member_id = each.member_id or group.static_members.get(each.instance_id or "", "")
            if member_id in group.members:
                self._last[member_id].leaving = leave_cause(each, member_id, now_ms)

    def found(self, member_id: str, now_ms: int) -> None:
        """A member was not known before: its session is taken to begin now."""
        self._last[member_id].sent_ms = now_ms

    def named(self, group: ClassicGroup | None, command: Heartbeat | Sync) -> None:
        """A request names the generation of its group that its sender has."""
        if group is not None and command.member_id in group.members:
            self._last[command.member_id].generation = command.generation

    def heartbeat_sent(self, member_id: str, now_ms: int) -> None:
        """A heartbeat of a member goes to the coordinator."""
        if (last := self._last.get(member_id)) is not None:
            last.heartbeat_ms = now_ms

    def heartbeat_answered(self, member_id: str) -> None:
        """The coordinator has answered a member's heartbeat."""
        if (last := self._last.get(member_id)) is not None:
            last.heartbeat_ms = None

    def is_parked_there(self, member_id: str, now_ms: int) -> bool:
        """Whether the coordinator has a member's heartbeat for so long that it parks it, as our broker does."""
        sent_ms = self._last.get(member_id, _NOTHING).heartbeat_ms
        return sent_ms is not None and now_ms - sent_ms >= LATE_ANSWER_MS

    def removed(self, member_id: str) -> None:
        """A member is out of its group."""
        self._last.pop(member_id, None)

    def forget_idle(self, now_ms: int) -> None:
        """Forget members that have sent nothing for long."""
        for member_id, last in list(self._last.items()):
            if last.sent_ms is not None and now_ms - last.sent_ms >= MEMBER_FORGOTTEN_MS:
                del self._last[member_id]

    def is_here(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether a member has sent its requests through this gateway since the group's generation formed."""
        return self._last.get(member_id, _NOTHING).generation == group.generation

    def idle_ms(self, member_id: str, now_ms: int) -> int:
        """Return for how long a member has sent nothing; 0 where it has sent nothing here."""
        sent_ms = self._last.get(member_id, _NOTHING).sent_ms
        return 0 if sent_ms is None else now_ms - sent_ms

    def is_absent(self, group: ClassicGroup, member_id: str, now_ms: int) -> bool:
        """Whether the coordinator may have removed a member: it leaves, or its session is over, or almost."""
        is_leaving = self._last.get(member_id, _NOTHING).leaving is not None
        return is_leaving or self._is_expired(group, member_id, now_ms)

    def _is_expired(self, group: ClassicGroup, member_id: str, now_ms: int) -> bool:
        return self.idle_ms(member_id, now_ms) >= EVICTED_SHARE * group.members[member_id].session_timeout_ms

    def session_end_ms(self, group: ClassicGroup, member_id: str, now_ms: int) -> int:
        """Return when the coordinator evicts a member that sends nothing more, as far as it is seen."""
        return now_ms - self.idle_ms(member_id, now_ms) + group.members[member_id].session_timeout_ms

    def cause_of_absence(self, group: ClassicGroup, member_id: str, now_ms: int) -> Cause:
        """Return why a member that its coordinator does not know any more was removed."""
        if (leaving := self._last.get(member_id, _NOTHING).leaving) is not None:
            return replace(leaving, at_ms=now_ms)
        opened = group.round_cause if group.is_gathering else None
        if opened is not None:
            timeout_ms = max(member.rebalance_timeout_ms for member in group.members.values())
            if now_ms - opened.at_ms >= EVICTED_SHARE * timeout_ms:
                return Cause(CauseKind.REBALANCE_TIMEOUT, now_ms, member_id)
        timeout_ms = group.members[member_id].session_timeout_ms
        if not self._is_expired(group, member_id, now_ms):
            return Cause(CauseKind.NOT_OBSERVED, now_ms, member_id)
        return Cause(CauseKind.SESSION_TIMEOUT, now_ms, member_id, f"no heartbeat for {timeout_ms / 1000:.1f} s")
