"""The invariants of a group and its members, and of transactions, which tests and simulations check.

Each is a value: its name, one sentence, its origin, and when a simulated world checks it (`sim/checks`). Those of the
state of a shard between two commands are checked by `violations`. `docs/invariants.md` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kohort.group.classic.group import ClassicGroup
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.effects import Parked
from kohort.group.group_timers import Timer
from kohort.group.shard import Group, Shard
from kohort.group.streams.group import StreamsGroup
from kohort.sim.checks import classic_invariants as classic
from kohort.sim.checks import consumer_invariants as consumer
from kohort.sim.checks import streams_invariants as streams


class Moment(StrEnum):
    """When an invariant is checked."""

    EVENT = "after each event of the group"
    STATE = "at random events, over the whole state"
    OWNERSHIP = "when the partitions that a member acts on change"
    CALLBACK = "at each callback"
    DELIVERY = "when records are returned"
    COMMIT = "at each commit"
    ANSWER = "at each response"
    RESTART = "when a node stops and when it has restarted"
    END = "at the end"


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant. `classic`, `consumer` and `streams` yield a sentence for each way in which a group breaks it."""

    name: str
    sentence: str
    origin: str
    checked: tuple[Moment, ...]
    classic: Callable[[ClassicGroup], Iterator[str]] | None = None
    consumer: Callable[[ConsumerGroup], Iterator[str]] | None = None
    streams: Callable[[StreamsGroup], Iterator[str]] | None = None

    def __str__(self) -> str:
        return self.name


