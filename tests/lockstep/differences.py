"""Every difference between Kafka's coordinator and ours that is meant, and the rule that permits exactly it.

A rule sees one `Case`: an answer, a record or a wait in which the two sides differ. Whatever no rule permits is a
failure. A difference that `ends` the group's comparison leaves the two sides in different states: the group is left
alone from there on, and its clients go on in a fresh one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Join, Leave, Protocols
from kohort.group.consumer.commands import LEAVE_STATIC_EPOCH, ConsumerHeartbeat
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.effects import parked_join, parked_sync
from kohort.group.timers import target_timer
from kohort.log.consumer_records import GROUP, REGEX, TARGET, part_key
from kohort.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.lockstep.pair import Pair


class Glance(NamedTuple):
    """What one of our groups was like before a step."""

    phase: str
    generation: int
    is_initial: bool
    has_newcomers: bool
    pending: frozenset[str]
    protocols: dict[str, Protocols]
    leader: str | None
    restored: frozenset[str]
    static: dict[str, Protocols]
    """What each static member offered, by instance."""
    natives: int

    @staticmethod
    def of(group: ClassicGroup | ConsumerGroup) -> Glance:
        """Look at a group."""
        if isinstance(group, ConsumerGroup):
            return Glance(group.state, group.epoch, False, False, frozenset(), {}, None, frozenset(), {}, group.natives)
        return Glance(
            group.phase,
            group.generation,
            group.is_initial and group.is_gathering,
            group.has_newcomers,
            frozenset(group.pending),
            {member_id: member.protocols for member_id, member in group.members.items()},
            group.leader,
            frozenset(member_id for member_id, member in group.members.items() if member.is_restored),
            {instance_id: group.members[member_id].protocols for instance_id, member_id in group.static_members.items()},
            0,
        )


_NOBODY = Glance("", -1, False, False, frozenset(), {}, None, frozenset(), {}, 0)


class Case(NamedTuple):
    """One thing in which the sides differ: `theirs` and `ours` are None where there is nothing.

    `kind` is `answer`, `record` (its value after the step), `timer` (its deadline after the step), `due` (a timer that is
    set to different times fires on one side) or `load` (a record of two logs that are taken up).
    """

    kind: str
    what: str
    """The operation, or the type of the record."""
    group_id: str
    theirs: Any
    ours: Any
    command: Any
    """Whose answer it is, or what was decided last; None where time passed."""
    pair: Pair
    name: str = ""
    """Of a timer, as Kafka names it."""

    @property
    def member_id(self) -> str:
        """Whose timer it is."""
        return self.name.split(f"{self.group_id}-", 1)[-1]

    @property
    def group(self) -> Any:
        """Our group as it is now."""
        return self.pair.ours.shard.groups.get(self.group_id)

    @property
    def before(self) -> Glance:
        """What our group was like before the step."""
        return self.pair.glances.get(self.group_id, _NOBODY)

    def fields(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of two records, none where there is no record."""
        if self.kind not in ("record", "load") or self.what == "Offset":
            return {}, {}
        return dict(self.theirs[1:] if self.theirs else ()), dict(self.ours[1:] if self.ours else ())


@dataclass(frozen=True)
class Difference:
    """One row of the table."""

    name: str
    kafka: str
    ours: str
    reason: str
    rule: Callable[[Case], bool]
    ends: bool | Callable[[Case], bool] = False

    def is_end(self, case: Case) -> bool:
        """Whether the two sides go on in different states after a case."""
        return self.ends if isinstance(self.ends, bool) else self.ends(case)


def _same_but(case: Case, *names: str) -> bool:
    """Whether two records of one type differ in these fields alone."""
    if not case.theirs or not case.ours or case.theirs[0] != case.ours[0]:
        return False
    theirs, ours = case.fields()
    return all(theirs[name] == ours[name] for name in theirs if name not in names)


# -- classic groups


def _is_answer(case: Case, *ops: str) -> bool:
    return case.kind == "answer" and case.what in ops


