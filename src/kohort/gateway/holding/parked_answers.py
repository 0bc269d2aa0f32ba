"""Answers to heartbeats of classic members, parked until there is an update of their group.

A heartbeat goes to the coordinator at once, so that its member's session is renewed on time; its answer is parked for
as long as `kohort.parking` decides. When a round is predicted, the heartbeat is repeated, and the coordinator's own
answer goes to the client: no client gets REBALANCE_IN_PROGRESS without a round.

An answer with REBALANCE_IN_PROGRESS is parked too while the members of an eager round, all behind this gateway, are to
learn of it together: a member that stops earlier gains nothing. Where it cannot wait so long, its client gets an answer
without an error. A member that sends nothing for its session is not waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial

from kohort.gateway.holding.waiting_answers import RequestRepeats, WaitingAnswer
from kohort.gateway.observing.group_signals import GroupSignals
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.relay import Exchange, encode_answer
from kohort.group.classic.group import Phase
from kohort.group.commands import CommitOffsets, Heartbeat
from kohort.group.effects import Announce
from kohort.group.events import ConsumerMemberDeleted, Event, GroupDeleted, MemberRemoved, StaticMemberReplaced
from kohort.group.results import HeartbeatResult
from kohort.model.errors import ErrorCode
from kohort.parking.classic_heartbeats import ClassicParking
from kohort.parking.client_software import REPEAT_ERRORS, UNNAMED, ClientSoftware
from kohort.parking.limits import LATE_ANSWER_MS
from kohort.parking.parked_heartbeat import Follower, ParkedHeartbeat
from kohort.wire.codec import Buffer
from kohort.wire.messages import HeartbeatResponse

_ALIVE = HeartbeatResult(ErrorCode.NONE)
_QUIET = HeartbeatResult(ErrorCode.NONE, is_quiet=True)
_OUT = HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID)
_REBALANCING = HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)


class ParkedAnswer(WaitingAnswer):
    """The parked answer to one heartbeat, with its error. `updates` counts those that are repeated for an update."""

    def __init__(
        self,
        repeats: RequestRepeats,
        exchange: Exchange,
        heartbeat: Heartbeat,
        frame: Buffer,
        error: ErrorCode,
        updates: Counter[GroupProtocol],
    ) -> None:
        super().__init__(repeats, exchange, heartbeat.group_id, frame)
        self._error = error
        self._updates = updates
        self.heartbeat = heartbeat
        self.parked: ParkedHeartbeat[Heartbeat, HeartbeatResult] | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it waits for an update, and for nothing else."""
        return self.parked is not None and self.parked.is_parked

    def end(self, result: HeartbeatResult) -> None:
        """The wait is over: repeat the heartbeat for an update, else send the answer that was parked."""
        self.parked = None  # it refers to this one: no garbage collector should have to find them
        if result.error in REPEAT_ERRORS or (self._error and not result.error):
            self.exchange.answer(encode_answer(self.exchange.head, HeartbeatResponse(error_code=result.error)))
        elif self._error is not ErrorCode.NONE or result.error is ErrorCode.NONE:
            self.exchange.answer(self.frame)
        else:
            self._updates[GroupProtocol.CLASSIC] += 1
            self.repeat_soon()

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """A request arrived behind it: return whether the answer stays parked."""
        if self.parked is not None and self.parked.followed(follower, now_ms):
            return True
        if self.is_repeated and follower is Follower.COMMIT:
            return True  # there is an update, and the answer to what is repeated has it
        self.answer_now()
        return False

    def drop(self) -> None:
        """Forget it: it is sent, or the connection has ended."""
        super().drop()
        if self.parked is not None:
            self.parked.drop()
            self.parked = None