NO_DOUBLE_OWNERSHIP = Invariant(
    "NoDoubleOwnership",
    "No two members of a group act on one partition, or run one task as an active one, at once, unless the coordinator "
    "has evicted or overtaken the first one and it has not learned of that yet; then none of its commits is accepted. "
    "Kafka Streams may begin a task while a report without it is unanswered, by which the coordinator grants it anew.",
    "KIP-429, KIP-848; KAFKA-12984, KAFKA-14639",
    (Moment.OWNERSHIP, Moment.EVENT),
)
WITHHOLDING = Invariant(
    "Withholding",
    "A partition or an active task is assigned to no member while another member of the group owns it and has not "
    "confirmed its revocation.",
    "KIP-429, KIP-848; KAFKA-16147",
    (Moment.EVENT, Moment.STATE),
    consumer=consumer.shared_partitions,
    streams=streams.shared_tasks,
)
EPOCH_MONOTONE = Invariant(
    "EpochMonotone",
    "The epochs of a group, of its target and of a member never go back while it lives, and neither a target nor a "
    "member is ahead of its group.",
    "KIP-848",
    (Moment.EVENT, Moment.STATE, Moment.RESTART),
    consumer=consumer.early_epochs,
    streams=streams.early_epochs,
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
    "A Stable group has nothing left to do: every member has the group's epoch and its whole target, or in a classic "
    "group what the leader of the generation assigned.",
    "KIP-848; Kafka's ConsumerGroup and ClassicGroup",
    (Moment.EVENT, Moment.STATE),
    classic=classic.unconverged,
    consumer=consumer.unconverged,
    streams=streams.unconverged,
)
TARGET_LEGAL = Invariant(
    "TargetLegal",
    "A target assigns each partition to one member at most, and to each member only partitions that exist, of topics "
    "to which it subscribes; each task of a streams group to one, with as many standby copies as there should be and "
    "can be.",
    "KIP-848; KAFKA-12759",
    (Moment.EVENT, Moment.STATE),
    consumer=consumer.shared_targets,
    streams=streams.shared_targets,
)
ONE_COPY_PER_PROCESS = Invariant(
    "OneCopyPerProcess",
    "The members of one process of a streams group have a task once, in one role: no standby copy or warm-up is where "
    "the task is active, but at a member that gives it back and keeps it as a standby task.",
    "KIP-1071; KAFKA-19449",
    (Moment.OWNERSHIP, Moment.EVENT, Moment.STATE),
    streams=streams.crowded_processes,
)
TASKS_MOVE_WARM = Invariant(
    "TasksMoveWarm",
    "No target makes a task with state active in a process whose copy is further behind than acceptable.recovery.lag "
    "while another one has caught up, but for members that report no lags; and no more tasks warm up at a time than "
    "num.warmup.replicas allows.",
    "KIP-441, KIP-1071",
    (Moment.EVENT,),
)
COMMIT_FENCED = Invariant(
    "CommitFenced",
    "A commit is accepted from a member only with its current generation or epoch, or with an older epoch for "
    "partitions that it has owned since then; and a commit that the log allows is not refused as stale.",
    "KIP-62, KIP-345, KIP-848, KIP-1251",
    (Moment.COMMIT,),
)
COMMIT_NEVER_REWINDS = Invariant(
    "CommitNeverRewinds",
    "An offset that one member committed is never decreased by another member's commit.",
    "KIP-62; kohort",
    (Moment.COMMIT,),
)
REPLAY_EQUALS_LIVE = Invariant(
    "ReplayEqualsLive",
    "The replay of a shard's log, in any legal state of compaction, gives the shard's state, except for soft state.",
    "kohort's law; KAFKA-19862, KAFKA-20254",
    (Moment.STATE, Moment.RESTART, Moment.END),
)
MIGRATION_KEEPS_OWNERS = Invariant(
    "MigrationKeepsOwners",
    "The conversion of a group revokes no partition: each has the same owner in the converted group.",
    "KIP-848, Supporting Online Consumer Group Upgrade",
    (Moment.EVENT,),
)
STATIC_SLOT_UNIQUE = Invariant(
    "StaticSlotUnique",
    "An instance id belongs to one member at most, and a member id that was replaced under it never returns.",
    "KIP-345",
    (Moment.EVENT, Moment.STATE),
    classic=classic.shared_slots,
    consumer=consumer.shared_slots,
    streams=streams.shared_slots,
)
LEADER_NEVER_ORPHANED = Invariant(
    "LeaderNeverOrphaned",
    "The leader of a generation that awaits its assignment is a member of it.",
    "KAFKA-12890",
    (Moment.EVENT, Moment.STATE),
    classic=classic.leaderless,
)
FENCED_MEMBER_GETS_ERROR = Invariant(
    "FencedMemberGetsError",
    "The next response of the group to a former member, by its id, instance id or epoch, is an error.",
    "KIP-62, KIP-345, KIP-848",
    (Moment.ANSWER,),
)
FENCED_FOR_CAUSE = Invariant(
    "FencedForCause",
    "A member that joins, and so sends no epoch, is not fenced by an epoch.",
    "KIP-848; KAFKA-19233",
    (Moment.ANSWER,),
)
ROUNDS_HAVE_CAUSES = Invariant(
    "RoundsHaveCauses",
    "No member starts a round, or abandons its generation, because of a response to its former identity, or because "
    "of one that reports a round which it is in.",
    "KIP-62; aiokafka#727, librdkafka#4059",
    (Moment.ANSWER, Moment.CALLBACK),
)
EVERY_PARKED_REPLY_ANSWERED = Invariant(
    "EveryParkedReplyAnswered",
    "A parked request has something that it waits for, and a timer that ends the wait; each is answered in time, "
    "unless its connection is closed.",
    "KAFKA-12890; redpanda#3300",
    (Moment.STATE, Moment.ANSWER, Moment.END),
    classic=classic.stalled,
)
OBSERVED_EQUALS_SERVED = Invariant(
    "ObservedEqualsServed",
    "At the end of a healed world a group as a gateway derives it from the traffic is the group of its coordinator: "
    "its members, its generation or epoch, and what each member was assigned.",
    "kohort's gateway",
    (Moment.END,),
)
CONVERGES_AFTER_HEALING = Invariant(
    "ConvergesAfterHealing",
    "After the last fault, within a stated time, every live member is stable, every subscribed partition has one "
    "owner, all records have been read, and nothing moves.",
    "kohort; KIP-848",
    (Moment.END,),
)
CALLBACK_CONTRACT = Invariant(
    "CallbackContract",
    "A listener's revoked, assigned and lost are called in the order of its protocol, one at a time, and only with "
    "the partitions that the protocol requires.",
    "KIP-429, Listener and Assignor Semantics; KIP-848",
    (Moment.CALLBACK, Moment.OWNERSHIP),
)
AT_LEAST_ONCE = Invariant(
    "AtLeastOnce",
    "Every record is returned at least once, in order; a record is returned again only if it was not committed when "
    "the next owner looked up its start position; and committed records have been returned.",
    "Kafka's consumer",
    (Moment.DELIVERY, Moment.COMMIT, Moment.END),
)
CLOSE_KEEPS_WORK = Invariant(
    "CloseKeepsWork",
    "Records that a member has processed when its user closes it are committed before it leaves, in every state in "
    "which the coordinator accepts that commit, so that no member repeats them.",
    "KIP-429; Kafka's consumer",
    (Moment.COMMIT, Moment.EVENT),
)
LEARNS_NO_LATER = Invariant(
    "LearnsNoLater",
    "No member of a classic group learns of a round later than on plain Kafka, whatever it commits: a cooperative one "
    "by its own next heartbeat at the latest, whole intervals after its last one, and eager ones, none of which reads "
    "before all have joined, by that of the last of them.",
    "kohort",
    (Moment.EVENT,),
)
STANDSTILL_BOUNDED = Invariant(
    "StandstillBounded",
    "In a round of a classic group no partition is without an owner for longer than until the last member's next "
    "heartbeat, as on plain Kafka, and the slowest join, which lasts from the time at which a member learns of the "
    "round to its JoinGroup or LeaveGroup; no round lasts longer; and in restarts of eager groups no partition is "
    "unowned for longer than with every improvement off.",
    "kohort; KIP-429",
    (Moment.EVENT,),
)
CAUSES_ARE_TRUE = Invariant(
    "CausesAreTrue",
    "The report of `explain` is true: which member joined, was closed, was killed, which topic changed, to what each "
    "member subscribes, and which member owns which partition in the end.",
    "kohort",
    (Moment.END,),
)
ABORTED_STAYS_UNREAD = Invariant(
    "AbortedStaysUnread",
    "A reader of committed records gets a record of a transaction only if its program asked for the commit, and never "
    "one of a transaction whose abort was answered.",
    "KIP-98; KAFKA-17754",
    (Moment.DELIVERY,),
)
ALL_OR_NOTHING = Invariant(
    "AllOrNothing",
    "Of a transaction whose commit was answered each record is read once, and its offset is the group's; of any other "
    "all of that counts, or nothing. A producer that begins finds the offset of the last one that counts.",
    "KIP-98, KIP-447; KAFKA-17754",
    (Moment.DELIVERY, Moment.END),
)
FENCED_NEVER_ADDS = Invariant(
    "FencedNeverAdds",
    "Once a producer has a new id or epoch, no record of an older one is appended to any partition.",
    "KIP-98, KIP-890; KAFKA-14402",
    (Moment.END,),
)
STABLE_OFFSET_MOVES = Invariant(
    "StableOffsetMoves",
    "The last stable offset that readers see never goes back, and reaches the end of a log in which no transaction is "
    "open.",
    "KIP-98; KAFKA-14402",
    (Moment.DELIVERY, Moment.END),
)
EVERY_TRANSACTION_ENDS = Invariant(
    "EveryTransactionEnds",
    "After the last fault, within a stated time, every transaction has ended, on the coordinator and in each log.",
    "KIP-98; KAFKA-19999",
    (Moment.END,),
)
BOUNDED_MEMORY = Invariant(
    "BoundedMemory",
    "The memory of a shard and its node is bounded by the existing members, partitions, expressions and connections.",
    "kohort",
    (Moment.STATE, Moment.END),
)
PHASE_FITS = Invariant(
    "PhaseFits",
    "The fields of a group and of its members fit the phase that each is in.",
    "Kafka's ClassicGroup and CurrentAssignmentBuilder",
    (Moment.STATE,),
    classic=classic.misfits,
    consumer=consumer.misfits,
    streams=streams.misfits,
)
COUNTS_AGREE = Invariant(
    "CountsAgree",
    "The counts and indexes that a group and its shard maintain are those that a walk over the members gives.",
    "kohort",
    (Moment.STATE,),
    classic=classic.miscounts,
    consumer=consumer.miscounts,
    streams=streams.miscounts,
)

