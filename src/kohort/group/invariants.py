"""The invariants: what must hold of a group and its members, whatever happens to them. Tests and simulations ask.

Each is a value: its name, one sentence, where it comes from, when a simulated world is held against it (`sim/checks`).
Some speak of a shard alone, between two commands: `violations` asks those. `docs/invariants.md` is written from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kohort.group.classic import invariants as classic
from kohort.group.classic.group import ClassicGroup
from kohort.group.consumer import invariants as consumer
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.effects import Parked
from kohort.group.group_timers import Timer
from kohort.group.shard import Shard


class Moment(StrEnum):
    """When an invariant is looked at."""

    EVENT = "after each event of the group"
    STATE = "at drawn events, over the whole state"
    OWNERSHIP = "when what a member acts on changes"
    CALLBACK = "at each callback"
    DELIVERY = "when records are handed out"
    COMMIT = "at each commit"
    ANSWER = "at each answer"
    RESTART = "when a node stops and when it is back"
    END = "at the end"


@dataclass(frozen=True, slots=True)
class Invariant:
    """One of them. `classic` and `consumer` yield a sentence for each way in which a group's state breaks it."""

    name: str
    sentence: str
    origin: str
    checked: tuple[Moment, ...]
    classic: Callable[[ClassicGroup], Iterator[str]] | None = None
    consumer: Callable[[ConsumerGroup], Iterator[str]] | None = None

    def __str__(self) -> str:
        return self.name


