"""The museum: bugs that others had, what each was, and how to have it again.

Each story says what happened, why, and what ended it, from the thread that the link names; where that is silent, it
says so. `caught_by` are the invariants that a world breaks with the bug in it; `budget` is within how many seeds one
must.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tests.quality import (
    wrong_assignors,
    wrong_coordinator,
    wrong_members,
    wrong_process,
    wrong_replay,
    wrong_streams,
    wrong_transactions,
)
from tests.sim.process_programs import CLEAN as COMING_AND_GOING
from tests.sim.process_programs import WITH_FAILURES, ProgramWorlds

from kohort.sim.checks.invariants import AT_LEAST_ONCE
from kohort.sim.peers.client_kinds import KINDS
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan, WorldPlan, WorldStep
from kohort.sim.swarm.seed_plan import CLEAN

CHECKED = AssertionError.__name__
"""What a world breaks where the check of its own test fails."""


@dataclass(frozen=True)
class Exhibit:
    """One bug. `link` names the thread; `is_quick` ones are looked for in every run of the tests."""

    name: str
    link: str
    title: str
    story: str
    caught_by: tuple[str, ...]
    budget: int
    mutation: Callable[[], AbstractContextManager[None]]
    is_quick: bool = False
    producers: int = 0
    """How many transactional producers the worlds have in which it is looked for."""
    has_streams: bool = False
    """Whether the worlds in which it is looked for have a group of Kafka Streams."""
    worlds: Callable[[WorldPlan], WorldPlan] = lambda plan: plan
    """Makes the world in which it is looked for of the one that a seed gives."""
    program: ProgramWorlds | None = None
    """The worlds of a program in which it is looked for, in the place of the swarm's."""
    is_compared: bool = False
    """Whether it shows in a sum: restarts of eager groups stand still longer than with every improvement off."""


def with_late_ends(plan: WorldPlan) -> WorldPlan:
    """Break the connections of each producer while it ends a transaction, once a second; the request may come late."""
    steps = [*plan.steps, WorldStep(len(plan.steps) + 1, None, "stragglers", "network", (("late_us", 3_000_000),))]
    for at_us in range(SECOND_US, plan.end_us, SECOND_US):
        for producer in plan.producers:
            steps.append(WorldStep(len(steps) + 1, at_us, "break end", producer.name))
    return plan._replace(steps=tuple(steps))


def of_kgo_alone(plan: WorldPlan) -> WorldPlan:
    """Let every member be one of kgo with a heartbeat each three seconds, which commits by a timer; nothing fails."""

    def made(member: MemberPlan) -> MemberPlan:
        config = replace(member.config, session_timeout_ms=8_000, heartbeat_interval_ms=3_000, commit="auto")
        return member._replace(kind=KINDS["cooperative-v2"], config=config)

    return plan._replace(
        members=tuple(map(made, plan.members)),
        variants=tuple(tuple(map(made, each)) for each in plan.variants),
        steps=tuple(step for step in plan.steps if step.what in CLEAN),
    )