CATALOGUE = tuple(each for each in globals().copy().values() if isinstance(each, Invariant))
"""All of them, in the order of this file."""

_OF_CLASSIC = tuple((each, each.classic) for each in CATALOGUE if each.classic is not None)
_OF_CONSUMER = tuple((each, each.consumer) for each in CATALOGUE if each.consumer is not None)
_OF_STREAMS = tuple((each, each.streams) for each in CATALOGUE if each.streams is not None)


def broken(shard: Shard, group_id: str) -> Iterator[tuple[Invariant, str]]:
    """Yield each invariant that the state of one group breaks, with a sentence."""
    group = shard.groups.get(group_id)
    if group is None:
        if group_id in shard.offsets:
            yield COUNTS_AGREE, f"{group_id}: offsets without a group"
    elif isinstance(group, ClassicGroup):
        for invariant, of_classic in _OF_CLASSIC:
            for text in of_classic(group):
                yield invariant, f"{group_id}: {text}"
    elif isinstance(group, ConsumerGroup):
        for invariant, of_consumer in _OF_CONSUMER:
            for text in of_consumer(group):
                yield invariant, f"{group_id}: {text}"
    else:
        for invariant, of_streams in _OF_STREAMS:
            for text in of_streams(group):
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
        if isinstance(group, StreamsGroup) and group.topology is not None:
            for name in group.topology.topics:
                followers.setdefault(name, set()).add(group_id)
    found = []
    if followers != shard.followers:
        found.append(f"followers {shard.followers} where the groups have {followers}")
    if regex_followers != shard.regex_followers:
        found.append(f"regex followers {shard.regex_followers} where the groups have {regex_followers}")
    return found


def waiting(shard: Shard) -> set[Parked]:
    """Return the requests that must be parked: no more, no fewer (EveryParkedReplyAnswered)."""
    return {place for group in shard.groups.values() for place in waiting_of(group)}


def waiting_of(group: Group) -> set[Parked]:
    """Return the requests of one group that must be parked."""
    if isinstance(group, StreamsGroup):
        return set()
    return classic.waiting(group) if isinstance(group, ClassicGroup) else consumer.waiting(group)


def needed_by(group: Group) -> Iterator[Timer]:
    """Yield the timers without which one group could wait for ever (EveryParkedReplyAnswered)."""
    if isinstance(group, StreamsGroup):
        return streams.needed(group)
    return classic.needed(group) if isinstance(group, ClassicGroup) else consumer.needed(group)