class ParkedAnswers:
    """The parked answers of all classic groups. `updates` counts those whose wait ended for an update of their group.

    `is_ordered` returns whether a heartbeat is to be answered with REBALANCE_IN_PROGRESS by order of an operator.
    """

    def __init__(
        self,
        groups: ObservedGroups,
        repeats: RequestRepeats,
        updates: Counter[GroupProtocol],
        is_ordered: Callable[[Heartbeat, int], bool],
        signals: GroupSignals,
    ) -> None:
        self._groups = groups
        self._repeats = repeats
        self._timers, self._clock = repeats.timers, repeats.clock
        self._updates = updates
        self._is_ordered = is_ordered
        self._signals = signals
        self._complete: set[str] = set()
        """Groups with an announced round whose members are all behind this gateway."""
        self.parking: ClassicParking[Heartbeat, HeartbeatResult] = ClassicParking(
            self._timers, self._decide, HeartbeatResult, _unnoted, reach_changed=signals.reach_changed
        )

    def __len__(self) -> int:
        return len(self.parking)

    def park(
        self,
        exchange: Exchange,
        heartbeat: Heartbeat,
        frame: Buffer,
        error: ErrorCode,
        now_ms: int,
        *,
        client: ClientSoftware = UNNAMED,
        commit_delay_ms: int = -1,
    ) -> ParkedAnswer | None:
        """Park the answer to a heartbeat, with its error; None where it is to be sent now.

        One that took long may have been parked by its coordinator, as our broker does;
        parked twice, it could outlast a session.
        """
        self._clock.advance(now_ms)
        group = self._groups.group(heartbeat.group_id)
        member = None if group is None else group.members.get(heartbeat.member_id)
        if member is None:
            return None
        answer = ParkedAnswer(self._repeats, exchange, heartbeat, frame, error, self._updates)
        result = self._decide(heartbeat, now_ms)
        if error is not ErrorCode.NONE and (result.error is not error or heartbeat.group_id not in self._complete):
            return None
        can_wait = heartbeat.instance_id is None or client.habits.parks_static
        can_wait &= now_ms - exchange.arrived_ms < LATE_ANSWER_MS
        answer.parked = self.parking.park(
            heartbeat,
            result,
            answer.end,
            member.session_timeout_ms,
            now_ms,
            client=client,
            can_wait=can_wait,
            commit_delay_ms=commit_delay_ms,
        )
        if answer.parked is None:
            if result.error is error:
                return None
            answer.repeat_soon()  # the round overtook the heartbeat
        return answer

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
        group = self._groups.group(command.group_id)
        is_in_round = group is not None and (group.is_gathering or group.is_withholding)
        self.parking.committed(command.member_id, now_ms, is_in_round=is_in_round)

    def event_applied(self, event: Event, now_ms: int) -> None:
        """An event has changed a group: members may have left, or were evicted, or it is a consumer group now."""
        if isinstance(event, MemberRemoved | ConsumerMemberDeleted):
            self.parking.forget(event.group_id, event.member_id)
        elif isinstance(event, StaticMemberReplaced):
            self.parking.forget(event.group_id, event.old_member_id)
        elif isinstance(event, GroupDeleted):
            self.group_changed(event.group_id, now_ms)

    def announce(self, announce: Announce, now_ms: int) -> None:
        """A round has begun of which members learn together."""
        self._clock.advance(now_ms)
        self.parking.announce(announce.group_id, announce.awaited, announce.stopping, announce.latest_ms, now_ms)
        self._signals.round_awaited(announce.group_id, now_ms)
        group = self._groups.group(announce.group_id)
        self._note_parked_there(announce.group_id, now_ms)
        if group is not None and all(self._groups.last_requests.is_here(group, each) for each in announce.awaited):
            self._complete.add(announce.group_id)
            self._await_sessions(announce.group_id, now_ms)

    def learnt(self, heartbeat: Heartbeat, now_ms: int) -> None:
        """A member is to learn of a round at once: others of an eager round read on for it no longer."""
        if heartbeat.member_id in self.parking.unreached(heartbeat.group_id):
            self._reached(heartbeat.group_id, (heartbeat.member_id,), now_ms)

    def _reached(self, group_id: str, members: Collection[str], now_ms: int) -> None:
        self.parking.reached_elsewhere(group_id, members, now_ms)
        self._signals.reach_changed(group_id, members, True)

    def _note_parked_there(self, group_id: str, now_ms: int) -> None:
        """Count members as reached whose heartbeats their coordinator parks, as our broker does.

        It waits, too, for those whose heartbeats are parked here: each would wait for the other.
        """
        self._clock.advance(now_ms)
        unreached = self.parking.unreached(group_id)
        there = [each for each in unreached if self._groups.last_requests.is_parked_there(each, now_ms)]
        if there:
            self._reached(group_id, there, now_ms)
        if self.parking.unreached(group_id):
            look_again = partial(self._note_parked_there, group_id)
            self._timers.arm((self, group_id, "there"), now_ms + LATE_ANSWER_MS // 2, look_again)

    def _await_sessions(self, group_id: str, now_ms: int) -> None:
        """Wait for the members that a round has not reached no longer than their sessions last.

        A coordinator evicts those that send nothing, and no answer shows it while the others wait here.
        """
        self._clock.advance(now_ms)
        group, unreached = self._groups.group(group_id), self.parking.unreached(group_id)
        if group is None or not unreached:
            return
        ends_ms = {each: self._groups.last_requests.session_end_ms(group, each, now_ms) for each in group.members}
        expired = [each for each in unreached if ends_ms.get(each, now_ms) <= now_ms]
        if later_ms := [end_ms for end_ms in ends_ms.values() if end_ms > now_ms]:
            self._timers.arm((self, group_id), min(later_ms), partial(self._await_sessions, group_id))
        for member_id in expired:
            self.parking.joined(group_id, member_id)
        if expired:
            self.group_changed(group_id, now_ms)

    # What other instances of the gateway park

    def reached_elsewhere(self, group_id: str, members: Iterable[str], now_ms: int) -> None:
        """Heartbeats of members are parked by another instance, while a round is announced."""
        self._clock.advance(now_ms)
        self.parking.reached_elsewhere(group_id, members, now_ms)

    def lost_elsewhere(self, group_id: str, members: Iterable[str]) -> None:
        """Heartbeats of members are no longer parked by another instance."""
        group = self._groups.group(group_id)
        if group is not None:
            awaited = group.members.keys() - group.awaiting_join
            self.parking.lost_elsewhere(group_id, [each for each in members if each in awaited])

    def release_group(self, group_id: str, now_ms: int) -> None:
        """Send all answers of a group that are parked: its members can no longer learn of a round together."""
        self._clock.advance(now_ms)
        self.parking.release_group(group_id, now_ms)

    def group_changed(self, group_id: str, now_ms: int) -> None:
        """Answer the heartbeats for which there is an update now."""
        self._clock.advance(now_ms)
        is_gathering = self._repeats.is_gathering(group_id)
        if not is_gathering:
            self._complete.discard(group_id)
        self.parking.group_changed(group_id, now_ms, is_gathering=is_gathering)


def _unnoted(_group_id: str, _waited_ms: int, _now_ms: int) -> None:
    """Do nothing: a gateway writes no event when the members of a group learn of a round."""
