"""What a world sees of an unmodified client: the steps of its memberships, told as the hooks of an observer.

One for each process. A membership is a member of the world, under the process's name; a second one at the same time
gets a number behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.client.membership.membership_view import MembershipView
from kohort.client.observer import Answer, ClientObserver
from kohort.member import effects, inputs
from kohort.member.consumer_effects import ConsumerHeartbeat
from kohort.member.consumer_inputs import ConsumerHeartbeatAnswered
from kohort.member.identity import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import Observer

NOTHING: Partitions = frozenset()


class WatchedMember:
    """One membership, as observers know it."""

    def __init__(self, name: str, membership: MembershipView) -> None:
        self.name = name
        self.membership = membership
        self.owned: Partitions = NOTHING
        self.state = ""
        self.cause = ""
        """Why the callback that is due runs."""
        self.commits = 0

    @property
    def group_id(self) -> str:
        """Its group."""
        return self.membership.group_id

    @property
    def kind(self) -> str:
        """`eager`, `cooperative` or `consumer`."""
        return self.membership.rebalance_protocol

    @property
    def instance_id(self) -> str | None:
        """Its `group.instance.id`."""
        return self.membership.group_instance_id

    @property
    def identity(self) -> Identity:
        """What it shows now."""
        return self.membership.identity


class Watching(ClientObserver):
    """Looks at the clients of one process, and tells `observer`."""

    def __init__(self, name: str, observer: Observer) -> None:
        self.members: dict[MembershipView, WatchedMember] = {}
        """Those that live, the oldest first."""
        self.has_begun = False
        """Whether there was ever one."""
        self._name = name
        self._observer = observer
        self._is_over = False

    def die(self, how: str) -> None:
        """The process is no more: what its members had they act on no longer."""
        self._is_over = True
        for member in list(self.members.values()):
            self._end(member, how)

    # -- memberships

    def input_received(self, membership: MembershipView, event: inputs.Input) -> None:
        """Tell of answers."""
        if self._is_over:
            return
        member = self._member(membership)
        match event:
            case inputs.JoinAnswered():
                role = "leads" if event.leader and event.leader == event.member_id else "follows"
                said = f"{role} as {event.member_id} in generation {event.generation}"
                self._observer.answered(member, "JoinGroup", event.error, said)
            case inputs.SyncAnswered():
                self._observer.answered(member, "SyncGroup", event.error, _names(event.assignment.partitions))
            case inputs.HeartbeatAnswered():
                self._observer.answered(member, "Heartbeat", event.error, "")
            case inputs.LeaveAnswered():
                self._observer.answered(member, "LeaveGroup", event.error, "")
            case ConsumerHeartbeatAnswered():
                said = f"epoch {event.member_epoch}"
                self._observer.answered(member, "ConsumerGroupHeartbeat", event.error, said)

    def input_processed(self, membership: MembershipView, event: inputs.Input, asked: Sequence[effects.Effect]) -> None:
        """Tell of requests, and of what has changed."""
        if self._is_over:
            return
        member = self._member(membership)
        state = str(membership.state)
        if state != member.state:
            member.state = state
            self._observer.member_moved(member, state, type(event).__name__)
        # What is new is acted on from its callback on, which is about to begin.
        self._own(member, member.owned & membership.assignment)
        for effect in asked:
            match effect:
                case effects.Join():
                    offers = ",".join(name for name, _ in effect.protocols)
                    self._observer.subscribed(member, effect.protocols[0][1].topics)
                    self._observer.asked(member, "JoinGroup", f"{offers}: {effect.reason}")
                case effects.Sync():
                    said = f"{len(effect.assignments)} assignments of {effect.protocol_name}"
                    self._observer.asked(member, "SyncGroup", said)
                case effects.Heartbeat():
                    self._observer.asked(member, "Heartbeat", "")
                case effects.Leave():
                    self._observer.asked(member, "LeaveGroup", effect.reason)
                case ConsumerHeartbeat():
                    said = f"epoch {effect.member_epoch}: {effect.cause}"
                    self._observer.asked(member, "ConsumerGroupHeartbeat", said)
                case effects.RunCallback():
                    member.cause = effect.cause

    def membership_ended(self, membership: MembershipView) -> None:
        """Tell that a membership is over."""
        member = self.members.get(membership)
        if member is not None and not self._is_over:
            failure = membership.failure
            self._end(member, "closed" if failure is None else f"failed: {failure.code.name}: {failure.text}")

    # -- callbacks

    def callback_began(self, membership: MembershipView, callback: effects.Callback, partitions: Partitions) -> None:
        """Tell it, with the cause that the member gave."""
        if not self._is_over:
            member = self._member(membership)
            self._observer.callback_began(member, callback, partitions, member.cause)
            if callback is effects.Callback.ASSIGNED:
                self._own(member, member.membership.assignment)

    def callback_ended(
        self,
        membership: MembershipView,
        callback: effects.Callback,
        partitions: Partitions,
        error: BaseException | None,
    ) -> None:
        """Tell it."""
        if not self._is_over:
            raised = None if error is None else f"{type(error).__name__}: {error}"
            self._observer.callback_ended(self._member(membership), callback, partitions, raised)

    # -- offsets and records

    def commit_sent(self, membership: MembershipView, offsets: Mapping[TopicPartition, int]) -> Answer:
        """Tell of a commit, and then of its answer."""
        member = self._member(membership)
        number = member.commits = member.commits + 1
        if not self._is_over:
            self._observer.commit_sent(member, number, offsets)

        def answered(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            if not self._is_over:
                self._observer.commit_answered(member, number, offsets, errors)

        return answered

    def position_set(self, membership: MembershipView, partition: TopicPartition, offset: int, why: str) -> None:
        """Tell it."""
        if not self._is_over:
            self._observer.position(self._member(membership), partition, offset, why)

    def records_delivered(
        self, membership: MembershipView, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """Tell it."""
        if not self._is_over:
            self._observer.delivered(self._member(membership), partition, first, next_offset)

    # -- the inside

    def _member(self, membership: MembershipView) -> WatchedMember:
        member = self.members.get(membership)
        if member is None:
            taken = {each.name for each in self.members.values()}
            numbers = (f"{self._name}.{number}" for number in range(2, len(taken) + 3))
            name = next(name for name in (self._name, *numbers) if name not in taken)
            member = self.members[membership] = WatchedMember(name, membership)
            self.has_begun = True
            self._observer.member_started(member)
        return member

    def _own(self, member: WatchedMember, owned: Partitions) -> None:
        if owned != member.owned:
            member.owned = owned
            self._observer.owns(member, owned)

    def _end(self, member: WatchedMember, how: str) -> None:
        if member.owned:
            member.owned = NOTHING
            self._observer.owns(member, NOTHING)
        del self.members[member.membership]
        self._observer.member_ended(member, how)


def _names(partitions: Partitions) -> str:
    return " ".join(map(str, sorted(partitions)))
