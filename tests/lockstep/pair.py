"""Both coordinators side by side: every step goes to both, and what they answer and write is compared after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kohort.group.commands import ExpireOffsets, ForgetTopic
from kohort.group.offset_rules import fetch_error
from kohort.group.offsets import fetch_offset
from kohort.group.settings import GroupSettings
from kohort.log.record_parts import read_text
from kohort.model.ids import topic_id_text
from tests.lockstep import apache, ours
from tests.lockstep.differences import TABLE, Case, Difference, Glance
from tests.lockstep.records import Records, Stored, Value, event_of, value_of
from tests.lockstep.requests import Answer, Asked, our_answer, their_answer

THEIRS, OURS = 0, 1
_TYPES = {0: "Offset", 1: "Offset", 2: "Group", 3: "ConsumerGroup", 5: "Member", 6: "Target", 7: "MemberTarget", 8: "Assignment", 16: "Regex"}


class Mismatch(AssertionError):
    """The sides differ, and no listed difference says so."""

    def __init__(self, case: Case) -> None:
        self.case = case
        super().__init__(
            f"{case.kind} {case.what} of {case.group_id}\n  theirs {case.theirs}\n  ours   {case.ours}\n"
            f"  after  {case.command}"
        )


class Pair:
    """Kafka's shard and ours."""

    def __init__(self, theirs: apache.Apache, settings: GroupSettings, topics: ours.Topics, now_ms: int, seed: int, config: dict[str, str]) -> None:
        self.theirs = theirs
        self.ours = ours.Ours(settings, now_ms)
        self.topics = topics
        self.now_ms = now_ms
        theirs.open(now_ms, seed, config)
        self.logs: tuple[Records, Records] = ([], [])
        self.state: tuple[dict[bytes, Value], dict[bytes, Value]] = ({}, {})
        """What the records of each side say now, by key."""
        self.uneven: set[bytes] = set()
        """Keys of which a listed difference says that they differ for now."""
        self.asked: dict[int, Asked] = {}
        """Requests that have not been answered on both sides."""
        self.half: dict[int, tuple[int, Answer]] = {}
        """Answers of one side that the other owes."""
        self.left: set[str] = set()
        """Groups that are compared no more."""
        self.met: Counter[str] = Counter()
        self.glances: dict[str, Glance] = {}
        self._command: Any = None
        self._tickets = 0

    # -- steps

    def ask(self, asked: Asked) -> tuple[int, dict[int, tuple[Answer | None, Answer | None]]]:
        """Send a request to both sides; return its ticket and all answers that came of it, by ticket."""
        self._tickets += 1
        ticket = self._tickets
        self.asked[ticket] = asked
        their = self.theirs.ask(
            op=asked.op,
            ticket=ticket,
            group=asked.group_id,
            version=asked.version,
            client=asked.client_id,
            makes_id=asked.makes_id,
            request=asked.theirs,
        )
        self._command = asked.ours(their.made or f"{asked.client_id}-made-by-us-{ticket}")
        self._look()
        our = self.ours.submit(self._command, ticket)
        return ticket, self._compare(their, our)

    def advance(self, by_ms: int) -> Iterable[dict[int, tuple[Answer | None, Answer | None]]]:
        """Let time pass on both sides, from timer to timer; yield the answers that came of each."""
        end_ms = self.now_ms + by_ms
        while self.now_ms < end_ms:
            due = [at for at in (self.theirs.next_ms, self.ours.next_ms) if at is not None]
            at = max(min([end_ms, *due]), self.now_ms)
            if at == end_ms and not any(each <= at for each in due):
                self.now_ms = self.ours.now_ms = end_ms
                self.theirs.advance(end_ms)
                return
            self.now_ms = at
            self._command = None
            self._look()
            yield self._compare(self.theirs.advance(at), self.ours.advance(at))

    def change_topics(self, changed: dict[str, tuple[bytes, int]], deleted: list[str]) -> Any:
        """Create, grow and delete topics."""
        gone = [(name, self.topics.by_name.pop(name).topic_id) for name in deleted]
        for name, (topic_id, count) in changed.items():
            self.topics.put(name, topic_id, count)
        their = self.theirs.ask(
            op="topics",
            deleted=[[name, topic_id_text(topic_id)] for name, topic_id in gone],
            changed=[[name, topic_id_text(topic_id), count] for name, (topic_id, count) in changed.items()],
        )
        forgotten = [ForgetTopic(group_id, name) for name, _ in gone for group_id in sorted(self.ours.shard.offsets)]
        self._command = ("topics", changed, deleted)
        self._look()
        return self._compare(their, self.ours.topics_change([*deleted, *changed], forgotten))

    def expire(self) -> Any:
        """Look for offsets and groups that nobody needs any more."""
        their = self.theirs.ask(op="expire")
        self._look()
        answers, records = {}, []
        for group_id in sorted(self.ours.shard.groups):
            outcome = self.ours.submit(ExpireOffsets(group_id))
            answers.update(outcome.answers)
            records += outcome.records
        self._command = ("expire",)
        return self._compare(their, ours.Outcome(answers, records))

    def fetch(self, group_id: str, member_id: str | None, epochs: list[int], partitions: list[tuple[str, bytes, int]]) -> None:
        """Read offsets of both sides."""
        request = {"groupId": group_id, "memberId": member_id, "epoch": epochs[0],
                   "partitions": [[name, topic_id_text(topic_id), index] for name, topic_id, index in partitions]}
        their = self.theirs.ask(op="fetch", ticket=0, group=group_id, version=9, request=request)
        asked = Asked("fetch", group_id, 9, "", request, lambda _: None)
        shard = self.ours.shard
        error = fetch_error(shard.groups.get(group_id), member_id, epochs[1])
        found = []
        for name, topic_id, index in partitions:
            committed = fetch_offset(shard, group_id, name, index, topic_id)
            found.append((name, index, *((committed.offset, committed.leader_epoch, committed.metadata) if committed else (-1, -1, ""))))
        answer = (int(error),) if error else (0, tuple(sorted(found)))
        theirs = their_answer(asked, their.answers[0])
        if error and theirs[0] == int(error):
            return
        self._command = ("fetch", request)
        if theirs != answer:
            self._judge(Case("answer", "fetch", group_id, theirs, answer, self._command, self))

    # -- failover

    def load(self, *, swapped: bool) -> Any:
        """Lose both coordinators, and take up each log on its own side or on the other one."""
        logs = (self.logs[1], self.logs[0]) if swapped else self.logs
        self._command = ("load", swapped)
        self._look()
        for key in sorted(self.uneven):
            group_id, _ = read_text(key, 2)
            if group_id not in self.left:
                their, our = self.state[THEIRS].get(key), self.state[OURS].get(key)
                self._judge(Case("load", _TYPES[key[1]], group_id, their, our, self._command, self))
        their = self.theirs.load(logs[THEIRS])
        our = self.ours.load(logs[OURS])
        if swapped:
            self.logs = (list(logs[THEIRS]), list(logs[OURS]))
            self.state = (self.state[1], self.state[0])
        self.asked.clear()
        self.half.clear()
        return self._compare(apache.Outcome({}, their.records, None), our)

    # -- comparing

    def _look(self) -> None:
        """Remember what our groups are like before a step."""
        groups = self.ours.shard.groups
        self.glances = {group_id: Glance.of(groups[group_id]) for group_id in groups if group_id not in self.left}

    def _compare(self, their: apache.Outcome, our: ours.Outcome) -> dict[int, tuple[Answer | None, Answer | None]]:
        self._compare_records(their.records, our.records)
        found: dict[int, list[Answer | None]] = {}
        for side, answers in ((THEIRS, their.answers), (OURS, our.answers)):
            for ticket, said in answers.items():
                asked = self.asked[ticket]
                answer = their_answer(asked, said) if side == THEIRS else our_answer(asked, said)  # type: ignore[arg-type]
                found.setdefault(ticket, [None, None])[side] = answer
        for ticket, both in sorted(found.items()):
            asked = self.asked[ticket]
            if ticket in self.half:
                side, answer = self.half.pop(ticket)
                both[side] = answer
            if not _are_alike(both[THEIRS], both[OURS]) and asked.group_id not in self.left:
                self._judge(Case("answer", asked.op, asked.group_id, both[THEIRS], both[OURS], asked.ours(""), self))
            if None in both:
                side = THEIRS if both[OURS] is None else OURS
                self.half[ticket] = (side, both[side])
            else:
                del self.asked[ticket]
        return {ticket: (both[THEIRS], both[OURS]) for ticket, both in found.items()}

    def _compare_records(self, theirs: Records, ours_: Records) -> None:
        written: dict[bytes, list[bool]] = {}
        for side, records in ((THEIRS, theirs), (OURS, ours_)):
            self.logs[side].extend(records)
            for record in records:
                before = written.setdefault(record[0], [False, False])
                before[side] = self._note(side, record) or before[side]
        for key in [*written, *sorted(self.uneven - written.keys())]:
            group_id, _ = read_text(key, 2)
            if group_id in self.left:
                continue
            their, our = self.state[THEIRS].get(key), self.state[OURS].get(key)
            what = _TYPES[key[1]]
            if their != our:
                self.uneven.add(key)
                self._judge(Case("record", what, group_id, their, our, self._command, self))
            else:
                self.uneven.discard(key)

    def _note(self, side: int, record: Stored) -> bool:
        """Take a record into a side's state; return whether it changed it."""
        key, value = record
        state = self.state[side]
        before = state.get(key)
        if value is None:
            state.pop(key, None)
            return before is not None
        now = state[key] = value_of(event_of(record))
        return now != before

    def _judge(self, case: Case) -> None:
        """Find the listed difference that a case is. Raises Mismatch."""
        for difference in TABLE:
            if difference.rule(case):
                self.meet(difference, case.group_id)
                return
        raise Mismatch(case)

    def meet(self, difference: Difference, group_id: str) -> None:
        """Count a difference, and leave its group if it says so."""
        self.met[difference.name] += 1
        if difference.ends:
            self.left.add(group_id)


def _are_alike(theirs: Answer | None, ours_: Answer | None) -> bool:
    """Whether two answers are the same. What Kafka throws has no fields beside the error."""
    if theirs is not None and ours_ is not None and len(theirs) == 1 and theirs[0]:
        return theirs[0] == ours_[0]
    return theirs == ours_