def _is_unsynced(case: Case) -> bool:
    theirs, ours = case.fields()
    return (
        case.what == "Group"
        and bool(ours)
        and not ours["is_synced"]
        and (not theirs or theirs["generation"] < ours["generation"])
    )


def _is_superseded(case: Case) -> bool:
    if not _is_answer(case, "join", "sync") or case.theirs is not None:
        return False
    member_id = case.ours[1] if case.what == "join" else case.command.member_id
    place = (parked_join if case.what == "join" else parked_sync)(case.group_id, member_id)
    return case.ours[0] == ErrorCode.REBALANCE_IN_PROGRESS and place in case.pair.ours.parked


def _is_later_stamp(case: Case) -> bool:
    theirs, ours = case.fields()
    return (
        case.what == "Group"
        and _same_but(case, "state_timestamp_ms")
        and bool(ours["members"])
    )


def _is_tied_vote(case: Case) -> bool:
    if not _is_answer(case, "join") or not _is_joined(case.theirs) or not _is_joined(case.ours):
        return False
    votes = Counter(_choices(case.group))
    theirs, ours = case.theirs[4], case.ours[4]
    return theirs != ours and votes[theirs] == votes[ours] == max(votes.values()) and ours < theirs


def _choices(group: ClassicGroup) -> list[str]:
    offers = [[name for name, _ in member.protocols] for member in group.members.values()]
    common = {name for name in offers[0] if all(name in offer for offer in offers)}
    return [next(name for name in offer if name in common) for offer in offers]


def _is_same_but_for_generation(case: Case) -> bool:
    if not _is_answer(case, "join") or case.before.phase != Phase.COMPLETING_REBALANCE:
        return False
    if not _is_joined(case.ours) or (case.theirs is not None and case.theirs[2] != case.ours[2] + 1):
        return False
    known, offered = case.before.protocols.get(case.command.member_id), case.command.protocols
    read = case.pair.ours.settings.offer_of
    return (
        known is not None
        and known != offered
        and [(name, read(metadata)) for name, metadata in known] == [(name, read(metadata)) for name, metadata in offered]
    )


def _is_joined(answer: Any) -> bool:
    return answer is not None and len(answer) == 8


def _is_other_heir(case: Case) -> bool:
    if not _is_answer(case, "join") or not _is_joined(case.theirs) or not _is_joined(case.ours):
        return False
    theirs, ours = case.theirs[5], case.ours[5]
    return case.before.leader is None and theirs != ours and {theirs, ours} <= case.group.members.keys()


def _is_restored(case: Case) -> bool:
    return (
        _is_answer(case, "join")
        and case.before.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE)
        and case.command.member_id in case.before.restored
        and _is_joined(case.ours)
        and (case.theirs is None or case.theirs[2] == case.ours[2] + 1)
    )


def _is_sign_of_life(case: Case) -> bool:
    return case.kind == "due" or (
        case.kind == "timer"
        and case.what == "heartbeat"
        and isinstance(case.command, Join)
        and case.command.member_id == case.member_id
        and case.theirs is not None
        and case.ours is not None
        and case.theirs < case.ours
    )


def _is_unused_id_leaving(case: Case) -> bool:
    return (
        isinstance(case.command, Leave)
        and case.before.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE)
        and any(leaving.member_id in case.before.pending for leaving in case.command.members)
        and case.group.phase == case.before.phase
    )


def _is_stale_newcomer(case: Case) -> bool:
    return (
        case.command is None
        and case.before.is_initial
        and not case.before.has_newcomers
        and case.pair.theirs.timers.get(f"join-{case.group_id}", 0) > case.pair.now_ms
    )


def _is_unknown_offer(case: Case) -> bool:
    return (
        _is_answer(case, "join")
        and case.theirs is not None
        and case.ours is not None
        and (case.theirs[0], case.ours[0])
        == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        and bool(case.before.restored)
    )


def _is_forgotten_sync(case: Case) -> bool:
    member_id = getattr(case.command, "member_id", None)
    return (
        _is_answer(case, "sync")
        and case.theirs is None
        and case.ours == (ErrorCode.UNKNOWN_MEMBER_ID,)
        and member_id not in getattr(case.group, "members", ())
    )


