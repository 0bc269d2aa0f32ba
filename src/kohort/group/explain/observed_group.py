"""The course of one group: who is in it, who owns what, and the rebalance that runs, as far as the events show.

Only `explain.py` writes here. The essay there defines what a rebalance is, `partition_ownership.py` what it costs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kohort.group.explain.partition_ownership import Gap, Ownership
from kohort.group.explain.rebalance_report import (
    EventFields,
    Identity,
    Move,
    Outcome,
    Rebalance,
    Refused,
    Wait,
    WarmUp,
    cause_of,
)
from kohort.model.cause import CauseKind
from kohort.model.ids import TopicPartition

IDENTIFYING = ("at_ms", "event", "member", "generation", "client", "error", "count")
"""Two events that agree in these are copies of one."""

REFUSED = 20
"""How many refused joins are stored, each of one client for one reason."""
REMEMBERED = 1_000
"""How many events back a copy of one is recognized."""
NAMES = 500
"""How many members that are gone have a name yet, where only the last rebalances are stored."""


def forget_names(identities: dict[str, Identity], members: Collection[str]) -> None:
    """Forget members that are gone, the oldest first, beyond NAMES of them."""
    if len(identities) > NAMES + len(members):
        for member_id in [each for each in identities if each not in members][:-NAMES]:
            del identities[member_id]


class Course:
    """What is known of one group, and the rebalance that runs in it. `explain.py` folds events into it.

    More than 20 attributes: each is what some event of a group leaves for the report of its rebalance.
    """

    def __init__(self, group_id: str, last: int | None = None, remembered: int = REMEMBERED) -> None:
        self.group_id = group_id
        self._remembered = remembered
        self.identities: dict[str, Identity] = {}
        self.rebalances: deque[Rebalance] = deque(maxlen=last)
        self.total = 0
        """How many rebalances there were, stored or not."""
        self.unowned_partition_s = 0.0
        """What all of them cost."""
        self.avoided = 0
        self.refused: OrderedDict[tuple[object, ...], Refused] = OrderedDict()
        """The last refused joins by client and reason."""
        self.now_ms = 0
        """The latest time of any event: a clock that steps back makes nothing shorter than it was."""
        self._recent_keys: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self.forget()
        self.is_known = False
        """Whether the events reach back to a moment at which everything was reported."""

    def forget(self) -> None:
        """Begin with a group that has neither partitions nor members."""
        self.state = "Dead"
        self.generation = 0
        self.running: Rebalance | None = None
        self.members: set[str] = set()
        self.ownership = Ownership()
        self.is_consumer = False
        self.is_streams = False
        """Whether it is a streams group, which is observed as a consumer group whose partitions are tasks."""
        self.is_converting = False
        """Whether a group is written anew only because it becomes one of the other type."""
        self.target_epoch = 0
        self.unsettled: set[str] = set()
        """Members of a consumer group that have not reached its target."""
        self.claims: dict[str, frozenset[TopicPartition]] = {}
        """What each classic member of a consumer group claimed to own when it last joined."""
        self.asked: dict[str, frozenset[TopicPartition]] = {}
        """What members of a consumer group were asked to revoke."""
        self.phases: dict[str, str] = {}
        """What classic members of a consumer group are about to do, if anything."""
        self.replaced: dict[str, tuple[str, frozenset[TopicPartition]]] = {}
        """By instance, the id and the target of a static member whose records gave way to those of a new id."""
        self.released: dict[str, dict[TopicPartition, int]] = {}
        """What a member owned until its records were deleted, and since when."""
        self.protocols: dict[str, tuple[str, ...]] = {}
        self.targets: dict[str, frozenset[TopicPartition]] = {}
        self.warmups: dict[str, frozenset[TopicPartition]] = {}
        """Tasks of a streams group that a member is to warm up."""
        self.is_gathering = False
        """Whether a round has no assignment yet."""
        self.rejoined: set[str] = set()
        """Who has joined the round that gathers, or is about to be opened."""
        self.pending: set[str] = set()
        """Ids that were issued and not used yet."""
        self.unanswered: set[str] = set()
        """Members of the generation that have not got its assignment."""
        self.due: set[str] = set()
        """Those whose answer left when the assignment was stored, unless the next event shows that it is withheld."""
        self.due_ms = 0
        self.withheld: set[str] = set()
        """Those whose answer is withheld."""
        self.evicted_with: dict[str, frozenset[TopicPartition]] = {}
        """What members owned that have been evicted since an assignment was stored."""
        self._before: dict[TopicPartition, str] = {}
        """Who owned what when the running rebalance began."""
        self.count = 0
        self.avoided_before = 0
        self.is_known = True

    def is_repeated(self, event: EventFields) -> bool:
        """Whether the event is a copy of a recent one."""
        key: tuple[object, ...] = tuple(map(event.get, IDENTIFYING))
        if "epoch" in event or "member_epoch" in event:
            owned = [event.get(name) or {} for name in ("assigned", "pending", "targets")]
            counts = [sum(map(len, each.values())) for each in owned]
            key += (*map(event.get, ("epoch", "member_epoch", "member_state", "phase")), *counts)
        if key in self._recent_keys:
            return True
        self._recent_keys[key] = None
        if len(self._recent_keys) > self._remembered:
            self._recent_keys.popitem(last=False)
        return False

    def running_at(self, now_ms: int) -> Rebalance | None:
        """Return the rebalance that runs, with its cost so far and what it waits for, or None."""
        running = self.running
        if running is None:
            return None
        self.answer_due()
        now_ms = max(now_ms, self.now_ms)
        gaps = running.gaps + self.ownership.gaps
        if running.is_readable:
            gaps += self.ownership.open_gaps(now_ms)
        return replace(
            running,
            gaps=gaps,
            members=len(self.members),
            partitions=len(self.ownership.owners.keys() | self.ownership.unowned.keys()),
            to_type=self.group_type,
            waits_for=self._waits_for(running),
        )

    def _waits_for(self, running: Rebalance) -> Wait:
        if self.is_consumer:
            return self._waits_for_target()
        current = running.rounds[-1] if running.rounds else None
        if self.is_gathering and current is not None and current.failure is None:
            if current.formed_ms is not None:
                return Wait("the leader's assignment", (current.leader,) if current.leader else ())
            missing = tuple(sorted(self.members - self.rejoined | self.pending))
            if missing:
                return Wait("JoinGroup" if self.pending.isdisjoint(missing) else "JoinGroup of issued ids", missing)
            return Wait("the initial delay" if current.is_initial else "its generation")
        if not self.is_gathering and self.unanswered:
            return Wait("SyncGroup", tuple(sorted(self.unanswered)))
        if not self.is_gathering and (revoking := self.revoking()):
            return Wait("revocation", tuple(sorted(revoking)))
        if not self.is_gathering and (lacking := self.lacking()):
            return Wait("JoinGroup", tuple(sorted(lacking)))
        return Wait("the next round")

    @property
    def group_type(self) -> str:
        """What the group is."""
        if self.is_streams:
            return "streams"
        return "consumer" if self.is_consumer else "classic"

    def _waits_for_target(self) -> Wait:
        """What a consumer group waits for."""
        if self.target_epoch < self.generation:
            return Wait("a target")
        for phase, what in (("PREPARE_REBALANCE", "JoinGroup"), ("COMPLETING_REBALANCE", "SyncGroup")):
            if called := sorted(member_id for member_id in self.unsettled if self.phases.get(member_id) == phase):
                return Wait(what, tuple(called))
        if asked := sorted(member_id for member_id in self.unsettled if self.asked.get(member_id)):
            return Wait("revocation", tuple(asked))
        return Wait("heartbeat", tuple(sorted(self.unsettled)))

    # -- beginning and ending

    def begin(self, event: EventFields) -> Rebalance:
        """Return the rebalance that runs; it begins now if none does."""
        if self.running is None:
            if not self.is_known:
                self.generation = int(event.get("generation") or event.get("epoch") or 0)
            self.count += 1
            self.released.clear()
            self._before = {partition: owner for partition, (owner, _) in self.ownership.owners.items()}
            self.running = Rebalance(
                number=self.count,
                started_ms=self.now_ms,
                from_generation=self.generation,
                cause=cause_of(event),
                is_partial=not self.is_known,
                avoided_before=self.avoided_before,
                partitions_before=len(self._before),
                from_type=self.group_type,
                to_type=self.group_type,
            )
            self.avoided_before = 0
        return self.running

    def end_if_stable(self) -> Rebalance | None:
        """End the rebalance if nothing gathers, every member owns what it was assigned, and no member anything else."""
        if self.running is None or self.is_gathering or self.unanswered or self.due:
            return None
        return None if self.revoking() or self.lacking() else self.end(Outcome.STABLE)

    def end_if_reconciled(self) -> Rebalance | None:
        """End the rebalance of a consumer group if every member has all of the newest target, and nothing else."""
        if self.running is None or not self.members or self.unsettled or self.target_epoch < self.generation:
            return None
        return self.end(Outcome.STABLE)

    def revoking(self) -> set[str]:
        """Return the members that own what the assignment takes away."""
        return {
            member_id
            for member_id in self.ownership.members()
            if member_id in self.targets and self.ownership.owned_by(member_id) - self.targets[member_id]
        }

    def lacking(self) -> set[str]:
        """Return the members that do not own all that they were assigned."""
        return {member_id for member_id, target in self.targets.items() if target - self.ownership.owned_by(member_id)}

    def end(self, outcome: Outcome) -> Rebalance:
        """End the rebalance that runs, and return it."""
        running = self.running
        assert running is not None, "only a rebalance that runs can end"
        self.running = None
        running.ended_ms = self.now_ms
        running.outcome = outcome
        running.to_generation = self.generation
        running.to_type = self.group_type
        running.members = len(self.members)
        assigned = self.assigned()
        running.partitions = len(assigned)
        running.shares = {member_id: len(self.targets[member_id]) for member_id in sorted(self.targets)}
        if outcome is Outcome.STABLE:
            self.ownership.forget_unassigned(assigned)
            running.gaps += self.ownership.collect()
        else:
            running.gaps += self.ownership.collect() + self.ownership.close(self.now_ms)
        running.moves = self._moves(running)
        self.rebalances.append(running)
        if self.rebalances.maxlen is not None:
            forget_names(self.identities, self.members)
        self.total += 1
        self.unowned_partition_s += running.unowned_partition_s
        self.is_known = True
        return running

    def _moves(self, running: Rebalance) -> list[Move]:
        names = {each.old_id: each.new_id for each in running.replacements}
        holders = {self._instance_of(member_id): member_id for member_id in self.members}
        for each in running.departures:
            # An instance that was evicted and joined again has what it had.
            heir = holders.get(self._instance_of(each.member_id))
            if heir is not None and self._instance_of(heir) is not None:
                names[each.member_id] = heir
        before = {partition: _latest(names, owner) for partition, owner in self._before.items()}
        after = {partition: owner for owner, target in self.targets.items() for partition in target}
        return [
            Move(partition, before.get(partition), after.get(partition))
            for partition in sorted(before.keys() | after.keys())
            if before.get(partition) != after.get(partition)
        ]

    def _instance_of(self, member_id: str) -> str | None:
        identity = self.identities.get(member_id)
        return None if identity is None else identity.instance_id

    def warming_up(self) -> tuple[WarmUp, ...]:
        """Return the tasks that wait for a copy, by the member that has it and by who should run them meanwhile."""
        owners = {task: member_id for member_id, target in self.targets.items() for task in target}
        found: dict[tuple[str, str | None], list[TopicPartition]] = {}
        for member_id, tasks in self.warmups.items():
            for task in sorted(tasks):
                found.setdefault((member_id, owners.get(task)), []).append(task)
        return tuple(WarmUp(*pair, tuple(tasks)) for pair, tasks in sorted(found.items(), key=str))

    def assigned(self) -> set[TopicPartition]:
        """Return the partitions that the last assignment gave to any member."""
        return {partition for target in self.targets.values() for partition in target}

    # -- members

    def answer(self, member_ids: Iterable[str], at_ms: int | None = None) -> None:
        """Let members own what the assignment gives them: their SyncGroup is answered, now or at `at_ms`."""
        answered = sorted(member_ids)
        running = self.running
        born_ms = None if running is None or running.is_partial else running.started_ms
        for member_id in answered:
            given = sorted(self.targets.get(member_id, ()))
            self.ownership.assign(member_id, given, self.now_ms if at_ms is None else at_ms, born_ms)
        self.unanswered.difference_update(answered)
        self.withheld.difference_update(answered)

    def answer_due(self) -> None:
        """Answer the members that asked before the assignment was stored, as of that time."""
        due, self.due = self.due, set()
        self.answer(due & self.members, self.due_ms)

    def reload(self, event: EventFields) -> set[str]:
        """Take up a group that its coordinator has loaded; return the members that were known before.

        A gateway writes an event of the same name when it has looked a group up.
        """
        known = set(self.members)
        if self.running is not None and cause_of(event).kind != CauseKind.NOT_OBSERVED:
            self.running.restarts += 1
        self.record_members(event)
        for member_id, (client_id, instance_id) in (event.get("clients") or {}).items():
            self.identities.setdefault(member_id, Identity(client_id, instance_id))
        return known

    def begin_again(self, generation: int, *, is_consumer: bool) -> None:
        """Continue with a group that lives, but has neither partitions nor members any more."""
        count, is_streams = self.count, self.is_streams and is_consumer
        self.forget()
        self.generation, self.count, self.is_consumer, self.is_streams = generation, count, is_consumer, is_streams

    def record_members(self, event: EventFields) -> None:
        """Take the event's list of members for the truth: those who left unheard of own nothing."""
        listed = event.get("members")
        if listed is None:
            return
        for member_id in sorted(self.members - set(listed)):
            self.ownership.release(member_id, sorted(self.ownership.owned_by(member_id)), self.now_ms)
            self.withheld.discard(member_id)
            self.rejoined.discard(member_id)
        self.members = set(listed)

    def lose_all(self, member_id: str) -> dict[TopicPartition, int]:
        """Let a member own nothing any more; return what it owned, and since when."""
        owned = self.ownership.owned_since(member_id)
        self.ownership.release(member_id, owned, self.now_ms)
        return owned

    def note_absence(self, rebalance: Rebalance, member_id: str, owned: Mapping[TopicPartition, int], ms: int) -> None:
        """Count how long the owner of partitions had sent nothing, as far as it had owned them for so long."""
        for partition, since_ms in owned.items() if ms > 0 else ():
            absent_since_ms = max(since_ms, self.now_ms - ms)
            if absent_since_ms < self.now_ms:
                rebalance.silences.append(Gap(partition, absent_since_ms, self.now_ms, member_id, None))

    def note_missed(self, member_id: str) -> None:
        """A member for which a round waits does not join it any more."""
        current = self.running.rounds[-1] if self.running is not None and self.running.rounds else None
        if current is not None and current.formed_ms is None and current.failure is None:
            current.missed_ms[member_id] = self.now_ms - current.opened_ms

    def identify(self, event: EventFields, member_id: str) -> None:
        """Learn how people know a member."""
        known = self.identities.get(member_id, Identity("", None))
        if offered := event.get("protocols"):
            self.protocols[member_id] = tuple(offered)
        self.identities[member_id] = Identity(
            str(event.get("client") or known.client_id), event.get("instance") or known.instance_id
        )


def _latest(names: dict[str, str], member_id: str) -> str:
    """Return the id that a member has now, after all its replacements."""
    seen = {member_id}
    while (following := names.get(member_id)) is not None and following not in seen:
        member_id = following
        seen.add(member_id)
    return member_id