NO_DOUBLE_OWNERSHIP = Invariant(
    "NoDoubleOwnership",
    "No two members of a group act on one partition at once, unless the coordinator has put the first one out or left "
    "it behind and it has not learnt that yet; then nothing that it commits is accepted.",
    "KIP-429, KIP-848; KAFKA-12984, KAFKA-14639",
    (Moment.OWNERSHIP, Moment.EVENT),
)
WITHHOLDING = Invariant(
    "Withholding",
    "A partition is granted to no member while another member of the group has it and has not reported that it gave it "
    "up.",
    "KIP-429, KIP-848; KAFKA-16147",
    (Moment.EVENT, Moment.STATE),
    consumer=consumer.shared_partitions,
)
EPOCH_MONOTONE = Invariant(
    "EpochMonotone",
    "The epochs of a group, of its target and of a member never go back while it lives, and neither a target nor a "
    "member is ahead of its group.",
    "KIP-848",
    (Moment.EVENT, Moment.STATE, Moment.RESTART),
    consumer=consumer.early_epochs,
)
GENERATION_DENSE = Invariant(
    "GenerationDense",
    "Each generation of a classic group is numbered one higher than the last, and none is sent to a member before it "
    "is stored, nor twice with other members.",
    "Kafka's ClassicGroup; KIP-62",
    (Moment.EVENT, Moment.ANSWER),
)
STABLE_MEANS_CONVERGED = Invariant(
    "StableMeansConverged",
    "A group that calls itself Stable has nothing left to do: every member has the group's epoch and its whole target, "
    "or in a classic group what the leader of the generation assigned.",
    "KIP-848; Kafka's ConsumerGroup and ClassicGroup",
    (Moment.EVENT, Moment.STATE),
    classic=classic.unconverged,
    consumer=consumer.unconverged,
)
TARGET_LEGAL = Invariant(
    "TargetLegal",
    "A target gives each partition to one member at most, and to each member only partitions that exist, of topics "
    "that it subscribes to.",
    "KIP-848; KAFKA-12759",
    (Moment.EVENT, Moment.STATE),
    consumer=consumer.shared_targets,
)
COMMIT_FENCED = Invariant(
    "CommitFenced",
    "A commit is accepted from a member only with its present generation or epoch, or with an older epoch for what it "
    "has had since then; and one that the log allows is not refused as stale.",
    "KIP-62, KIP-345, KIP-848, KIP-1251",
    (Moment.COMMIT,),
)
COMMIT_NEVER_REWINDS = Invariant(
    "CommitNeverRewinds",
    "What one member committed of a partition is never taken back by another's commit.",
    "KIP-62; kohort",
    (Moment.COMMIT,),
)
REPLAY_EQUALS_LIVE = Invariant(
    "ReplayEqualsLive",
    "The fold of a shard's log, however it may legally have been compacted, is the shard's state, but for soft state.",
    "kohort's law; KAFKA-19862, KAFKA-20254",
    (Moment.STATE, Moment.RESTART, Moment.END),
)
MIGRATION_KEEPS_OWNERS = Invariant(
    "MigrationKeepsOwners",
    "A group that changes its type takes no partition from any member: who had one has it in the group that comes "
    "after.",
    "KIP-848, Supporting Online Consumer Group Upgrade",
    (Moment.EVENT,),
)
STATIC_SLOT_UNIQUE = Invariant(
    "StaticSlotUnique",
    "An instance id is one member's at most, and a member id that was replaced in it never comes back.",
    "KIP-345",
    (Moment.EVENT, Moment.STATE),
    classic=classic.shared_slots,
    consumer=consumer.shared_slots,
)
LEADER_NEVER_ORPHANED = Invariant(
    "LeaderNeverOrphaned",
    "The leader of a generation that awaits its assignment is a member of it.",
    "KAFKA-12890",
    (Moment.EVENT, Moment.STATE),
    classic=classic.leaderless,
)
FENCED_IS_TOLD = Invariant(
    "FencedIsTold",
    "Who is no member any more, by its id, instance or epoch, learns that from the next answer it gets from the group.",
    "KIP-62, KIP-345, KIP-848",
    (Moment.ANSWER,),
)
FENCED_FOR_CAUSE = Invariant(
    "FencedForCause",
    "Who joins, and so shows no epoch, is not fenced by an epoch.",
    "KIP-848; KAFKA-19233",
    (Moment.ANSWER,),
)
ROUNDS_HAVE_CAUSES = Invariant(
    "RoundsHaveCauses",
    "No member starts a round, or gives up its generation, for an answer that was meant for who it was before, or that "
    "reports a round which it is in.",
    "KIP-62; aiokafka#727, librdkafka#4059",
    (Moment.ANSWER, Moment.CALLBACK),
)
EVERY_PARKED_REPLY_ANSWERED = Invariant(
    "EveryParkedReplyAnswered",
    "A request that waits has something that it waits for, and a timer that ends the wait; each is answered in time, "
    "unless its connection is gone.",
    "KAFKA-12890; redpanda#3300",
    (Moment.STATE, Moment.ANSWER, Moment.END),
    classic=classic.stalled,
)
CONVERGES_AFTER_HEALING = Invariant(
    "ConvergesAfterHealing",
    "When nothing breaks any more, within a stated time every live member is settled, every partition that a member "
    "wants has one owner, all that was written has been read, and nothing moves.",
    "kohort; KIP-848",
    (Moment.END,),
)
CALLBACK_CONTRACT = Invariant(
    "CallbackContract",
    "A listener sees revoked, assigned and lost in the order of its protocol's timeline, one at a time, and only with "
    "the partitions that the timeline says.",
    "KIP-429, Listener and Assignor Semantics; KIP-848",
    (Moment.CALLBACK, Moment.OWNERSHIP),
)
AT_LEAST_ONCE = Invariant(
    "AtLeastOnce",
    "Every record is handed out at least once, in order, and only those again that were not committed when their next "
    "owner asked from where to read; what is committed has been handed out.",
    "Kafka's consumer",
    (Moment.DELIVERY, Moment.COMMIT, Moment.END),
)
CLOSE_KEEPS_WORK = Invariant(
    "CloseKeepsWork",
    "What a member has finished when its user closes it is committed before it is gone, in every state in which the "
    "coordinator takes that commit, so that no member repeats it.",
    "KIP-429; Kafka's consumer",
    (Moment.COMMIT, Moment.EVENT),
)
STANDSTILL_BOUNDED = Invariant(
    "StandstillBounded",
    "In a round of a classic group no partition is without an owner for longer than one heartbeat interval (two where "
    "a client leaves one out or counts from the answer) and the slowest join, from a member's learning of the round to "
    "its JoinGroup or LeaveGroup; and restarts of eager groups stand still no longer than with every improvement off.",
    "kohort; KIP-429",
    (Moment.EVENT,),
)
CAUSES_ARE_TRUE = Invariant(
    "CausesAreTrue",
    "What `explain` says of a group is what happened to it: who joined, was closed, was killed, which topic changed, "
    "what each member wants, and who owns what in the end.",
    "kohort",
    (Moment.END,),
)
BOUNDED_MEMORY = Invariant(
    "BoundedMemory",
    "What a shard and its node keep is bounded by the members, partitions, expressions and connections that there are.",
    "kohort",
    (Moment.STATE, Moment.END),
)
PHASE_FITS = Invariant(
    "PhaseFits",
    "What a group keeps fits the phase that it, and each of its members, is in.",
    "Kafka's ClassicGroup and CurrentAssignmentBuilder",
    (Moment.STATE,),
    classic=classic.misfits,
    consumer=consumer.misfits,
)
COUNTS_AGREE = Invariant(
    "CountsAgree",
    "What a group and its shard count and index as they change is what a walk over the members gives.",
    "kohort",
    (Moment.STATE,),
    classic=classic.miscounts,
    consumer=consumer.miscounts,
)

