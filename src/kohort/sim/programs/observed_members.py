"""The memberships of an unmodified client, reported to a world's observers.

One `ObservedClient` for each process. A membership is a member of the world under the process's name; a second one at
the same time gets a number behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.client.observer import Answer, ClientObserver, ObservedMembership
from kohort.member import effects, inputs
from kohort.member.member_state import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import Observer, request_of, response_of


class ObservedMember:
    """One membership, as observers know it."""

    def __init__(self, name: str, membership: ObservedMembership) -> None:
        self.name = name
        self.membership = membership
        self.owned: Partitions = frozenset()
        self.state = ""
        self.cause = ""
        """Why the callback that is due runs."""
        self.commits = 0

    @property
    def group_id(self) -> str:
        return self.membership.group_id

    @property
    def kind(self) -> str:
        """`eager`, `cooperative` or `consumer`."""
        return self.membership.member.protocol

    @property
    def instance_id(self) -> str | None:
        """Its `group.instance.id`."""
        return self.membership.config.instance_id

    @property
    def identity(self) -> Identity:
        """Its member id with the generation or epoch that it shows."""
        return self.membership.member.identity


class ObservedClient(ClientObserver):
    """Translates the hooks of one process's client into those of `observer`."""

    def __init__(self, name: str, observer: Observer) -> None:
        self.members: dict[ObservedMembership, ObservedMember] = {}
        """Those that live, the oldest first."""
        self.has_begun = False
        """Whether there was ever one."""
        self._name = name
        self._observer = observer
        self._is_over = False

    def die(self, how: str) -> None:
        """End every member: the process is killed. What is left of it is not reported any more."""
        for member in list(self.members.values()):
            self._end(member, how)
        self._is_over = True
        self._observer = Observer()

    # -- memberships

    def input_received(self, membership: ObservedMembership, event: inputs.Input) -> None:
        member = self._member(membership)
        if (response := response_of(event)) is not None:
            self._observer.answered(member, *response)

    def input_processed(
        self, membership: ObservedMembership, event: inputs.Input, asked: Sequence[effects.Effect]
    ) -> None:
        """Report requests, and a new state or other partitions."""
        member = self._member(membership)
        state = str(membership.member.state)
        if state != member.state:
            member.state = state
            self._observer.member_moved(member, state, type(event).__name__)
        # New partitions count from their callback on, which is about to begin.
        self._own(member, member.owned & membership.member.owned)
        for effect in asked:
            if isinstance(effect, effects.RunCallback):
                member.cause = effect.cause
            if isinstance(effect, effects.PollMissed):
                self._observer.poll_missed(member, effect.is_leaving)
            if isinstance(effect, effects.Join):
                self._observer.subscribed(member, effect.protocols[0][1].topics)
            if isinstance(effect, effects.ConsumerHeartbeat) and effect.topics is not None:
                self._observer.subscribed(member, effect.topics)
            if (request := request_of(effect)) is not None:
                self._observer.asked(member, *request)

    def membership_ended(self, membership: ObservedMembership) -> None:
        member = self.members.get(membership)
        if member is not None:
            failure = membership.failure
            self._end(member, "closed" if failure is None else f"failed: {failure.code.name}: {failure.text}")

    # -- callbacks

    def callback_began(
        self, membership: ObservedMembership, callback: effects.Callback, partitions: Partitions
    ) -> None:
        member = self._member(membership)
        self._observer.callback_began(member, callback, partitions, member.cause)
        if callback is effects.Callback.ASSIGNED:
            self._own(member, membership.member.owned)

    def callback_ended(
        self,
        membership: ObservedMembership,
        callback: effects.Callback,
        partitions: Partitions,
        error: BaseException | None,
    ) -> None:
        raised = None if error is None else f"{type(error).__name__}: {error}"
        self._observer.callback_ended(self._member(membership), callback, partitions, raised)

    # -- offsets and records

    def commit_sent(self, membership: ObservedMembership, offsets: Mapping[TopicPartition, int]) -> Answer:
        member = self._member(membership)
        number = member.commits = member.commits + 1
        self._observer.commit_sent(member, number, offsets)

        def answered(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            self._observer.commit_answered(member, number, offsets, errors)

        return answered

    def position_set(self, membership: ObservedMembership, partition: TopicPartition, offset: int, why: str) -> None:
        self._observer.position(self._member(membership), partition, offset, why)

    def records_delivered(
        self, membership: ObservedMembership, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        self._observer.delivered(self._member(membership), partition, first, next_offset)

    # -- the inside

    def _member(self, membership: ObservedMembership) -> ObservedMember:
        member = self.members.get(membership)
        if member is None:
            taken = {each.name for each in self.members.values()}
            numbers = (f"{self._name}.{number}" for number in range(2, len(taken) + 3))
            name = next(name for name in (self._name, *numbers) if name not in taken)
            member = self.members[membership] = ObservedMember(name, membership)
            self.has_begun = self.has_begun or not self._is_over
            self._observer.member_started(member)
        return member

    def _own(self, member: ObservedMember, owned: Partitions) -> None:
        if owned != member.owned:
            member.owned = owned
            self._observer.owns(member, owned)

    def _end(self, member: ObservedMember, how: str) -> None:
        self._own(member, frozenset())
        del self.members[member.membership]
        self._observer.member_ended(member, how)
