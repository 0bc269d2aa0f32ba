"""Who may watch a client: told of each step of a membership, of commits, positions and records handed out.

The law: an onlooker changes nothing, and a client without one does not notice. The loop's surroundings bring one: a
simulated world looks at unmodified programs so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kohort.client.membership.membership_view import MembershipView
from kohort.member import effects, inputs
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.net import environment

Answer = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Told how each partition of a commit fared."""


class Onlooker:
    """Sees a client; the base class looks away."""

    def stepping(self, membership: MembershipView, event: inputs.Input) -> None:
        """See what the member is about to be told."""

    def stepped(self, membership: MembershipView, event: inputs.Input, asked: Sequence[effects.Effect]) -> None:
        """See what it asks for in return."""

    def ended(self, membership: MembershipView) -> None:
        """See the membership end: nothing more comes of it."""

    def callback_began(self, membership: MembershipView, callback: effects.Callback, partitions: Partitions) -> None:
        """See a callback of the user's own begin."""

    def callback_ended(
        self,
        membership: MembershipView,
        callback: effects.Callback,
        partitions: Partitions,
        error: BaseException | None,
    ) -> None:
        """See it end; `error` is what it raised."""

    def committing(self, membership: MembershipView, offsets: Mapping[TopicPartition, int]) -> Answer:
        """See a commit leave; what is returned is told of its answer."""
        del membership, offsets
        return _nobody

    def positioned(self, membership: MembershipView, partition: TopicPartition, offset: int, why: str) -> None:
        """See from where a partition will be read: `committed`, `reset`, `seek`."""

    def handed_out(self, membership: MembershipView, partition: TopicPartition, first: int, next_offset: int) -> None:
        """See records go to the program."""


def _nobody(_: Mapping[TopicPartition, ErrorCode]) -> None:
    """Nobody looks."""


NOBODY = Onlooker()


def onlooker() -> Onlooker:
    """Return who looks at clients of the running loop."""
    found: Any = environment.onlooker()
    return NOBODY if found is None else found