def _is_unstored_group(case: Case) -> bool:
    _, ours = case.fields()
    return (_is_answer(case, "delete-group") and (case.theirs, case.ours) == ((0,), (69,))) or (
        case.kind == "record"
        and case.what == "Group"
        and case.theirs is None
        and isinstance(case.command, Join)
        and ours["generation"] == 0
        and case.group_id not in case.pair.ours.shard.offsets
    )


def _is_newcomers_address(case: Case) -> bool:
    if case.what != "Group" or not _same_but(case, "state_timestamp_ms", "members"):
        return False
    theirs, ours = case.fields()
    pairs = list(zip(theirs["members"], ours["members"], strict=False))
    return len(theirs["members"]) == len(ours["members"]) and all(
        their == our or (our.instance_id is not None and their == our._replace(client_id=their.client_id, client_host=their.client_host))
        for their, our in pairs
    )


def _has_other_topics(case: Case) -> bool:
    command = case.pair.command
    if case.before.phase != Phase.STABLE or not isinstance(command, Join) or command.instance_id is None:
        return False
    old = case.before.static.get(command.instance_id)
    if command.member_id or old is None:
        return False
    read = case.pair.ours.settings.topics_of
    return case.group.phase is not Phase.STABLE and read(old[0][1]) != read(command.protocols[0][1])


def _is_shed(case: Case) -> bool:
    group = case.group
    if not isinstance(case.pair.command, Join):
        return False
    command = case.pair.command
    was_in = command.member_id in case.before.protocols or command.member_id in case.before.pending
    return (
        was_in
        and isinstance(group, ClassicGroup)
        and command.member_id not in {*group.members, *group.pending}
        and case.pair.ours.settings.max_size < 2**31 - 1
    )


def _is_moot(case: Case) -> bool:
    if case.kind != "timer" or case.ours is not None:
        return False
    member = getattr(case.group, "members", {}).get(case.member_id)
    match case.what:
        case "heartbeat":
            is_pending = isinstance(case.group, ClassicGroup) and case.member_id in case.group.pending
            return not isinstance(case.group, ClassicGroup) or (member is None and not is_pending)
        case "session-timeout":
            return member is None
        case "rebalance-timeout":
            return member is None or member.epoch == LEAVE_STATIC_EPOCH
        case _:
            return False


def _is_reader_in_round(case: Case) -> bool:
    return _is_answer(case, "delete-offsets") and case.before.phase == Phase.PREPARING_REBALANCE


def _is_awaited_group(case: Case) -> bool:
    return (
        case.kind == "record"
        and case.what == "Group"
        and case.theirs is None
        and case.command == ("expire",)
        and bool(case.group.pending)
        and case.group.phase is Phase.EMPTY
    )


def _is_refused_founder(case: Case) -> bool:
    theirs, _ = case.fields()
    return (
        case.kind == "record"
        and case.what == "Group"
        and case.ours is None
        and isinstance(case.command, Join)
        and not case.command.protocol_type
        and theirs["generation"] == 0
        and case.group is None
    )


def _is_cut_short(case: Case) -> bool:
    """Kafka completes a first round as soon as somebody goes and everybody else is there."""
    return (
        case.before.is_initial
        and isinstance(case.group, ClassicGroup)
        and case.group.is_initial
        and case.group.is_complete
        and (case.theirs is not None and case.ours is None)
        and (case.kind == "record" or _is_answer(case, "join"))
        and (case.command is None or isinstance(case.command, Leave | Join))
    )


# -- consumer groups


def _is_empty_target(case: Case) -> bool:
    targets = [fields.get("target", ()) for fields in case.fields()]
    return case.what == "MemberTarget" and targets == [(), ()]


