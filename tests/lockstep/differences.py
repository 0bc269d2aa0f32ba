"""Every difference between Kafka's coordinator and ours that is meant: the one table, and docs/lockstep.md's source.

A rule sees one `Case`: an answer, a record or a timer in which the two sides differ, and permits exactly what its row
says. Whatever no rule permits is a failure. A difference that `ends` leaves the two sides in different states: its
group is left alone from there on, and the clients go on in a fresh one.
"""

from __future__ import annotations

from tests.lockstep import classic_rules as classic
from tests.lockstep import consumer_rules as consumer
from tests.lockstep import conversion_rules as conversion
from tests.lockstep.cases import Difference

CONSUMER: tuple[Difference, ...] = (
    Difference(
        "an empty target is no record",
        "Writes the target of a member that is to own nothing.",
        "Writes none where there was none.",
        "No record and an empty one are read alike.",
        "None: the records of a member that is to own nothing.",
        consumer.is_empty_target,
    ),
    Difference(
        "a target is computed when it is due",
        "Computes a target in the next heartbeat of a member, and none for a group without members.",
        "Computes it when the epoch is bumped; an empty one after the last member has left (as Kafka 4.4 does).",
        "Members that must act are answered at once (decision 19).",
        "ConsumerGroupDescribe after a member has left, before a Heartbeat of another.",
        consumer.is_overdue,
        ends=lambda case: case.kind == "answer" or consumer.is_after_target(case),
    ),
    Difference(
        "changes of topics take effect at once",
        "Notices a change of topics in a member's next heartbeat, one of an expression's up to ten seconds later.",
        "Bumps the epoch at once.",
        "No heartbeat is needed for it (decision 19).",
        "ConsumerGroupDescribe after CreatePartitions, before a Heartbeat of a member.",
        consumer.is_seen_at_once,
        ends=lambda case: case.group_id not in case.pair.nudged or bool(case.group.regex_subscribers),
    ),
    Difference(
        "an instance may rejoin a full group",
        "Refuses an instance that is in a full group already if it comes with another member id.",
        "Accepts it in its own place (as Kafka 4.4 does).",
        "The group has no more members afterwards.",
        "ConsumerGroupHeartbeat that joins as an instance of a full group under another member id.",
        consumer.is_known_instance,
        ends=True,
    ),
    Difference(
        "an evicted member of a full group learns that it was evicted",
        "Answers the heartbeat of an evicted member with GROUP_MAX_SIZE_REACHED, which ends its client.",
        "Answers UNKNOWN_MEMBER_ID: it gives up its partitions and joins, and is refused then if the group is full.",
        "It must not go on reading.",
        "ConsumerGroupHeartbeat of an evicted member whose group is full: 25 instead of 81.",
        consumer.is_evicted_from_full,
    ),
    Difference(
        "a repeated leave succeeds",
        "Answers UNKNOWN_MEMBER_ID to a sender that is not in the group.",
        "Answers as to the first leave.",
        "A repeated request is harmless (decision 18).",
        "ConsumerGroupHeartbeat with epoch -1 of a member that is not in the group: 0 instead of 25.",
        consumer.is_left_again,
    ),
    Difference(
        "a static member may repeat its join",
        "Refuses with UNRELEASED_INSTANCE_ID, which ends the client, though it is the same member id (kafka#23542).",
        "Accepts it.",
        "Its answer may have been lost (decision 18).",
        "The same ConsumerGroupHeartbeat with epoch 0 of a static member again: 0 instead of 111.",
        consumer.is_joined_again,
        ends=True,
    ),
    Difference(
        "a step that changes nothing is no record",
        "Writes the assignment of a member that waits for partitions with each heartbeat, its previous epoch with it.",
        "Writes it when something changes.",
        "A member whose response is lost still has the previous epoch (decision 18).",
        "None: the records of a member that waits for partitions.",
        consumer.is_same_step,
    ),
    Difference(
        "the record of a member that left temporarily",
        "Keeps its state, its previous epoch, and the timeout of its revocation.",
        "Writes that it is stable, and the epoch that it had: it has revoked everything, so there is no timeout.",
        "It returns with epoch 0; until then only its session counts.",
        "None: the record of a static member that left with epoch -2.",
        consumer.is_away,
    ),
    Difference(
        "a member that missed a response gets it again",
        "Fences a member with its previous epoch and without owned partitions, or reconciles it at once.",
        "Sends its epoch and assignment again, as often as requested, and accepts its subscription.",
        "A lost response costs no partition (decision 18).",
        "ConsumerGroupHeartbeat with the epoch before the member's own and without partitions: 0 instead of 110.",
        consumer.is_patient,
        ends=lambda case: case.kind == "record",
    ),
)

