"""What the edge needs of its surroundings: what sees the topics and runs a group's assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kohort.assign.spec import GroupSpec, TopicSpec
from kohort.model.assignment import Partitions


@dataclass(frozen=True, slots=True)
class Intended:
    """What the members shall own in the end, nothing withheld; and the topics of all members, those that exist."""

    partitions: Mapping[str, Partitions]
    topics: Mapping[str, TopicSpec]


Done = Callable[[Intended | str, int], None]
"""Takes what an assignor intends, or in a sentence why it does not, and the time."""


class AssignorRunner(Protocol):
    """Runs assignors outside of the core."""

    def assignor_of(self, group_id: str, /) -> str | None:
        """Return the name of the assignor that the settings have for a group, or None."""
        ...

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done, /) -> None:
        """Run the assignor of a group, or `uniform` where there is none, and call `done`, once, now or later.

        `members` has no topics yet, and lacks drained members; `topics` are what any member subscribed to, and
        `Intended.topics` those of them that exist. What a member owned before is its `owned`; each partition has one
        owner at most.
        """
        ...