def _is_overdue(case: Case) -> bool:
    """Kafka has yet to compute the target that ours has computed; after a failover with its log ours has, for a moment."""
    if case.kind == "answer" or case.what not in ("Target", "MemberTarget"):
        return False
    if case.what == "Target" and _same_but(case, "timestamp_ms"):
        return True
    epochs = [case.pair.said(side, GROUP, case.group_id).get("epoch", 1) for side in (0, 1)]
    targets = [case.pair.said(side, TARGET, case.group_id).get("epoch", 1) for side in (0, 1)]
    is_behind = [target < max(epochs) for target in targets]
    is_late = isinstance(case.group, ConsumerGroup) and (
        not case.group.members or target_timer(case.group_id) in case.pair.ours.timers
    )
    return is_behind == [True, False] or (is_behind[1] and is_late)


def _is_same_step(case: Case) -> bool:
    if case.what != "Assignment" or not _same_but(case, "previous_epoch"):
        return False
    theirs, ours = case.fields()
    if case.group.regexes:
        return True
    if case.pair.is_swapped and ours["previous_epoch"] == ours["epoch"] > theirs["previous_epoch"]:
        return True
    return bool(theirs["previous_epoch"] == theirs["epoch"] > ours["previous_epoch"])


def _is_away(case: Case) -> bool:
    if case.what != "Assignment" or not _same_but(case, "previous_epoch", "state"):
        return False
    return bool(case.fields()[0]["epoch"] == LEAVE_STATIC_EPOCH)


def _is_patient(case: Case) -> bool:
    """Ours tells a member again what it missed, where Kafka fences it."""
    command = case.command
    if not isinstance(command, ConsumerHeartbeat):
        return False
    member = getattr(case.group, "members", {}).get(command.member_id)
    is_behind = member is not None and 0 < command.member_epoch == member.previous_epoch < member.epoch
    if case.kind == "timer":
        return is_behind and case.what == "session-timeout" and case.member_id == command.member_id
    if case.kind == "record":
        theirs, ours = case.fields()
        return is_behind and case.what == "Assignment" and ours["epoch"] == member.epoch
    return _is_answer(case, "consumer") and is_behind and case.ours[0] == ErrorCode.NONE


def _is_seen_at_once(case: Case) -> bool:
    theirs, ours = case.fields()
    command = case.pair.command
    is_topics = isinstance(command, tuple) and command[0] == "topics"
    is_awaited = is_topics or case.group_id in case.pair.nudged
    return (
        is_awaited and case.kind == "record" and case.what == "ConsumerGroup" and theirs.get("epoch", 1) + 1 == ours["epoch"]
    )


def _is_resolving(case: Case) -> bool:
    """Kafka resolves an expression in the background, and some heartbeat later; ours with the heartbeat that brings it."""
    group, command = case.group, case.pair.command
    if not isinstance(group, ConsumerGroup) or not group.regex_subscribers:
        return False
    if case.what == "Regex" and case.theirs and case.ours:
        return _same_but(case, "version", "timestamp_ms")
    is_missing = any(
        part_key(REGEX, case.group_id, regex) not in case.pair.state[0] for regex in group.regex_subscribers if regex
    )
    is_running = bool(case.pair.theirs.tasks) or command == ("tasks",) or case.group_id in case.pair.nudged
    return is_missing or is_running


def _is_unresolved(case: Case) -> bool:
    is_waiting = bool(case.pair.theirs.tasks) or case.group_id in case.pair.nudged
    return not is_waiting and not (case.what == "Regex" and bool(case.theirs) and bool(case.ours))


def _is_told_later(case: Case) -> bool:
    if not _is_answer(case, "consumer") or len(case.theirs or ()) != 5:
        return False
    member = getattr(case.group, "members", {}).get(case.command.member_id)
    return (
        member is not None
        and bool(case.group.regex_subscribers)
        and (
            (case.ours[0] == ErrorCode.FENCED_MEMBER_EPOCH and case.command.member_epoch == member.epoch - 1)
            or (
                case.theirs[:4] == case.ours[:4]
                and case.ours[4] is None
                and case.theirs[4] == ids_of(member.assigned)
            )
        )
    )