CLASSIC: tuple[Difference, ...] = (
    Difference(
        "a generation is stored when it forms",
        "Writes a generation once, with its assignments: until then the log holds the one before.",
        "Writes it when it forms, marked as awaiting its leader's SyncGroup, and again with its assignments.",
        "No member has a generation that is not in the log (decision 7).",
        (
            "None: the records of `__consumer_offsets` (`kafka-dump-log.sh --offsets-decoder`) after the "
            "JoinGroup that completes a round."
        ),
        lambda case: case.kind == "record" and classic.is_unsynced(case),
    ),
    Difference(
        "a generation that awaits its sync survives a failover",
        "Loads the generation before it, Stable: the members of the new one get ILLEGAL_GENERATION.",
        "Loads the generation itself, CompletingRebalance: leader and followers continue with SyncGroup.",
        "The specification's four cases of a failover during a rebalance (decision 7).",
        "SyncGroup of the leader after a restart of the broker between JoinGroup and SyncGroup.",
        lambda case: case.kind == "load" and classic.is_unsynced(case),
        ends=True,
    ),
    Difference(
        "the time stamp of a generation",
        "Stores the time at which the round was over, since the group is Stable only after the record is written.",
        "Stores the time at which it became Stable.",
        "It is read of empty groups only, for which both sides store the same.",
        "None: `currentStateTimestamp` in the record of a Stable group.",
        classic.is_later_stamp,
    ),
    Difference(
        "a repeated request answers the first one",
        "Forgets a JoinGroup or SyncGroup that waits when its member sends another.",
        "Answers the first with REBALANCE_IN_PROGRESS.",
        "A client that gave up on a request ignores both responses; a broker that forgets one leaks it.",
        (
            "A second JoinGroup (or SyncGroup) of a member on another connection while the first waits: the "
            "answer of the first."
        ),
        classic.is_superseded,
    ),
    Difference(
        "the waiting SyncGroup of a departing member is answered",
        "Forgets the SyncGroup of a member that leaves or is removed.",
        "Answers it with UNKNOWN_MEMBER_ID, as both do with a JoinGroup.",
        "Every request is answered.",
        (
            "LeaveGroup of a member, by an administrator too, whose SyncGroup waits on another connection: the "
            "answer of the SyncGroup."
        ),
        classic.is_forgotten_sync,
    ),
    Difference(
        "a full group continues without the member that it refuses",
        "Forgets the member that it refuses with GROUP_MAX_SIZE_REACHED; a round that is complete now waits on.",
        "Treats it like any departure: a round that awaited it alone is over, a running group starts one.",
        "A round without missing members must end (KAFKA-12890 and its cousins).",
        "JoinGroup of a member with `group.max.size` reached, then the waiting JoinGroup of the others.",
        classic.is_shed,
        ends=True,
    ),
    Difference(
        "a group of a refused commit",
        "Creates a group in memory for a commit of which nothing is stored, and no record when a member joins it.",
        "Creates none; the first member's group is stored.",
        "A group that was acknowledged exists after a failover.",
        "None: the records after an OffsetCommit whose metadata are all too long, and a JoinGroup.",
        classic.is_unstored_group,
        ends=True,
    ),
    Difference(
        "the address of a static member that returned",
        "Keeps client id and host of the member that was replaced.",
        "Stores those of the member that replaces it.",
        "An operator looks for the process that runs now.",
        "DescribeGroups after the JoinGroup of a static member from another host or with another client id.",
        classic.is_newcomers_address,
    ),
    Difference(
        "a static member that returns with other topics starts a round",
        "Keeps the generation if the chosen protocol stays (KAFKA-12759): no member reads its new topics.",
        "Starts a round.",
        "Every topic that a member subscribes to is read.",
        "JoinGroup of a static member with the same protocol and other topics: Heartbeat of the others.",
        classic.has_other_topics,
        ends=True,
    ),
    Difference(
        "a static member that returned has its own session timeout",
        "Uses the session timeout of the member that it replaces until its next heartbeat.",
        "Uses its own.",
        "Its heartbeat interval matches its own.",
        "JoinGroup of a static member with another session timeout, and no Heartbeat after it: DescribeGroups.",
        classic.is_newcomers_session,
    ),
    Difference(
        "a member id that was replaced owes no SyncGroup",
        "Continues to await the SyncGroup of a static member's old id, and starts a round when it does not come.",
        "Forgets the old id.",
        "Each member in the group has its assignment.",
        "JoinGroup of a static member while its group awaits SyncGroup: Heartbeat after the rebalance timeout.",
        classic.is_ghosts_sync,
    ),
    Difference(
        "ties of a vote for the protocol",
        "Takes any of the names with most votes: the order of a hash map.",
        "Takes the first in alphabetical order.",
        "One history leads to one result.",
        "JoinGroup of members that prefer different protocols, as many for each: the protocol in the answer.",
        classic.is_tied_vote,
        ends=True,
    ),
    Difference(
        "the leader after a leader that left",
        "Elects a member at once when the leader leaves, in the order of a hash map, and keeps it if it joins again.",
        "Elects the first by id of the joined members, when the generation forms.",
        "One history leads to one result, and a member that may not return is not elected.",
        "LeaveGroup of the leader: the leader in the next answers to JoinGroup.",
        classic.is_other_heir,
        ends=True,
    ),
    Difference(
        "data that a failover loses is no change",
        "Compares all protocols of a member with the record, which holds the chosen protocol alone.",
        "Compares the chosen protocol, and a subscription but for its generation.",
        "A failover should cost no round; what else the member offers is learnt from its JoinGroup.",
        "The same JoinGroup again after a restart of the broker.",
        classic.is_restored,
        ends=True,
    ),
    Difference(
        "an id that was never used may leave",
        "Starts a round when an id that was issued and not used leaves a Stable group, or one that awaits its leader.",
        "Starts none.",
        "It owned nothing, so nothing is to be assigned.",
        "LeaveGroup with an id from MEMBER_ID_REQUIRED: Heartbeat of the members.",
        classic.is_unused_id_leaving,
        ends=True,
    ),
    Difference(
        "a first round is extended by its own members only",
        "Extends the delay of a first round for a member that joined an earlier first round of the group.",
        "Extends it for members that joined since it began.",
        "Kafka's flag is not cleared when a first round ends early.",
        "JoinGroup into a group that was emptied in its first round: when the next first round ends.",
        classic.is_stale_newcomer,
        ends=True,
    ),
    Difference(
        "an offer that cannot be judged since a failover",
        "Refuses a member that does not offer the chosen protocol with INCONSISTENT_GROUP_PROTOCOL.",
        "Answers with a retriable error, and starts a round, since the log holds no other protocols of the members; "
        "those of the member that joins again, or of its instance, do not count.",
        "A client ends permanently on the refusal, in the middle of a rolling upgrade.",
        "JoinGroup with other protocols than the chosen one after a restart of the broker.",
        classic.is_unknown_offer,
        ends=True,
    ),
    Difference(
        "timers of departed members",
        "Leaves the session timer of a member that was replaced, or whose group is deleted, to fire for nothing.",
        "Disarms it.",
        "A departed member costs nothing.",
        "None: timers only.",
        classic.is_moot,
        matters=False,
    ),
    Difference(
        "a JoinGroup that is answered at once extends the session",
        "Keeps the session of the last heartbeat.",
        "Starts the session anew at the JoinGroup.",
        "A sender of a request is alive.",
        "JoinGroup of a follower with nothing new, and no Heartbeat after it: when it is evicted.",
        classic.is_sign_of_life,
    ),
    Difference(
        "the topics of a group during a round",
        "Uses the topics of the last generation.",
        "Uses the topics of the present members.",
        "A member that has just joined is about to read from what would be deleted.",
        "OffsetDelete of a topic of a member that has just joined, while the round runs.",
        classic.is_reader_in_round,
        ends=True,
    ),
    Difference(
        "the generation in a subscription is no change",
        "Compares bytes: a member that repeats its JoinGroup with the generation it has just learnt starts a round.",
        "Answers a member of a group that awaits its leader with the current generation if only that differs.",
        "KIP-792 made every member's metadata different after each generation; nothing has changed for the assignment.",
        (
            "JoinGroup of a member that repeats it, with the generation that it has just learnt, while the "
            "group awaits its leader's SyncGroup."
        ),
        classic.is_same_but_for_generation,
        ends=True,
    ),
    Difference(
        "an empty group with an issued member id is kept",
        "Deletes a group without members and offsets, though a member id was issued and not used yet.",
        "Keeps the group until the id is used or expires.",
        "The member would get UNKNOWN_MEMBER_ID for a group that it has just created.",
        "JoinGroup with an id from MEMBER_ID_REQUIRED after the interval of `offsets.retention.check.interval.ms`.",
        classic.is_awaited_group,
        ends=True,
    ),
    Difference(
        "a refused member creates no group",
        "Creates and stores a group for a first JoinGroup that it then refuses for its protocols.",
        "Creates nothing.",
        "A client's mistake leaves no group behind.",
        "ListGroups after a first JoinGroup without protocols.",
        classic.is_refused_founder,
        ends=True,
    ),
    Difference(
        "a first round is not cut short by a departure",
        "Ends the initial delay as soon as an issued id expires or a member leaves, if all others have joined.",
        "Runs the delay to its end.",
        "A departure does not show which members are still to join (KIP-134).",
        "LeaveGroup in a first round: when the others' JoinGroup is answered.",
        classic.is_cut_short,
        ends=True,
    ),
)