CATALOGUE = tuple(each for each in globals().copy().values() if isinstance(each, Invariant))
"""All of them, in the order of this file."""

_OF_CLASSIC = tuple((each, each.classic) for each in CATALOGUE if each.classic is not None)
_OF_CONSUMER = tuple((each, each.consumer) for each in CATALOGUE if each.consumer is not None)


def broken(shard: Shard, group_id: str) -> Iterator[tuple[Invariant, str]]:
    """Yield each invariant that the state of one group breaks, with a sentence that says how."""
    group = shard.groups.get(group_id)
    if group is None:
        if group_id in shard.offsets:
            yield COUNTS_AGREE, f"{group_id}: offsets without a group"
    elif isinstance(group, ClassicGroup):
        for invariant, of_classic in _OF_CLASSIC:
            for text in of_classic(group):
                yield invariant, f"{group_id}: {text}"
    else:
        for invariant, of_consumer in _OF_CONSUMER:
            for text in of_consumer(group):
                yield invariant, f"{group_id}: {text}"


def violations(shard: Shard) -> list[str]:
    """Return a sentence for each rule that the state of a shard breaks."""
    found = [f"{invariant}: {text}" for group_id in shard.groups for invariant, text in broken(shard, group_id)]
    found += [f"{COUNTS_AGREE}: {each}: offsets without a group" for each in shard.offsets if each not in shard.groups]
    return found + [f"{COUNTS_AGREE}: {text}" for text in _broken_index(shard)]


def _broken_index(shard: Shard) -> list[str]:
    """Return a sentence where the shard's index of consumer groups by topic differs from the groups' subscriptions."""
    followers: dict[str, set[str]] = {}
    regex_followers = set()
    for group_id, group in shard.groups.items():
        if isinstance(group, ConsumerGroup):
            for name in group.subscribers:
                followers.setdefault(name, set()).add(group_id)
            if group.regex_subscribers:
                regex_followers.add(group_id)
    found = []
    if followers != shard.followers:
        found.append(f"followers {shard.followers} where the groups say {followers}")
    if regex_followers != shard.regex_followers:
        found.append(f"regex followers {shard.regex_followers} where the groups say {regex_followers}")
    return found


def waiting(shard: Shard) -> set[Parked]:
    """Return the requests that must be parked: no more, no fewer (EveryParkedReplyAnswered)."""
    return {place for group in shard.groups.values() for place in waiting_of(group)}


def waiting_of(group: ClassicGroup | ConsumerGroup) -> set[Parked]:
    """Return the requests of one group that must be parked."""
    return classic.waiting(group) if isinstance(group, ClassicGroup) else consumer.waiting(group)


def missing_timers(shard: Shard, armed: set[Timer]) -> list[Timer]:
    """Return the timers without which a group could wait for ever (EveryParkedReplyAnswered)."""
    return [timer for group in shard.groups.values() for timer in needed_by(group) if timer not in armed]


def needed_by(group: ClassicGroup | ConsumerGroup) -> Iterator[Timer]:
    """Yield the timers without which one group could wait for ever."""
    return classic.needed(group) if isinstance(group, ClassicGroup) else consumer.needed(group)