def _is_evicted_from_full(case: Case) -> bool:
    return (
        _is_answer(case, "consumer")
        and case.command.member_epoch > 0
        and (case.theirs, case.ours) == ((ErrorCode.GROUP_MAX_SIZE_REACHED,), (ErrorCode.UNKNOWN_MEMBER_ID,))
    )


def _is_known_instance(case: Case) -> bool:
    command = case.pair.command
    return (
        case.kind == "answer"
        and isinstance(command, ConsumerHeartbeat | Join)
        and command.instance_id is not None
        and case.theirs is not None
        and case.theirs[0] == ErrorCode.GROUP_MAX_SIZE_REACHED
        and case.ours is not None
        and case.ours[0] != ErrorCode.GROUP_MAX_SIZE_REACHED
    )


def _is_left_again(case: Case) -> bool:
    return (
        _is_answer(case, "consumer")
        and case.command.member_epoch < 0
        and case.theirs == (ErrorCode.UNKNOWN_MEMBER_ID,)
        and case.ours[0] == ErrorCode.NONE
        and case.command.member_id not in getattr(case.group, "members", ())
    )


def _is_joined_again(case: Case) -> bool:
    return (
        _is_answer(case, "consumer")
        and case.command.member_epoch == 0
        and case.theirs == (ErrorCode.UNRELEASED_INSTANCE_ID,)
        and case.ours[0] == ErrorCode.NONE
        and case.group.static_members.get(case.command.instance_id) == case.command.member_id
    )