CONVERSIONS: tuple[Difference, ...] = (
    Difference(
        "classic members of a consumer group have phases",
        "Keeps join and sync timers in memory, set by the member's own requests.",
        "Stores the phase of each (a tagged field that Kafka skips), with a timeout from when it must join.",
        "The specification's state machine; a failover forgets no member that must join (decision 21).",
        (
            "None by default: the record of a classic member in a consumer group; when a member that must join "
            "and does not is evicted."
        ),
        conversion.is_phase,
    ),
    Difference(
        "a group in its first round is converted",
        "Fails with UNKNOWN_SERVER_ERROR, having answered the waiting joins, since there is no protocol yet.",
        "Converts it.",
        "A rolling upgrade may begin at any moment (decision 21).",
        "ConsumerGroupHeartbeat that joins a classic group within its initial delay: 0 instead of -1.",
        conversion.is_failed_conversion,
        ends=True,
    ),
    Difference(
        "a conversion in the middle of a round revokes nothing",
        "Uses the record's assignments as owned partitions, none where the round is not over.",
        "Uses the owned partitions of subscriptions, revokes what a cooperative round withheld; all members join.",
        "No member gets a partition that another still reads (decision 21).",
        "ConsumerGroupHeartbeat that joins a classic group within a round, then ConsumerGroupDescribe.",
        conversion.is_unfinished_conversion,
        ends=True,
    ),
    Difference(
        "JoinGroup waits for the member's partitions",
        "Answers a classic member of a consumer group at once with what is free.",
        "Lets it wait, at most its rebalance timeout, unless it must revoke something first.",
        "The specification; an eager member stops for one round, not for each partition (decision 21).",
        "JoinGroup of a classic member in a consumer group while partitions of its target are another's.",
        conversion.is_waiting_join,
        ends=True,
    ),
    Difference(
        "the record of a group that was converted back",
        "Stores each member's target as its assignment, some member as leader, and the epoch before the exit.",
        "Stores each member's granted partitions, no leader until the new round is over, and the epoch after the exit.",
        "A SyncGroup after a failover assigns nothing that another member still owns (decision 21).",
        "DescribeGroups after the last native member has left: assignments and leader.",
        conversion.is_downgraded,
        ends=True,
    ),
    Difference(
        "a classic member is asked to join when its assignment changes",
        "Asks it in the response to the heartbeat that finds it behind its target.",
        "Asks it when its target or a free partition changes its assignment, in each heartbeat until it has joined.",
        "The specification's PrepareRebalance (decision 21).",
        (
            "Heartbeat of a classic member of a consumer group whose target has not changed, or whose partition "
            "has become free."
        ),
        conversion.is_called,
        ends=True,
    ),
    Difference(
        "a change of assignor bumps the epoch",
        "Leaves the target as it is until something else happens (KAFKA-20434).",
        "Computes a target by the new assignor (as Kafka 4.4 does).",
        "The members' vote takes effect.",
        "ConsumerGroupHeartbeat with another `ServerAssignor`, then ConsumerGroupDescribe.",
        consumer.is_assignor_changed,
        ends=True,
    ),
    Difference(
        "a refused join leaves an empty consumer group where it is",
        "Drops the group from memory before it refuses an unknown member id, and its tombstones with the refusal.",
        "Keeps it: memory and log agree.",
        "A group is a function of its log; Kafka's then holds a classic group's record among a consumer group's.",
        "ListGroups after a JoinGroup with an unknown member id to an empty consumer group.",
        conversion.is_forgotten_group,
        ends=True,
    ),
    Difference(
        "a refused conversion changes nothing",
        "Answers waiting joins and syncs before it finds that the joining member must be refused.",
        "Answers no other member.",
        "A decision that is refused changes nothing.",
        "ConsumerGroupHeartbeat that is refused with 81 while JoinGroups of the classic group wait: their answers.",
        conversion.is_disturbed,
        ends=True,
    ),
    Difference(
        "the last native member that joins as a classic one converts its group",
        "Keeps the group, unless the member is static.",
        "Makes it a classic group.",
        "The specified downgrade does not depend on how the last native member left (decision 21).",
        "JoinGroup under the id of the only native member of a group, then ListGroups.",
        conversion.is_last_native_turning,
        ends=True,
    ),
    Difference(
        "the session of a classic member survives a failover",
        "Gives classic members of a consumer group the group's session timeout when it loads.",
        "Uses each member's own.",
        "Its heartbeat interval matches its own.",
        "No request of a classic member of a consumer group after a restart of the broker: when it is evicted.",
        conversion.is_own_session,
    ),
    Difference(
        "a joining member sends its full state",
        "Treats fields that a rejoining member leaves out as unchanged.",
        "Treats them as absent.",
        "The process that joins does not know what an earlier one sent under its id.",
        (
            "ConsumerGroupHeartbeat with epoch 0 and without rack or assignor of a member that had one: "
            "ConsumerGroupDescribe."
        ),
        conversion.is_joiner,
        ends=True,
    ),
    Difference(
        "an evicted member's id is not accepted as new",
        "Takes an unknown id that claims a generation or partitions for a new classic member.",
        "Answers UNKNOWN_MEMBER_ID, on which it gives up what it still holds.",
        "Its claim belongs to another member by now (decision 21).",
        "JoinGroup to a consumer group with an unknown member id and owned partitions: 25 instead of 0.",
        conversion.is_from_the_past,
        ends=True,
    ),
    Difference(
        "a member that a conversion has overtaken joins again",
        "Answers a classic member with an epoch from before the conversion with ILLEGAL_GENERATION.",
        "Answers REBALANCE_IN_PROGRESS, and takes its commit while the round of the conversion runs.",
        "On ILLEGAL_GENERATION a client gives up all its partitions as lost (decision 21).",
        (
            "Heartbeat or OffsetCommit of a classic member with the generation of before a conversion: 27 (or "
            "0) instead of 22."
        ),
        conversion.is_overtaken,
    ),
    Difference(
        "ties of a vote for the assignor",
        "Takes any of the assignors with most votes: the order of a hash map.",
        "Takes the one that is configured first.",
        "One history leads to one result.",
        "ConsumerGroupHeartbeat of members that name different assignors, as many for each: ConsumerGroupDescribe.",
        consumer.is_tied_assignor,
        ends=True,
    ),
    Difference(
        "SyncGroup takes any protocol that the member offers",
        "Takes the member's first protocol only, with INCONSISTENT_GROUP_PROTOCOL for any other.",
        "Takes any of them.",
        "After a conversion a member still sends the protocol of the classic group (decision 21).",
        "SyncGroup of a classic member in a consumer group with another protocol than its first: 0 instead of 23.",
        conversion.is_other_protocol,
        ends=True,
    ),
)

PARTS = {
    "Classic groups": CLASSIC,
    "Consumer groups": CONSUMER,
    "Classic members of consumer groups, and conversions": CONVERSIONS,
}

TABLE: tuple[Difference, ...] = (*CLASSIC, *CONSUMER, *CONVERSIONS)
