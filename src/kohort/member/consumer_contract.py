"""What a listener may rely on in the consumer protocol (KIP-848): the same machine, with that protocol's timeline.

CONSUMER     [lost (deleted)] → [revoked (to move)] → assigned (new, even nothing) → claimed (all that is owned)
Put out      lost (all, never nothing) → a heartbeat that joins, and claims nothing

Until a reconciliation has ended, heartbeats go on claiming what is being given up, so that nobody else gets it.
"""

from __future__ import annotations

from kohort.member.callback_contract import Act, Contract, Phase
from kohort.model.assignment import Partitions


class ConsumerContract(Contract):
    """One member's timeline. With `sees_facts` the facts must be told too, and more rules can be checked."""

    def __init__(self, *, sees_facts: bool = True) -> None:
        super().__init__("consumer", sees_facts=sees_facts)

    def _revoke(self, partitions: Partitions) -> None:
        self._demand(bool(partitions), "the consumer protocol does not call revoked with nothing")
        self._demand(partitions <= self.owned, "only what is owned can be revoked")
        self._demand(not self._is_out, "who was put out of the group loses its partitions: there is nothing to revoke")
        if self._is_closing:
            self._demand(partitions == self.owned, "closing gives up all that is owned")
        else:
            self._demand(not self._moved, "a reconciliation revokes once")
        self._moved = partitions
        self.phase = Phase.PREPARED

    def _lose(self, partitions: Partitions) -> None:
        self._demand(bool(partitions), "lost is never called with nothing")
        self._demand(partitions <= self.owned, "only what is owned can be lost")
        if self._is_out or self._is_closing:
            self._demand(partitions == self.owned, "who was put out of the group loses all that it owned")
        elif self._sees_facts:
            self._demand(partitions <= self._gone, "a member of the group loses only what no longer exists")
            self._demand(self.phase is Phase.IDLE, "what was deleted is lost before anything is revoked")
            self.phase = Phase.PREPARED

    def _assign(self, partitions: Partitions) -> None:
        self._demand(not self._is_closing, "nothing is assigned to a member that is closing")
        self._demand(not self._is_out, "nothing is assigned to who was put out and has not joined again")
        self._demand(not partitions & self.owned, "assigned names what was not owned before")
        self.phase = Phase.ACCEPTED

    def _finish(self, *, is_abandoned: bool) -> None:
        super()._finish(is_abandoned=is_abandoned)
        if self.phase is Phase.IDLE or is_abandoned:
            self._moved = frozenset()

    def _join(self, claimed: Partitions) -> None:
        self._demand(self.running is None, "who joins again has no callback running")
        self._demand(not self.owned and not claimed, "who joins owns nothing, and claims nothing")
        self._demand(not self._is_closing, "a member that is closing joins no more")
        self._is_out = False
        self.phase = Phase.IDLE

    def _learn(self, act: Act, partitions: Partitions) -> None:
        if act is not Act.CLAIMED:
            super()._learn(act, partitions)
            if act is Act.OUT:
                self._moved = frozenset()
            return
        self._demand(self.owned <= partitions, "what is owned is claimed")
        if self.phase is Phase.IDLE and self.running is None:
            self._demand(self.owned == partitions, "what is claimed is owned, once a reconciliation has ended")


__all__ = ["ConsumerContract"]
