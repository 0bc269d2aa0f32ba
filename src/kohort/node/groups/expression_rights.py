"""Which topics the expressions of a group may match (KIP-848): those that its members may describe.

As in Kafka it is one member's rights that count for a group: here those of the member that sent an expression last.
After a restart no member is known until its next heartbeat; till then the topics stay that the group has stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.model.principal import Principal
from kohort.node.authorization.access import Access, Sender
from kohort.node.authorization.api_checks import MATCHED_TOPIC

MOST_CHARACTERS = 8 << 20
"""How long the ids of the groups are together whose sender is remembered; beyond it all are noted again at their next
heartbeats. Ids of one request have up to 32 KiB."""


class Known(NamedTuple):
    """Who sent a heartbeat, and from where."""

    principal: Principal
    peer_host: str


class ExpressionRights:
    """The sender that counts for each group that sent a heartbeat."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._senders: dict[str, Known] = {}
        self._characters = 0

    def note(self, group_id: str, sender: Sender, *, has_expression: bool) -> bool:
        """Note a heartbeat; return whether another sender counts for the group now."""
        before = self._senders.get(group_id)
        if before is not None and not has_expression:
            return False
        if before is None:
            self._characters += len(group_id)
            if self._characters > MOST_CHARACTERS:
                self._senders.clear()
                self._characters = len(group_id)
        known = self._senders[group_id] = Known(sender.principal, sender.peer_host)
        return known != before

    def describable(self, group_id: str, names: Iterable[str]) -> frozenset[str] | None:
        """Return those of the topics that the group may describe; None as long as no member is known."""
        sender = self._senders.get(group_id)
        if sender is None:
            return None
        return frozenset(name for name in names if self._access.allows(sender, MATCHED_TOPIC, name))
