"""Who a member is in its group at one moment: the generation and the member id that every request carries.

A response counts only while the identity it was asked with is still the member's own. It knows nothing of time.
"""

from __future__ import annotations

from typing import NamedTuple

NO_GENERATION = -1
UNKNOWN_MEMBER_ID = ""


class Identity(NamedTuple):
    """Generation and member id; the coordinator gives out both."""

    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID

    @property
    def is_valid(self) -> bool:
        """Whether the member takes part in a generation."""
        return self.generation != NO_GENERATION and self.member_id != UNKNOWN_MEMBER_ID


NOBODY = Identity()
"""What a member is before it joins, and after the coordinator has forgotten it."""
