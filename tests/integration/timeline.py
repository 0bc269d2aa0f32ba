"""Calls of listeners and assignors of real members, checked against the contract; and which member acted as owner.

A `Timeline` is one member's listener and wraps its assignors; the `Ledger` that members share refuses a partition
that two of them act on at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kohort.assign.spec import Assignor, GroupSpec, RebalanceProtocol
from kohort.client import RebalanceListener
from kohort.member.rebalance_strategy import protocol_for
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_contract import Act, Contract


class Ledger:
    """Who acts as the owner of which partition."""

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self.is_forgiving = False

    def take(self, name: str, partitions: Partitions) -> None:
        for partition in partitions:
            owner = self.owners.get(partition, name)
            assert owner == name or self.is_forgiving, f"{partition} is owned by {owner} and given to {name}"
            self.owners[partition] = name

    def give_up(self, name: str, partitions: Partitions) -> None:
        for partition in partitions:
            if self.owners.get(partition) == name:
                del self.owners[partition]


class Timeline(RebalanceListener):
    """The listener of one member; `assignors` are what it is to be given.

    `stops` counts how often it was left with nothing of what it had owned, `losses` how often it lost something, both
    before `is_closing`: who closes in the middle of a round loses what another may have by now. While `is_failing`
    every callback raises.
    """

    def __init__(self, name: str, ledger: Ledger, *assignors: Assignor) -> None:
        self.name = name
        self.contract = Contract(protocol_for(assignors), sees_facts=False)
        self.assignors: tuple[Assignor, ...] = tuple(GroupReport(each, self.contract) for each in assignors)
        self.broken: AssertionError | None = None
        self.is_failing = False
        self.is_closing = False
        self.stops = 0
        self.losses = 0
        self._ledger = ledger

    @property
    def protocol(self) -> RebalanceProtocol:
        return self.contract.protocol

    @property
    def calls(self) -> list[str]:
        """What was called, in order, as `assigned(t-0, t-1)`."""
        return [str(step) for step in self.contract.trace if step.act not in (Act.DONE, Act.ABANDONED)]

    def moved(self, act: Act) -> Partitions:
        """Return all partitions that the callback was ever called with."""
        return frozenset(each for step in self.contract.trace if step.act is act for each in step.partitions)

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        with self._called(Act.REVOKED, partitions):
            self._ledger.give_up(self.name, partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        with self._called(Act.ASSIGNED, partitions):
            self._ledger.take(self.name, partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        with self._called(Act.LOST, partitions):
            self._ledger.give_up(self.name, partitions)

    def check(self) -> None:
        """Raise what was broken, if anything was."""
        if self.broken is not None:
            raise self.broken

    @contextmanager
    def _called(self, act: Act, partitions: Partitions) -> Iterator[None]:
        try:
            self.contract.record(act, partitions)
            yield
        except AssertionError as error:
            self.broken = self.broken or error
        finally:
            had_some = bool(self.contract.owned)
            self.contract.record(Act.DONE)
            if not self.is_closing:
                self.stops += had_some and not self.contract.owned
                self.losses += act is Act.LOST
        if self.is_failing:
            raise LookupError(f"{act} of {len(partitions)}")


class GroupReport:
    """An assignor whose every call a contract checks."""

    def __init__(self, inner: Assignor, contract: Contract) -> None:
        self._inner = inner
        self._contract = contract
        self.name = inner.name
        self.protocols = inner.protocols

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        self._contract.record(Act.USER_DATA, owned)
        return self._inner.user_data(topics, owned, generation)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        self._contract.record(Act.ASSIGN)
        return self._inner.assign(spec)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self._contract.record(Act.ON_ASSIGNMENT, assignment.partitions)
        self._inner.on_assignment(assignment, generation)
