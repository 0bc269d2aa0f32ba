"""Answers to heartbeats of classic members, held until there is news of their group.

A heartbeat goes to the coordinator at once, so that its member's session is renewed on time; its answer is held for as
long as `kohort.parking` says. When a round is predicted, the heartbeat is repeated, and the coordinator's own answer
goes to the client: no client gets REBALANCE_IN_PROGRESS without a round. A coordinator that has not seen the round
yet is asked again a little later. So it is with held answers to SyncGroup.

An answer with REBALANCE_IN_PROGRESS is held too while the members of an eager round, all behind this gateway, are to
learn of it together: a member that stops earlier gains nothing. Where it cannot wait so long, its client gets an answer
without an error. A member that stays silent for its session is not waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Protocol

from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.answers import encode_answer
from kohort.gateway.relay.relay import Exchange
from kohort.group.classic.group import Phase
from kohort.group.commands import CommitOffsets, Heartbeat, Sync
from kohort.group.effects import Announce
from kohort.group.results import HeartbeatResult
from kohort.model.errors import ErrorCode
from kohort.node.timers import NodeClock, Timers
from kohort.parking.classic_heartbeats import ClassicParking
from kohort.parking.parked_heartbeat import Follower, ParkedHeartbeat
from kohort.wire.codec import Buffer
from kohort.wire.messages import HeartbeatResponse, SyncGroupResponse

FIRST_REPEAT_MS = 4
"""When to repeat a request after its round was predicted: requests of two connections may overtake each other."""

REPEATS_MS = (20, 100, 400)
"""When to repeat it again where the coordinator answers that there is no round."""

LATE_MS = 500
"""An answer to a heartbeat that took so long is not held, unless its group learns of a round together."""

_ALIVE = HeartbeatResult(ErrorCode.NONE)
_QUIET = HeartbeatResult(ErrorCode.NONE, is_quiet=True)
_OUT = HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID)
_REBALANCING = HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)


class _Held:
    """An answer that is held, and whose request may be repeated."""

    def __init__(self, holding: ClassicHolding, exchange: Exchange, command: Heartbeat | Sync, frame: Buffer) -> None:
        self.holding = holding
        self.exchange = exchange
        self.frame = frame
        self.group_id = command.group_id
        self._repeats = 0

    def repeat(self, now_ms: int) -> None:
        """Ask the coordinator again."""
        del now_ms
        self._repeats += 1
        self.exchange.repeat()

    def answered_again(self, frame: Buffer, error: ErrorCode, now_ms: int) -> Buffer | None:
        """Take the answer to a request that was repeated; return what the client gets, None to ask again."""
        is_due = self.holding.is_gathering(self.group_id) and self._repeats <= len(REPEATS_MS)
        if error is ErrorCode.NONE and is_due:
            self.frame = frame
            self.holding.timers.arm(self, now_ms + REPEATS_MS[self._repeats - 1], self.repeat)
            return None
        return frame

    def answer_now(self) -> None:
        """Send the answer that is held. If there is news, the coordinator sends it with its next answer."""
        self.holding.timers.disarm(self)
        self.exchange.answer(self.frame)


class HeldAnswer(_Held):
    """A heartbeat whose answer is held."""

    def __init__(
        self, holding: ClassicHolding, exchange: Exchange, command: Heartbeat, frame: Buffer, error: ErrorCode
    ) -> None:
        super().__init__(holding, exchange, command, frame)
        self._error = error
        self.command = command
        self.parked: ParkedHeartbeat[Heartbeat, HeartbeatResult] | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it waits for news."""
        return self.parked is not None and self.parked.parking is not None

    def end(self, result: HeartbeatResult) -> None:
        """The wait is over: repeat the heartbeat for news, else send the answer that was held."""
        self.parked = None  # it refers to this one: no garbage collector should have to find them
        if self._error is not ErrorCode.NONE and result.error is ErrorCode.NONE:
            self.exchange.answer(encode_answer(self.exchange.head, HeartbeatResponse()))
        elif self._error is not ErrorCode.NONE or result.error is ErrorCode.NONE:
            self.exchange.answer(self.frame)
        else:
            self.holding.news[GroupProtocol.CLASSIC] += 1
            self.holding.repeat_later(self)

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """A request arrived behind it: return whether the answer goes on being held."""
        if self.parked is not None and self.parked.followed(follower, now_ms):
            return True
        self.answer_now()
        return False

    def drop(self) -> None:
        """The connection has ended."""
        self.holding.timers.disarm(self)
        if self.parked is not None:
            self.parked.drop()
            self.parked = None


