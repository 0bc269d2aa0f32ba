"""Rebalance callbacks (KIP-429, KIP-848): the order of `callback_contract`, as far as a listener sees it.

A member's machine is compared with its whole contract by a witness that knows its inputs; here any client is, by what
it shows: which callback runs with which partitions, what it acts on in between, and when it joins again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.invariants import CALLBACK_CONTRACT
from kohort.sim.kernel.world_observer import SeenMember


@dataclass(slots=True)
class ListenerView:
    """One member's listener: what its callbacks have left it with, and which one runs."""

    granted: Partitions = frozenset()
    running: tuple[Callback, Partitions] | None = None
    has_joined: bool = False
    """Whether a round was joined since the last one ended."""


class CallbackChecker(Checker):
    """CallbackContract."""

    invariants = (CALLBACK_CONTRACT,)

    def __init__(self) -> None:
        super().__init__()
        self._listeners: defaultdict[str, ListenerView] = defaultdict(ListenerView)

    def member_started(self, member: SeenMember) -> None:
        self._listeners[member.name] = ListenerView()

    def member_ended(self, member: SeenMember, how: str) -> None:
        """A member that ends in good order has revoked what it had."""
        listener = self._listeners.pop(member.name, None)
        if listener is not None and how == "closed":
            self.count(CALLBACK_CONTRACT)
            self._demand(
                member, not listener.granted, f"closed with {_text(listener.granted)} neither revoked nor lost"
            )

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        """Compare a callback with what the ones before it left."""
        listener = self._listeners[member.name]
        self.count(CALLBACK_CONTRACT)
        named = f"{callback}({_text(partitions)})"
        self._demand(member, listener.running is None, f"{named} begins while {listener.running} runs")
        listener.running = (callback, partitions)
        granted = listener.granted
        if callback is Callback.ASSIGNED:
            both = partitions & granted
            self._demand(member, not both, f"{named}, and {_text(both)} is assigned already")
            if member.kind != "consumer":
                self._demand(member, listener.has_joined, f"{named} without a round before it")
            if member.kind == "eager":
                self._demand(member, not granted, f"{named} while {_text(granted)} was never revoked")
            return
        strange = partitions - granted
        self._demand(member, not strange, f"{named}, and {_text(strange)} is not assigned")
        if callback is Callback.LOST:
            self._demand(member, bool(partitions), "lost is called with nothing")
        elif member.kind != "eager":
            self._demand(member, bool(partitions), "revoked is called with nothing")
        if member.kind == "eager":
            self._demand(member, partitions == granted, f"{named}, and {_text(granted)} is assigned: EAGER revokes all")

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        """Note what it leaves the listener with."""
        listener = self._listeners[member.name]
        self.count(CALLBACK_CONTRACT)
        self._demand(
            member, listener.running == (callback, partitions), f"{callback} ends, and {listener.running} runs"
        )
        listener.running = None
        if callback is Callback.ASSIGNED:
            listener.granted |= partitions
            listener.has_joined = False
        else:
            listener.granted -= partitions

    def contract_broken(self, member: SeenMember, sentence: str) -> None:
        """The member's witness, which knows its inputs, has seen more."""
        self.broken(CALLBACK_CONTRACT, f"{member.name} ({member.kind}): {sentence}")

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """No round is joined while a callback runs, and in EAGER with empty hands."""
        if request != "JoinGroup":
            return
        listener = self._listeners[member.name]
        self.count(CALLBACK_CONTRACT)
        self._demand(member, listener.running is None, f"joins a round while {listener.running} runs")
        if member.kind == "eager":
            self._demand(member, not listener.granted, f"joins a round with {_text(listener.granted)} not revoked")
        listener.has_joined = True

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        """Records are handed out between assigned and the end of what takes their partition away."""
        self.count(CALLBACK_CONTRACT)
        is_granted = partition in self._listeners[member.name].granted
        self._demand(member, is_granted, f"hands out {partition}@{first}, which no callback has assigned to it")

    def _demand(self, member: SeenMember, is_met: bool, sentence: str) -> None:
        self.require(is_met, CALLBACK_CONTRACT, f"{member.name} ({member.kind}): {sentence}")


def _text(partitions: Partitions) -> str:
    return ", ".join(map(str, sorted(partitions))) or "nothing"
