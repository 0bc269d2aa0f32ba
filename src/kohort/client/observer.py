"""Hooks that report what a client does: steps of its membership, callbacks, commits, positions, records delivered.

The simulator uses them to check unmodified programs. The law: an observer changes nothing; without one the hooks cost
a call of an empty function. The environment of the running loop brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net import environment

Answer = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Called with the error code of each partition of a commit."""


class ObservedMembership(Protocol):
    """What an observer may read of a membership (`client.membership`); it is the same object at every call."""

    group_id: str
    failure: KafkaError | None
    config: MemberConfig

    @property
    def member(self) -> ClassicMember | ConsumerMember:
        """The state machine in force."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of its subscription, as far as their names are known."""


class ClientObserver:
    """Observes a client; the base class does nothing."""

    def input_received(self, membership: ObservedMembership, event: inputs.Input) -> None:
        """The member's state machine is about to process this input."""

    def input_processed(
        self, membership: ObservedMembership, event: inputs.Input, asked: Sequence[effects.Effect]
    ) -> None:
        """It has processed the input, with these effects."""

    def membership_ended(self, membership: ObservedMembership) -> None:
        """The membership has ended: nothing more comes of it."""

    def callback_began(
        self, membership: ObservedMembership, callback: effects.Callback, partitions: Partitions
    ) -> None:
        """A callback of the user's own begins."""

    def callback_ended(
        self,
        membership: ObservedMembership,
        callback: effects.Callback,
        partitions: Partitions,
        error: BaseException | None,
    ) -> None:
        """It has ended; `error` is what it raised."""

    def commit_sent(self, membership: ObservedMembership, offsets: Mapping[TopicPartition, int]) -> Answer:
        """A commit is sent; the function returned is called when it is answered."""
        del membership, offsets
        return _ignore

    def position_set(self, membership: ObservedMembership, partition: TopicPartition, offset: int, why: str) -> None:
        """A partition will be read from this offset; `why` is `committed`, `reset` or `seek`."""

    def records_delivered(
        self, membership: ObservedMembership, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """`poll` returns the records of these offsets, if there are any."""


def _ignore(_: Mapping[TopicPartition, ErrorCode]) -> None:
    pass


NO_OBSERVER = ClientObserver()


def client_observer() -> ClientObserver:
    """Return the observer of clients on the running loop."""
    found = environment.observer()
    return found if isinstance(found, ClientObserver) else NO_OBSERVER