class HeldSync(_Held):
    """The answer to a SyncGroup of a member that need not revoke, held until those that must have joined again."""

    def end(self, error: ErrorCode) -> None:
        """Send the assignment, or the coordinator's own answer once the round has begun there."""
        if error is ErrorCode.NONE:
            self.answer_now()
        elif not self.exchange.frame:  # it was too long to be kept
            self.exchange.answer(encode_answer(self.exchange.head, SyncGroupResponse(error_code=error)))
        else:
            self.holding.repeat_later(self)

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """A request arrived behind it: the member gets its assignment."""
        del follower, now_ms
        self.answer_now()
        return False

    def drop(self) -> None:
        """The connection has ended."""
        self.holding.timers.disarm(self)


class ReachedMembers(Protocol):
    """The other instances of the gateway, which hold heartbeats of the same groups."""

    def reach_changed(self, group_id: str, members: Collection[str], is_reached: bool, /) -> None:
        """While a round is announced: heartbeats of members are held here, or no longer."""

    def announced(self, group_id: str, now_ms: int, /) -> None:
        """A round is announced: `reached_elsewhere` gets those whose heartbeats others hold."""


class ClassicHolding:
    """The held answers of all classic groups. `news` counts those whose wait ended for news of their group."""

    def __init__(
        self,
        groups: ObservedGroups,
        timers: Timers,
        clock: NodeClock,
        news: Counter[GroupProtocol],
        is_ordered: Callable[[Heartbeat, int], bool],
        instances: ReachedMembers,
    ) -> None:
        self._instances = instances
        self.news = news
        self._is_ordered = is_ordered
        """Whether a heartbeat is to be answered with REBALANCE_IN_PROGRESS by order of an operator."""
        self.timers = timers
        self._clock = clock
        self._syncs: dict[tuple[str, str], HeldSync] = {}
        self._groups = groups
        self._complete: set[str] = set()
        """Groups with an announced round whose members are all behind this gateway."""
        self._parking: ClassicParking[Heartbeat, HeartbeatResult] = ClassicParking(
            timers, self._decide, _ALIVE, _unnoted, reach_changed=instances.reach_changed
        )

    def __len__(self) -> int:
        return len(self._parking)

    def hold(
        self,
        exchange: Exchange,
        command: Heartbeat,
        frame: Buffer,
        error: ErrorCode,
        now_ms: int,
        *,
        software: str = "",
        answered_after_ms: int = 0,
        commit_hold_ms: int = 0,
    ) -> HeldAnswer | None:
        """Hold the answer to a heartbeat, with its error; None where it is to be sent now.

        `software` is the sender's. One that was answered `answered_after_ms` later may have been held by its
        coordinator, as our broker does; held twice, it could outlast a session.
        """
        self._clock.advance(now_ms)
        group = self._groups.group(command.group_id)
        member = None if group is None else group.members.get(command.member_id)
        if member is None:
            return None
        held = HeldAnswer(self, exchange, command, frame, error)
        result = self._decide(command, now_ms)
        if error is not ErrorCode.NONE and (result.error is not error or command.group_id not in self._complete):
            return None
        held.parked = self._parking.park(
            command,
            result,
            held.end,
            member.session_timeout_ms,
            now_ms,
            software=software,
            is_static=command.instance_id is not None,
            can_wait=answered_after_ms < LATE_MS,
            commit_hold_ms=commit_hold_ms,
        )
        if held.parked is None:
            if result.error is error:
                return None
            self.repeat_later(held)  # the round overtook the heartbeat
        return held

    def hold_sync(self, exchange: Exchange, command: Sync, frame: Buffer, now_ms: int) -> HeldSync | None:
        """Hold the answer to a SyncGroup; None where it is to be sent now."""
        self._clock.advance(now_ms)
        held = HeldSync(self, exchange, command, frame)
        if not self.is_gathering(command.group_id):
            self._syncs[command.group_id, command.member_id] = held
        elif exchange.frame:
            self.repeat_later(held)
        else:
            return None
        return held

    def release_sync(self, group_id: str, member_id: str, error: ErrorCode, now_ms: int) -> None:
        """End the wait of a held answer to SyncGroup: with `error` its member is to join a round that has begun."""
        self._clock.advance(now_ms)
        held = self._syncs.pop((group_id, member_id), None)
        if held is not None:
            held.end(error)

    def repeat_later(self, held: HeldAnswer | HeldSync) -> None:
        """Repeat a request in a moment."""
        self.timers.arm(held, self._clock.now_ms + FIRST_REPEAT_MS, held.repeat)

    def is_gathering(self, group_id: str) -> bool:
        """Whether a round of a group gathers its members, as far as it is seen."""
        group = self._groups.group(group_id)
        return group is not None and group.is_gathering

    def _decide(self, command: Heartbeat, now_ms: int) -> HeartbeatResult:
        group = self._groups.group(command.group_id)
        if group is None:
            return _ALIVE
        if self._is_ordered(command, now_ms):
            return _REBALANCING
        if command.member_id not in group.members:
            return _OUT
        if group.is_gathering:
            return _ALIVE if command.member_id in group.awaiting_join else _REBALANCING
        return _QUIET if group.phase is Phase.STABLE else _ALIVE

    # What happens to the groups

    def committed(self, command: CommitOffsets, now_ms: int) -> None:
        """A member sends a commit; in a round it may do so since it revokes partitions."""
        is_in_round = self.is_gathering(command.group_id)
        self._parking.committed(command.member_id, now_ms, is_in_round=is_in_round)

    def synced(self, member_id: str, now_ms: int) -> None:
        """A member got its assignment."""
        self._parking.begin(member_id, now_ms)

    def joined(self, group_id: str, member_id: str) -> None:
        """A member's JoinGroup was sent."""
        self._parking.joined(group_id, member_id)

    def removed(self, group_id: str, member_id: str) -> None:
        """A member has left, or was evicted."""
        self._parking.forget(group_id, member_id)

    def announce(self, announce: Announce, now_ms: int) -> None:
        """A round has begun of which members learn together."""
        self._clock.advance(now_ms)
        self._parking.announce(announce.group_id, announce.awaited, announce.stopping, announce.latest_ms, now_ms)
        self._instances.announced(announce.group_id, now_ms)
        group = self._groups.group(announce.group_id)
        if group is not None and all(self._groups.last_requests.is_here(group, each) for each in announce.awaited):
            self._complete.add(announce.group_id)
            self._await_sessions(announce.group_id, now_ms)

    def _await_sessions(self, group_id: str, now_ms: int) -> None:
        """Wait for the members that a round has not reached no longer than their sessions last.

        A coordinator evicts those that are silent, and no answer shows it while the others wait here.
        """
        self._clock.advance(now_ms)
        group, unreached = self._groups.group(group_id), self._parking.unreached(group_id)
        if group is None or not unreached:
            return
        ends_ms = {each: self._groups.last_requests.session_end_ms(group, each, now_ms) for each in group.members}
        silent = [each for each in unreached if ends_ms.get(each, now_ms) <= now_ms]
        if later_ms := [end_ms for end_ms in ends_ms.values() if end_ms > now_ms]:
            self.timers.arm((self, group_id), min(later_ms), partial(self._await_sessions, group_id))
        for member_id in silent:
            self._parking.joined(group_id, member_id)
        if silent:
            self.group_changed(group_id, now_ms)

    # What other instances of the gateway hold

    def is_announcing(self, group_id: str) -> bool:
        """Whether members of a group have yet to learn of a round together."""
        return self._parking.is_announcing(group_id)

    def reached_elsewhere(self, group_id: str, members: Iterable[str], now_ms: int) -> None:
        """Heartbeats of members are held by another instance, while a round is announced."""
        self._clock.advance(now_ms)
        self._parking.reached_elsewhere(group_id, members, now_ms)

    def lost_elsewhere(self, group_id: str, members: Iterable[str]) -> None:
        """Heartbeats of members are no longer held by another instance."""
        group = self._groups.group(group_id)
        if group is not None:
            awaited = group.members.keys() - group.awaiting_join
            self._parking.lost_elsewhere(group_id, [each for each in members if each in awaited])

    def release_group(self, group_id: str, now_ms: int) -> None:
        """Send all answers of a group that are held: its members can no longer learn of a round together."""
        self._clock.advance(now_ms)
        self._parking.release_group(group_id, now_ms)

    def group_changed(self, group_id: str, now_ms: int) -> None:
        """Answer the heartbeats for which there is news now."""
        self._clock.advance(now_ms)
        group = self._groups.group(group_id)
        is_gathering = group is not None and group.is_gathering
        if not is_gathering:
            self._complete.discard(group_id)
        self._parking.group_changed(group_id, now_ms, is_gathering=is_gathering)


def _unnoted(_group_id: str, _waited_ms: int, _now_ms: int) -> None:
    """Do nothing: a gateway writes no event when the members of a group learn of a round."""