TABLE: tuple[Difference, ...] = (
    Difference(
        "an empty target is no record",
        "Writes the target of a member that is to own nothing.",
        "Writes none where there was none.",
        "No record and an empty one are read alike.",
        _is_empty_target,
    ),
    Difference(
        "a target is computed when it is due",
        "Computes a target in the next heartbeat of a member, and none for a group that nobody is left in.",
        "Computes it when the epoch goes on; the last member leaves an empty one of that epoch (as Kafka 4.4 does).",
        "Members that must act hear of it at once (decision 19).",
        _is_overdue,
    ),
    Difference(
        "topics are looked at when they change",
        "Notices a change of topics in the next heartbeat of a member, and one of an expression's up to ten seconds later.",
        "Takes the epoch on at once.",
        "Nobody's heartbeat is needed for it (decision 19).",
        _is_seen_at_once,
        ends=lambda case: case.group_id not in case.pair.nudged or bool(case.group.regex_subscribers),
    ),
    Difference(
        "expressions are resolved with the heartbeat that brings them",
        "Resolves a new expression in the background, ten seconds apart at least, and assigns in a heartbeat after that.",
        "Resolves it at once, and answers with its topics' partitions.",
        "A member need not wait for its second heartbeat (decision 19).",
        _is_resolving,
        ends=_is_unresolved,
    ),
    Difference(
        "what an expression brought is told once",
        "Tells the assignment in the heartbeat after the resolution.",
        "Has told it with the answer to the heartbeat that brought the expression.",
        "It follows from the one before, and so does that the epoch before the first is one that only Kafka gave.",
        _is_told_later,
        ends=lambda case: case.ours[0] != ErrorCode.NONE,
    ),
    Difference(
        "a full group lets an instance come back",
        "Refuses an instance that is in a full group already if it comes with another member id.",
        "Lets it take its own place (as Kafka 4.4 does).",
        "Nobody more is in the group afterwards.",
        _is_known_instance,
        ends=True,
    ),
    Difference(
        "whoever is out of a full group hears that it is out",
        "Answers the heartbeat of an evicted member with GROUP_MAX_SIZE_REACHED, which ends its client.",
        "Answers UNKNOWN_MEMBER_ID: it gives up what it has and joins, and is refused then if there is no room.",
        "It must not go on reading.",
        _is_evicted_from_full,
    ),
    Difference(
        "to leave twice is to leave once",
        "Tells who leaves and is not in the group UNKNOWN_MEMBER_ID.",
        "Tells it that it has left.",
        "A repeated request is harmless (decision 18).",
        _is_left_again,
    ),
    Difference(
        "a static member may repeat its join",
        "Refuses with UNRELEASED_INSTANCE_ID, which ends the client, though it is the same member id (kafka#23542).",
        "Lets it in again.",
        "Its answer may have been lost (decision 18).",
        _is_joined_again,
        ends=True,
    ),
    Difference(
        "a step that changes nothing is no record",
        "Writes the assignment of a member that waits for partitions with each heartbeat, its previous epoch with it.",
        "Writes it when something changes.",
        "A member whose answer is lost still has the epoch before (decision 18).",
        _is_same_step,
    ),
    Difference(
        "what is written of a member that is away",
        "Leaves the state and the previous epoch of a static member that leaves for a while (-2) as they were.",
        "Writes that it is stable, and the epoch that it had.",
        "Neither is read again: whoever comes back begins at epoch 0.",
        _is_away,
    ),
    Difference(
        "whoever missed an answer is told again",
        "Fences a member that shows the epoch before its own without saying what it owns, or lets it take its next step.",
        "Tells it its epoch and assignment again, as often as it asks; nothing changes.",
        "A lost answer costs no partition (decision 18).",
        _is_patient,
        ends=lambda case: case.kind == "record",
    ),
    Difference(
        "a generation is stored when it forms",
        "Writes a generation once, with its assignments: until then the log knows the one before.",
        "Writes it when it forms, marked as awaiting its leader's SyncGroup, and again with its assignments.",
        "No member ever speaks of a generation that the log does not know (decision 7).",
        lambda case: case.kind == "record" and _is_unsynced(case),
    ),
    Difference(
        "a generation that awaits its sync survives a failover",
        "Loads the generation before it, Stable: the members of the new one are told ILLEGAL_GENERATION.",
        "Loads the generation itself, CompletingRebalance: leader and followers go on with SyncGroup.",
        "The specification's four cases of a failover during a rebalance (decision 7).",
        lambda case: case.kind == "load" and _is_unsynced(case),
        ends=True,
    ),
    Difference(
        "when a generation became what it is",
        "Stores the time at which the round was over, since the group is Stable only after the record is written.",
        "Stores the time at which it became Stable.",
        "It is read of empty groups only, for which both sides store the same.",
        _is_later_stamp,
    ),
    Difference(
        "whoever asks again answers its first request",
        "Forgets a JoinGroup or SyncGroup that waits when its member sends another.",
        "Answers the first with REBALANCE_IN_PROGRESS.",
        "A client that gave up on a request hears nothing of either; a broker that forgets one leaks it.",
        _is_superseded,
    ),
    Difference(
        "who goes while its SyncGroup waits is answered",
        "Forgets the SyncGroup of a member that leaves or is removed.",
        "Answers it with UNKNOWN_MEMBER_ID, as both do with a JoinGroup.",
        "Every request is answered.",
        _is_forgotten_sync,
    ),
    Difference(
        "a full group goes on without whom it sheds",
        "Forgets the member that is refused with GROUP_MAX_SIZE_REACHED, and waits on for a round that is complete now.",
        "Treats it like any departure: a round that awaited it alone is over, a running group starts one.",
        "A round that nobody is missing from must end (KAFKA-12890 and its cousins).",
        _is_shed,
        ends=True,
    ),
    Difference(
        "a group that a refused commit made",
        "Makes a group in memory for a commit of which nothing is stored, and no record when a member comes to it.",
        "Makes none; the first member's group is stored.",
        "What is answered as created is there after a failover.",
        _is_unstored_group,
        ends=True,
    ),
    Difference(
        "the address of a static member that came back",
        "Keeps client id and host of the member that was replaced.",
        "Stores those of the member that replaces it.",
        "An operator looks for the process that runs now.",
        _is_newcomers_address,
    ),
    Difference(
        "a static member that comes back with other topics starts a round",
        "Keeps the generation if the chosen protocol stays (KAFKA-12759): nobody reads its new topics.",
        "Starts a round.",
        "Every topic that a member subscribes to is read (decision in the essay of classic/machine).",
        _has_other_topics,
        ends=True,
    ),
    Difference(
        "ties of a vote for the protocol",
        "Takes any of the names with most votes: the order of a hash map.",
        "Takes the first in alphabetical order.",
        "One history leads to one result.",
        _is_tied_vote,
        ends=True,
    ),
    Difference(
        "who leads after a leader that went",
        "Names a member at once when the leader goes, in the order of a hash map, and keeps it if it joins again.",
        "Names the first by id of those who have joined, when the generation forms.",
        "One history leads to one result, and nobody leads who may not come back.",
        _is_other_heir,
        ends=True,
    ),
    Difference(
        "what a failover makes the coordinator forget is no change",
        "Compares all that a member offers with what the record holds: the chosen protocol alone, so any rejoin differs.",
        "Compares the chosen protocol, and a subscription but for its generation.",
        "A failover should cost no round; what else the member offers is learnt from its JoinGroup.",
        _is_restored,
        ends=True,
    ),
    Difference(
        "an id that was never used may leave",
        "Starts a round when an id that was issued and not used leaves a Stable group, or one that awaits its leader.",
        "Starts none.",
        "It owned nothing, so nothing is to be dealt.",
        _is_unused_id_leaving,
        ends=True,
    ),
    Difference(
        "a first round is extended by its own newcomers",
        "Extends the delay of a first round for a member that came to an earlier first round of the group.",
        "Extends it for those who came since it began.",
        "Kafka's flag is not cleared when a first round ends early.",
        _is_stale_newcomer,
        ends=True,
    ),
    Difference(
        "an offer that cannot be judged since a failover",
        "Refuses a member that does not offer the chosen protocol with INCONSISTENT_GROUP_PROTOCOL.",
        "Tells it to try again, and starts a round, since the log holds no other offers of the members.",
        "A client ends for good on the refusal, in the middle of a rolling upgrade.",
        _is_unknown_offer,
        ends=True,
    ),
    Difference(
        "timers of those who are gone",
        "Leaves the session timer of a member that was replaced, or whose group is deleted, to fire for nothing.",
        "Disarms it.",
        "What is gone costs nothing.",
        _is_moot,
    ),
    Difference(
        "a JoinGroup that is answered at once is a sign of life",
        "Lets the session run on from the last heartbeat.",
        "Counts the session from the JoinGroup.",
        "Who sends a request lives.",
        _is_sign_of_life,
        ends=lambda case: case.kind == "due",
    ),
    Difference(
        "what a group reads while it gathers",
        "Takes the topics of the last generation for subscribed.",
        "Takes the topics of those who are members now.",
        "A member that has just joined is about to read from what would be deleted.",
        _is_reader_in_round,
        ends=True,
    ),
    Difference(
        "the generation in a subscription is no change",
        "Compares bytes: a member that repeats its JoinGroup with the generation it has just learnt starts a round.",
        "Tells a member of a group that awaits its leader the current generation if only that differs.",
        "KIP-792 made every member's metadata different after each generation; nothing has changed for the assignment.",
        _is_same_but_for_generation,
        ends=True,
    ),
    Difference(
        "an empty group with somebody on the way is kept",
        "Deletes a group without members and offsets, though a member id was issued and not used yet.",
        "Keeps the group until the id is used or expires.",
        "The member would be told UNKNOWN_MEMBER_ID for a group that it has just founded.",
        _is_awaited_group,
        ends=True,
    ),
    Difference(
        "who is refused founds no group",
        "Creates and stores a group for a first JoinGroup that it then refuses for its protocols.",
        "Creates nothing.",
        "A mistaken client leaves nothing behind.",
        _is_refused_founder,
        ends=True,
    ),
    Difference(
        "a first round is not cut short by a departure",
        "Ends the initial delay as soon as an issued id expires or a member goes, if everybody else has joined.",
        "Runs the delay to its end.",
        "Who goes says nothing about who is still to come (KIP-134).",
        _is_cut_short,
        ends=True,
    ),
)