EXHIBITS = (
    Exhibit(
        name="KAFKA-16147",
        link="KAFKA-16147, apache/kafka#15212",
        title="A partition is assigned to two members at the same time",
        story=(
            "A member that was asked to give partitions back got the same ones again before it had, and the "
            "coordinator forgot their owner, so it granted them to a second member as well. "
            "What was granted and what was asked back were booked one after the other, and taking the second away "
            "wiped out what had just been booked under the first. "
            "Kafka now takes a member's whole old state out before it books the new one; so do we, and we keep the "
            "owner beside each partition."
        ),
        caught_by=("CountsAgree", "Withholding", "ReplayEqualsLive"),
        budget=500,
        mutation=wrong_coordinator.kafka_16147,
    ),
    Exhibit(
        name="KAFKA-12984",
        link="KAFKA-12984, apache/kafka#10985",
        title="The cooperative sticky assignor believes members that have dropped out",
        story=(
            "A consumer that had fallen out of its group kept reporting to the leader what it used to own, "
            "and groups got stuck, or gave one partition to two members. "
            "The client did not always clear what it owned, and the assignor had no generation by which to distinguish "
            "an old claim from a new one. "
            "The fix brought the generation back into the user data, and takes a partition that two members of one "
            "generation claim from both."
        ),
        caught_by=("CallbackContract", "NoDoubleOwnership"),
        budget=100,
        mutation=wrong_assignors.kafka_12984,
    ),
    Exhibit(
        name="KAFKA-14639",
        link="KAFKA-14639, apache/kafka#13550",
        title="A partition is revoked and assigned in one round",
        story=(
            "In a cooperative group a partition went to its next owner in the very round that took it from the "
            "first, which was still reading it. "
            "A member that had missed a generation came with an older number than the others, and the assignor held "
            "all that it owned for unowned. "
            "Since the fix an older generation loses a partition only to a newer claim to the same one."
        ),
        caught_by=("NoDoubleOwnership",),
        budget=1500,
        mutation=wrong_assignors.kafka_14639,
    ),
    Exhibit(
        name="KAFKA-19449",
        link="KAFKA-19449, apache/kafka#20781",
        title="A partition that a member has just given back counts as another's",
        story=(
            "A member that gave a partition back, and was to have it again in the newest target, had to wait a "
            "heartbeat longer for it although no other member owned it. "
            "Who owns what is booked only after the step, so the step took the member's own pending partitions for "
            "those of another member. "
            "Nothing was ever owned twice; the fix spares a detour through UNRELEASED_PARTITIONS."
        ),
        caught_by=("Withholding",),
        budget=500,
        mutation=wrong_coordinator.kafka_19449,
    ),
    Exhibit(
        name="KAFKA-19233",
        link="KAFKA-19233, apache/kafka#21305",
        title="A member that joins again with epoch 0 is fenced",
        story=(
            "A member of the consumer protocol that had been fenced, or had lost the answer to its join, came back "
            "with epoch 0 as KIP-848 says, and was fenced again. "
            "The check of epochs had no case for 0, so it passed only while the epoch before was 0 too. "
            "Kafka accepts it since 4.2; against older brokers our member leaves before it joins again."
        ),
        caught_by=("FencedForCause",),
        budget=1500,
        mutation=wrong_coordinator.kafka_19233,
    ),
    Exhibit(
        name="KAFKA-17306",
        link="KAFKA-17306, apache/kafka#16898",
        title="Tombstones of what is not there stop the coordinator",
        story=(
            "After a compaction a coordinator could not load its partition any more, and all groups in it were "
            "without one. "
            "The cleaner had taken a member's or a group's records and left their tombstones, and the replay of a "
            "tombstone demanded that what it deletes exists. "
            "Such tombstones are ignored now; the same fix lets records of a consumer group follow on offsets alone."
        ),
        caught_by=("ReplayEqualsLive", "ConvergesAfterHealing"),
        budget=50,
        mutation=wrong_replay.kafka_17306,
        is_quick=True,
    ),
    Exhibit(
        name="KAFKA-19862",
        link="KAFKA-19862, apache/kafka#20907",
        title="Loading fails while the log is compacted",
        story=(
            "A coordinator that loaded while the cleaner worked on the same log stopped with an exception about the "
            "epoch of a partition. "
            "It had read the record that gave a partition to one member, the cleaner had replaced the one that took "
            "it back, and the next owner's record met a partition that seemed taken. "
            "The state is right again at the end of such a log, so Kafka logs what it meets and goes on."
        ),
        caught_by=("ReplayEqualsLive",),
        budget=300,
        mutation=wrong_replay.kafka_19862,
    ),
    Exhibit(
        name="KAFKA-20254",
        link="KAFKA-20254, apache/kafka#21641",
        title="A group that is known by its offsets alone stays a classic one",
        story=(
            "A group that had moved from the classic protocol to the streams one did not load after a compaction. "
            "Its offsets, committed long before, stood first in the log and made a simple classic group, and the "
            "records of the streams group that followed were refused because of it. "
            "A simple group has no record of its own, so it gives way now; with consumer groups KAFKA-17306 had cured "
            "the same."
        ),
        caught_by=("ReplayEqualsLive",),
        budget=300,
        mutation=wrong_replay.kafka_20254,
        has_streams=True,
    ),
    Exhibit(
        name="KAFKA-21117",
        link="KAFKA-21117, apache/kafka#23514",
        title="A group that was downgraded does not load",
        story=(
            "A coordinator that loaded while the cleaner worked failed on a group that had gone to the consumer "
            "protocol and back: it is not a consumer group. "
            "It had read the classic group's first record, the tombstone of which had given way to the group's last "
            "record, and then met the consumer group's tombstones. "
            "The proposed fix ignores tombstones of another type of group and lets a record of one take its place; it "
            "was open when this was written."
        ),
        caught_by=("ReplayEqualsLive",),
        budget=1000,
        mutation=wrong_replay.kafka_21117,
    ),
    Exhibit(
        name="KAFKA-12759",
        link="KAFKA-12759, apache/kafka#22593",
        title="A static member's new topics are never assigned",
        story=(
            "A static member that was restarted with other topics kept what it had, and the new topics were read by "
            "no member until the whole group had been down for a session. "
            "To spare rounds, the coordinator compared only which protocol a returning instance would make the group "
            "choose, and never what it subscribes to. "
            "A fix that compares the topics was proposed in 2026 and was open when this was written; ours starts a "
            "round."
        ),
        caught_by=("StableMeansConverged", "ConvergesAfterHealing"),
        budget=500,
        mutation=wrong_coordinator.kafka_12759,
    ),
    Exhibit(
        name="crabka#521",
        link="robot-head/crabka#521",
        title="A partition is advertised before its owner has revoked it",
        story=(
            "In a broker written in Rust two consumers of the consumer protocol read the same partition whenever one "
            "moved between live members. "
            "A heartbeat was answered with the member's whole target, and nothing withheld what another still had. "
            "An exhaustive model of its reconciliation found that in four steps, and the fix withholds a partition "
            "until the previous owner has reported that it revoked it."
        ),
        caught_by=("Withholding", "NoDoubleOwnership"),
        budget=20,
        mutation=wrong_coordinator.crabka_521,
        is_quick=True,
    ),
    Exhibit(
        name="crabka#534",
        link="robot-head/crabka#534",
        title="A join under a known member id orphans a static instance",
        story=(
            "In the same broker a JoinGroup that named a live member's id with another instance id, or none, wrote "
            "over that member and left its old instance in the index for ever, so that each client "
            "that used it was fenced. "
            "The join checked whose the instance is, but not whether the member id is that instance's. "
            "No client of today's sends that, a hostile one might; a model found it, and the fix checks both ways as "
            "Kafka does."
        ),
        caught_by=("StaticSlotUnique",),
        budget=300,
        mutation=wrong_coordinator.crabka_534,
    ),
    Exhibit(
        name="redpanda#3300",
        link="redpanda-data/redpanda#3300",
        title="A group is stuck in PreparingRebalance",
        story=(
            "A group stayed in PreparingRebalance although its members were gone, with an exception about a member "
            "that was updated without joining. "
            "The thread was closed years later without a cause; a related fix gave issued ids an end, and other "
            "brokers had the rule that we break here (streamnative/kop#380). "
            "That rule is: when a member leaves during a join round, the coordinator checks whether the others "
            "are complete."
        ),
        caught_by=("EveryParkedReplyAnswered",),
        budget=50,
        mutation=wrong_coordinator.redpanda_3300,
    ),
    Exhibit(
        name="librdkafka#4783",
        link="confluentinc/librdkafka#4783, fixed by #4800",
        title="The cooperative sticky assignor never comes back",
        story=(
            "The leader of a group hung in the assignor with a whole core, so it was evicted, and the next leader "
            "hung in its turn. "
            "Where the partitions that a member may have are fewer than the members, the loop that evens the loads "
            "out moved partitions that made nothing more even, and never saw that it was done. "
            "The fix is one comparison; our engine moves only what makes the loads more even, and counts its steps."
        ),
        caught_by=("NoDefect",),
        budget=300,
        mutation=wrong_assignors.librdkafka_4783,
    ),
    Exhibit(
        name="librdkafka#4059",
        link="confluentinc/librdkafka#4059",
        title="Commits during a rebalance start another one",
        story=(
            "Consumers with cooperative-sticky that committed by hand rebalanced without end. "
            "A commit in the middle of a round is refused with REBALANCE_IN_PROGRESS, and the client took that for a "
            "reason to join once more, although it was in that round already; the next commit met the next round. "
            "Java refuses to commit then; pull requests that did the same in librdkafka were left open, and ours takes "
            "the answer to heart only while it is in no round."
        ),
        caught_by=("RoundsHaveCauses",),
        budget=500,
        mutation=wrong_members.librdkafka_4059,
    ),
    Exhibit(
        name="aiokafka#727",
        link="aio-libs/aiokafka#727, fixed by #747",
        title="A late answer takes the new generation away",
        story=(
            "Consumers fell into rebalances that never ended. "
            "An answer that belonged to the generation before arrived while a round was on, reset generation and "
            "member id, and the member went into the new generation without either. "
            "The fix puts back after SyncGroup who the member was when it asked; ours accepts only answers to who it "
            "is now."
        ),
        caught_by=("RoundsHaveCauses",),
        budget=300,
        mutation=wrong_members.aiokafka_727,
    ),
    Exhibit(
        name="KAFKA-14402",
        link="KAFKA-14402, KAFKA-12671, KIP-890",
        title="A write that comes after the abort opens a transaction without an end",
        story=(
            "Readers of committed records came to a stop at a partition for good, because its last stable offset did "
            "not move on. "
            "A producer had given a batch up and aborted, the batch arrived after the marker under the same epoch, and "
            "the partition held it for the beginning of a transaction of which the coordinator knew nothing. "
            "Since KIP-890 a broker asks the coordinator before it takes a write, and each end raises the epoch; here "
            "the question is always answered with yes."
        ),
        caught_by=("EveryTransactionEnds", "AbortedStaysUnread", "AllOrNothing"),
        budget=1500,
        producers=2,
        mutation=wrong_transactions.kafka_14402,
    ),
    Exhibit(
        name="KAFKA-17754",
        link="KAFKA-17754, KIP-890, https://jepsen.io/analyses/bufstream-0.1.0",
        title="The request to end a transaction arrives late and ends the next one",
        story=(
            "Records of open and of aborted transactions were read as committed, and a transaction was committed in "
            "part. "
            "A client that got no answer to EndTxn sent it again on another connection and began its next "
            "transaction, and the first request, which a network or a server had kept, named the same producer id and "
            "epoch. "
            "Since KIP-890 each end raises the epoch, so that what comes late is fenced; here a commit does not raise "
            "it."
        ),
        caught_by=("AbortedStaysUnread", "AllOrNothing"),
        budget=50,
        producers=2,
        worlds=with_late_ends,
        mutation=wrong_transactions.kafka_17754,
        is_quick=True,
    ),
    Exhibit(
        name="KAFKA-19367",
        link="KAFKA-19367, apache/kafka#19910",
        title="The epoch is raised twice where an open transaction is aborted, and runs over",
        story=(
            "An open transaction whose producer was to be fenced was not aborted when the producer's epoch was 32766: "
            "the coordinator raised an exception. "
            "It raised the epoch to fence the producer, and the abort by version 2 raised it once more, beyond the "
            "largest number that a record can hold. "
            "The fix does not raise it a second time; ours raises it once."
        ),
        caught_by=("EveryTransactionEnds",),
        budget=1500,
        producers=2,
        mutation=wrong_transactions.kafka_19367,
    ),
    Exhibit(
        name="KAFKA-19999",
        link="KAFKA-19999, apache/kafka#21176",
        title="A marker that is there already is refused, and tried for ever",
        story=(
            "After a coordinator was loaded again, transactions stayed in PREPARE_COMMIT or PREPARE_ABORT, and their "
            "producers got CONCURRENT_TRANSACTIONS for good. "
            "With version 2 a marker had to have a larger epoch than the partition knew, so the same marker, written "
            "once more because its answer or the record of its completion was lost, was refused again and again. "
            "The fix accepts a marker of the same epoch where no transaction is open; ours always did."
        ),
        caught_by=("EveryTransactionEnds",),
        budget=1500,
        producers=2,
        mutation=wrong_transactions.kafka_19999,
    ),
    Exhibit(
        name="kop#1283",
        link="streamnative/kop#1283",
        title="Records of a transaction that is open are read as committed",
        story=(
            "Consumers of committed records saw records of transactions that were aborted a moment later, where the "
            "program waited for 75 ms or more before it aborted. "
            "The thread, open when this was written, names no cause; a broker that serves such readers up to the high "
            "watermark, and not to the last stable offset, shows just that. "
            "A client does not learn that a transaction is open, so it hides only what the broker lists as aborted."
        ),
        caught_by=("AbortedStaysUnread", "StableOffsetMoves", "AllOrNothing"),
        budget=20,
        producers=2,
        mutation=wrong_transactions.kop_1283,
        is_quick=True,
    ),
    Exhibit(
        name="brod#659",
        link="kafka4beam/brod#659",
        title="The first marker of any kind ends the list of what was aborted",
        story=(
            "A consumer of committed records handed out records of aborted transactions, when it fetched several "
            "transactions of one producer at once. "
            "It held the first control record of a producer for the marker of its aborted transaction, though that was "
            "the COMMIT of the one before, and let everything after it pass. "
            "The fix looks at the marker's type and offset; ours begins to skip only where an aborted transaction does."
        ),
        caught_by=("AbortedStaysUnread",),
        budget=100,
        producers=2,
        mutation=wrong_transactions.brod_659,
    ),
    Exhibit(
        name="heartbeat after eviction",
        link="no thread: derived from KIP-62 and KIP-848",
        title="The heartbeat of an evicted member succeeds",
        story=(
            "A coordinator that accepts heartbeats of any sender leaves an evicted member in the belief that it "
            "still owns its partitions. "
            "It goes on reading them beside their new owner, for as long as it lives. "
            "The protocols say it in one error, UNKNOWN_MEMBER_ID, and everything that is safe about eviction hangs on "
            "that."
        ),
        caught_by=("FencedMemberGetsError", "NoDoubleOwnership"),
        budget=50,
        mutation=wrong_coordinator.heartbeat_after_eviction,
        is_quick=True,
    ),
    Exhibit(
        name="tasks given back",
        link="no thread: KAFKA-19449 with tasks in the place of partitions",
        title="A task that a thread has just given back counts as another's",
        story=(
            "A thread that closes a standby task to run it as an active one waits in UNRELEASED_TASKS, although no "
            "other thread has anything of it. "
            "Who has what is booked only after the step, so the step takes the thread's own copy for that of another "
            "one in its process. "
            "The check of a task passes over the thread itself."
        ),
        caught_by=("Withholding",),
        budget=100,
        mutation=wrong_streams.own_tasks_count,
        has_streams=True,
    ),
    Exhibit(
        name="task of two threads",
        link="no thread: derived from KIP-1071",
        title="An active task is granted before its owner has given it back",
        story=(
            "A coordinator that grants a task as soon as the target has it lets two threads write one changelog. "
            "The first is still closing it, or has not even received that it must. "
            "A task is free only when no thread has it as an active one, granted or asked back."
        ),
        caught_by=("Withholding",),
        budget=20,
        mutation=wrong_streams.granted_before_it_is_released,
        has_streams=True,
        is_quick=True,
    ),
    Exhibit(
        name="copy beside the task",
        link="no thread: derived from KIP-1071",
        title="A copy is granted in the process in which the task is active",
        story=(
            "The threads of a process share a state directory, so a standby copy beside its active task protects "
            "nothing, and cannot even take the lock of its directory. "
            "A target never asks for both, but while one thread of the process still closes the task, another may be "
            "granted the copy. "
            "A copy waits until the process has nothing of the task."
        ),
        caught_by=("OneCopyPerProcess",),
        budget=100,
        mutation=wrong_streams.beside_the_active_task,
        has_streams=True,
    ),
    Exhibit(
        name="cold promotion",
        link="no thread: derived from KIP-441 and KIP-1071",
        title="A warm-up becomes active before it has caught up",
        story=(
            "A task moves to a thread whose copy is far behind, and processes nothing until that is restored, while "
            "the thread that had it was ready. "
            "A warm-up that has not reported its lag yet is taken for one that has caught up. "
            "A lag that was not reported is too large."
        ),
        caught_by=("TasksMoveWarm",),
        budget=50,
        mutation=wrong_streams.warm_at_once,
        has_streams=True,
    ),
    Exhibit(
        name="process of before",
        link="no thread: derived from KIP-345 and KIP-1071",
        title="A static thread that comes back counts as one of its former process",
        story=(
            "A static thread whose process lost its disk comes back with another process id, and the coordinator "
            "retains the former one. "
            "The other threads of the same process send the new id, so that copies are placed beside their active "
            "tasks. "
            "What a thread sends of itself goes before what is known of its instance."
        ),
        caught_by=("OneCopyPerProcess",),
        budget=1500,
        mutation=wrong_streams.former_process,
        has_streams=True,
    ),
    Exhibit(
        name="thread after eviction",
        link="no thread: derived from KIP-1071",
        title="The heartbeat of an evicted thread succeeds",
        story=(
            "A thread that was evicted while its process was suspended runs its tasks on, beside their new owners. "
            "It never receives that it is out, so it writes to the same changelogs for as long as it lives. "
            "UNKNOWN_MEMBER_ID has it drop everything and join again."
        ),
        caught_by=("FencedMemberGetsError",),
        budget=50,
        mutation=wrong_streams.heartbeat_after_eviction,
        has_streams=True,
    ),
    Exhibit(
        name="commit one epoch late",
        link="no thread: derived from KIP-62, KIP-848 and KIP-1251",
        title="A commit of the epoch before is accepted",
        story=(
            "A coordinator that lets a commit be one generation late lets a member that has lost a partition take back "
            "what its next owner has committed. "
            "Records are then read again, or, where the late commit is ahead, never. "
            "KIP-1251 accepts an older epoch for partitions that the member has had since then, and for no others."
        ),
        caught_by=("CommitFenced",),
        budget=500,
        mutation=wrong_coordinator.commit_one_epoch_late,
    ),
    Exhibit(
        name="kohort-together",
        link="docs/decisions/0010-heartbeats-of-classic-groups-are-parked.md",
        title="Parked heartbeats make an eager group stand still longer than Kafka does",
        story=(
            "Six clients in one eager group, each restarted once at default times, had partitions without an owner for "
            "64 partition-seconds, and for 25 on Apache Kafka. "
            "Members whose heartbeat was kept learnt of a round at once and stopped, while those without one here "
            "learnt of it by their next, and all waited for the last. "
            "An eager round is announced now: its members learn of it together."
        ),
        caught_by=("StandstillBounded",),
        budget=20,
        mutation=wrong_coordinator.round_announced_without_waiting,
        is_compared=True,
    ),
    Exhibit(
        name="kohort-later",
        link="docs/decisions/0086-the-gateway-predicts-with-the-coordinator-and-believes-the-answers.md",
        title="A parked heartbeat that a commit ends makes the next one late",
        story=(
            "Six clients of different makes that commit by themselves, restarted one by one behind a gateway that "
            "parked their heartbeats, stood still 1.2 times as long as directly on Apache Kafka. "
            "A commit has a parked heartbeat answered, and kgo sends the next one a whole interval after that answer, "
            "so that its member learnt of a round up to an interval later than without parking. "
            "Members of kgo that commit are not parked since, unless they can be made to send the heartbeat again at "
            "once."
        ),
        caught_by=("LearnsNoLater",),
        budget=50,
        mutation=wrong_coordinator.parked_before_a_commit,
        worlds=of_kgo_alone,
    ),
    Exhibit(
        name="kohort-closing",
        link="docs/decisions/0012-callbacks-lose-deleted-topics-survive-exceptions-and-commit-at-close.md",
        title="A cooperative member that is closed in a round commits nothing",
        story=(
            "A consumer that was closed cleanly while a cooperative round ran committed nothing and logged nothing, in "
            "six of six closes, and a thousand records were read twice. "
            "Its state machine took every state but STABLE for one in which the partitions are lost already, although "
            "the coordinator takes commits of the generation until the next one forms. "
            "A member with a valid generation revokes now, in which the last commit has its place."
        ),
        caught_by=("CloseKeepsWork",),
        budget=500,
        mutation=wrong_members.close_in_a_round_loses,
    ),
    Exhibit(
        name="kohort-causes",
        link="src/kohort/group/classic/join_group.py",
        title="Added partitions are explained as another subscription",
        story=(
            "`kohort explain` reported added partitions and a user's own rebalance of a classic group as a member that "
            "joined again with another subscription. "
            "The cause compared the bytes of the subscription, which carry the generation and the owned partitions of "
            "their sender, so that they differ after every round. "
            "The cause compares what the member wants now; the bytes still decide whether a round starts."
        ),
        caught_by=("CausesAreTrue",),
        budget=50,
        mutation=wrong_coordinator.causes_by_bytes,
        is_quick=True,
    ),
    Exhibit(
        name="parallel-consumer#365",
        link="confluentinc/parallel-consumer#365",
        title="What finished above the committed offset is forgotten at a rebalance",
        story=(
            "A service that handled many records at once, in the order of their keys, handled a lot of them twice when "
            "a member joined and left. "
            "What had finished above the committed offset was written every five seconds, and not when partitions were "
            "revoked, so their next owner did not have it. "
            "Here the last commit before a revocation lists it, and the next owner skips it."
        ),
        caught_by=(CHECKED,),
        budget=20,
        mutation=wrong_process.forget_what_finished,
        program=COMING_AND_GOING,
    ),
    Exhibit(
        name="PostHog#80897",
        link="PostHog/posthog#80897",
        title="What finishes while partitions are revoked is not committed",
        story=(
            "A message was posted twice for one event, minutes apart, without a retry in the log. "
            "When partitions were revoked the consumer fenced their offsets first and then waited for what was under "
            "way, so what ended in that time was refused, and the next owner did it again. "
            "It waits first and fences second since, as `process` does."
        ),
        caught_by=(CHECKED,),
        budget=20,
        mutation=wrong_process.fence_before_the_wait,
        program=COMING_AND_GOING,
    ),
    Exhibit(
        name="highest finished",
        link="docs/guide/services.md",
        title="The offset behind the highest record that has finished is committed",
        story=(
            "Programs that start a task for each record and commit when one ends lose records at the next restart. "
            "A later record often finishes first, and a commit behind it counts those before it, too, which still run. "
            "`process` commits the lowest offset that has not finished."
        ),
        caught_by=(AT_LEAST_ONCE.name, CHECKED),
        budget=20,
        mutation=wrong_process.commit_the_highest,
        program=WITH_FAILURES,
        is_quick=True,
    ),
    Exhibit(
        name="cancelled and committed",
        link="docs/guide/services.md",
        title="A record whose handler was cancelled counts as finished",
        story=(
            "A handler that does not end in time is cancelled when its partition is revoked, and its record was never "
            "handled. "
            "The task had ended, which the program took for success, and the last commit went past the record. "
            "A record is finished only when its handler has returned."
        ),
        caught_by=(AT_LEAST_ONCE.name, CHECKED),
        budget=100,
        mutation=wrong_process.commit_what_was_cancelled,
        program=COMING_AND_GOING,
    ),
)
"""In the order in which the museum shows them."""
