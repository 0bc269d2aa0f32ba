"""Both coordinators side by side: every step goes to both, and what they answer and write is compared after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.lockstep import apache, ours
from tests.lockstep.cases import Case, Difference, Glance
from tests.lockstep.differences import TABLE
from tests.lockstep.records import Records, Stored, Value, compacted, event_of, value_of
from tests.lockstep.requests import Answer, Asked, are_alike, our_answer, their_answer

from kohort.group.commands import ExpireOffsets, ForgetTopic, Join
from kohort.group.committed_offsets import fetch_error, fetch_offset
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.group_timers import Timer, TimerKind
from kohort.group.streams.group import StreamsGroup
from kohort.log.consumer_records import group_key
from kohort.log.group_records import read_text
from kohort.model.ids import topic_id_text

THEIRS, OURS = 0, 1
_TYPES = {
    0: "Offset",
    1: "Offset",
    2: "Group",
    3: "ConsumerGroup",
    5: "Member",
    6: "Target",
    7: "MemberTarget",
    8: "Assignment",
    16: "Regex",
}


Answers = dict[int, tuple[Answer | None, Answer | None]]
"""Kafka's answer and ours by ticket, None where a side has not answered."""


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

    def __init__(
        self,
        theirs: apache.Apache,
        settings: GroupSettings,
        topics: ours.RackedTopics,
        now_ms: int,
        seed: int,
        config: dict[str, str],
    ) -> None:
        self.theirs = theirs
        self.ours = ours.Ours(settings, now_ms)
        self.topics = topics
        self.now_ms = now_ms
        theirs.open(now_ms, seed, config)
        self.logs: tuple[Records, ...] = ([], [])
        self.ends: list[tuple[int, int]] = []
        """How long the logs were after each step."""
        self.state: tuple[dict[bytes, Value], dict[bytes, Value]] = ({}, {})
        """What the records of each side say now, by key."""
        self.uneven: set[bytes] = set()
        """Keys of which a listed difference says that they differ for now."""
        self.asked: dict[int, Asked] = {}
        """Requests that have not been answered on both sides."""
        self.half: dict[int, tuple[int, Answer | None]] = {}
        """Answers of one side that the other owes."""
        self.left: set[str] = set()
        """Groups that are compared no more."""
        self.met: Counter[str] = Counter()
        self.shifted: dict[str, tuple[tuple[int | None, int | None], Difference]] = {}
        """Timers of which a listed difference says that they are due at different times, until they are set anew."""
        self.trace: Callable[[str], None] | None = None
        """Takes what happens, line by line."""
        self.is_swapped = False
        """Whether each side has taken up the other's log."""
        self.nudged: set[str] = set()
        """Groups that get a heartbeat right after a change of topics."""
        self.due: dict[str, Difference] = {}
        """Groups of which such a timer was due just now."""
        self.glances: dict[str, Glance] = {}
        self.command: Any = None
        self._tickets = 0

    # -- steps

    def ask(self, asked: Asked) -> tuple[int, Answers]:
        """Send a request to both sides; return its ticket and all answers that came of it, by ticket."""
        self._tickets += 1
        ticket = self._tickets
        self.asked[ticket] = asked
        self._look()
        self.theirs.send(
            op=asked.op,
            ticket=ticket,
            group=asked.group_id,
            version=asked.version,
            client=asked.client_id,
            makes_id=asked.makes_id,
            request=asked.theirs,
        )
        if not asked.makes_id:
            self.command = asked.ours("")
            our = self.ours.submit(self.command, ticket)
            return ticket, self._compare(self._received(), our)
        # The id that Kafka makes is ours, too.
        their = self._received()
        response = their.answers[ticket].response if ticket in their.answers else None
        made = their.made or (response or {}).get("memberId") or f"{asked.client_id}-made-by-us-{ticket}"
        self.command = asked.ours(made)
        our = self.ours.submit(self.command, ticket)
        return ticket, self._compare(their, our)

    def _received(self) -> apache.Outcome:
        """Return what a request to Kafka led to, with what it then does in the background: it resolves expressions."""
        found = self.theirs.receive()
        if self.theirs.tasks:
            found.records.extend(self.theirs.ask(op="tasks").records)
        return found

    def advance(self, by_ms: int) -> Iterable[Answers]:
        """Let time pass on both sides, from timer to timer; yield the answers that came of each."""
        end_ms = self.now_ms + by_ms
        while self.now_ms < end_ms:
            due = [at for at in (self.theirs.next_ms, self.ours.next_ms) if at is not None]
            at = max(min([end_ms, *due]), self.now_ms)
            if at == end_ms and not any(each <= at for each in due):
                self.now_ms = self.ours.now_ms = end_ms
                self.theirs.ask(op="advance", to=end_ms)
                return
            self.now_ms = at
            self.command = None
            self._look()
            self.due = {
                _group_of(name): why for name, (both, why) in self.shifted.items() if at in both and why.matters
            }
            self.theirs.send(op="advance", to=at)
            our = self.ours.advance(at)
            yield self._compare(self.theirs.receive(), our)

    def change_topics(self, changed: dict[str, tuple[bytes, int]], deleted: list[str]) -> Any:
        """Create, grow and delete topics."""
        gone = [(name, self.topics.topics.pop(name).topic_id) for name in deleted]
        for name, (topic_id, count) in changed.items():
            self.topics.put(name, topic_id, count)
        their = self.theirs.ask(
            op="topics",
            deleted=[[name, topic_id_text(topic_id)] for name, topic_id in gone],
            changed=[[name, topic_id_text(topic_id), count] for name, (topic_id, count) in changed.items()],
        )
        forgotten = [ForgetTopic(group_id, name) for name, _ in gone for group_id in sorted(self.ours.shard.offsets)]
        self.command = ("topics", changed, deleted)
        self._look()
        return self._compare(their, self.ours.topics_change([*deleted, *changed], forgotten))

    def expire(self) -> Any:
        """Expire offsets and groups."""
        their = self.theirs.ask(op="expire")
        self._look()
        answers, records = {}, []
        for group_id in sorted(self.ours.shard.groups):
            outcome = self.ours.submit(ExpireOffsets(group_id))
            answers.update(outcome.answers)
            records += outcome.records
        self.command = ("expire",)
        return self._compare(their, ours.Outcome(answers, records))

    def fetch(
        self, group_id: str, member_id: str | None, epochs: list[int], partitions: list[tuple[str, bytes, int]]
    ) -> None:
        """Read offsets of both sides."""
        request = {
            "groupId": group_id,
            "memberId": member_id,
            "epoch": epochs[0],
            "partitions": [[name, topic_id_text(topic_id), index] for name, topic_id, index in partitions],
        }
        asked = Asked("fetch", group_id, 9, "", request, lambda _: None)
        their = self.theirs.ask(op="fetch", ticket=0, group=group_id, version=9, request=request)
        theirs = their_answer(asked, their.answers[0])
        shard = self.ours.shard
        answer: Answer = (int(fetch_error(shard.groups.get(group_id), member_id, epochs[1])),)
        if not answer[0]:
            found = []
            for name, topic_id, index in partitions:
                held = fetch_offset(shard, group_id, name, index, topic_id)
                value = (-1, -1, "") if held is None else (held.offset, held.leader_epoch, held.metadata)
                found.append((name, index, *value))
            answer = (0, tuple(sorted(found)))
        self.command = ("fetch", request)
        if not are_alike(theirs, answer):
            self._judge([Case("answer", "fetch", group_id, theirs, answer, self.command, self)])

    # -- failover

    def load(self, *, swapped: bool, cleaned: float = 0.0, drops: bool = False) -> Any:
        """Lose both coordinators, and take up each log on its own side or on the other one.

        `cleaned` is how much of the logs has been compacted, from their starts; `drops`: its tombstones are gone.
        """
        if cleaned and self.ends:
            # A cleaner goes by whole batches, and whole segments of them.
            cuts = self.ends[round(cleaned * (len(self.ends) - 1))]
            self.logs = tuple(compacted(log, cut, drops=drops) for log, cut in zip(self.logs, cuts, strict=True))
            self.ends = [(len(self.logs[0]), len(self.logs[1]))]
        logs = (self.logs[1], self.logs[0]) if swapped else self.logs
        self.command = ("load", swapped)
        self._look()
        self._judge(
            Case(
                "load",
                _TYPES[key[1]],
                read_text(key, 2)[0],
                self.state[THEIRS].get(key),
                self.state[OURS].get(key),
                self.command,
                self,
            )
            for key in sorted(self.uneven)
        )
        their = self.theirs.load(logs[THEIRS])
        assert their.failure is None, f"Kafka cannot take this log up: {their.failure}"
        our = self.ours.load(logs[OURS])
        if swapped:
            self.is_swapped = True
            self.ends = [(theirs, ours_) for ours_, theirs in self.ends]
            self.logs = (list(logs[THEIRS]), list(logs[OURS]))
            self.state = (self.state[1], self.state[0])
        self.asked.clear()
        self.half.clear()
        return self._compare(apache.Outcome({}, their.records, None), our)

    # -- comparing

    def stored(self, side: int, kind: int, group_id: str) -> dict[str, Any]:
        """Return what a side's log says of a group: of its record of that type, nothing if there is none."""
        return dict(self.state[side].get(group_key(kind, group_id), ("",))[1:])

    def _look(self) -> None:
        """Remember what our groups are like before a step."""
        groups = self.ours.shard.groups
        known = {group_id: group for group_id, group in groups.items() if not isinstance(group, StreamsGroup)}
        self.glances = {group_id: Glance.of(known[group_id]) for group_id in known if group_id not in self.left}

    def _compare(self, their: apache.Outcome, our: ours.Outcome) -> Answers:
        cases = self._uneven_records(their.records, our.records)
        found: dict[int, list[Answer | None]] = {}
        for ticket, answer in their.answers.items():
            found.setdefault(ticket, [None, None])[THEIRS] = their_answer(self.asked[ticket], answer)
        for ticket, result in our.answers.items():
            found.setdefault(ticket, [None, None])[OURS] = our_answer(self.asked[ticket], result)
        for ticket, both in sorted(found.items()):
            asked = self.asked[ticket]
            if ticket in self.half:
                side, half = self.half.pop(ticket)
                both[side] = half
            if not are_alike(both[THEIRS], both[OURS]):
                cases.append(Case("answer", asked.op, asked.group_id, both[THEIRS], both[OURS], asked.ours(""), self))
            if None in both:
                side = THEIRS if both[OURS] is None else OURS
                self.half[ticket] = (side, both[side])
            else:
                del self.asked[ticket]
        if self.trace is not None:
            self.trace(f"    at {self.now_ms} {self.command}")
            for ticket, both in found.items():
                self.trace(f"      {ticket}: {both}")
            for who, records in (("theirs", their.records), ("ours", our.records)):
                for record in records:
                    self.trace(f"      {who} {event_of(record)}")
            self.trace(f"      timers theirs {self.theirs.timers}")
            self.trace(f"      timers ours   {self.ours.timers}")
        if isinstance(self.command, Join) and self._is_left_empty(self.command.group_id):
            cases.append(Case("forgotten", "join", self.command.group_id, None, None, self.command, self))
        for group_id, why in self.due.items():
            self.met[why.name] += 1
            self.left.add(group_id)
        self.due = {}
        self._judge([*cases, *self._uneven_timers()])
        return {ticket: (both[THEIRS], both[OURS]) for ticket, both in found.items()}

    def _is_left_empty(self, group_id: str) -> bool:
        """Whether an empty consumer group of ours has just refused a join."""
        group = self.ours.shard.groups.get(group_id)
        return isinstance(group, ConsumerGroup) and not group.members

    def _uneven_records(self, theirs: Records, ours_: Records) -> list[Case]:
        written: dict[bytes, list[bool]] = {}
        for side, records in ((THEIRS, theirs), (OURS, ours_)):
            self.logs[side].extend(records)
            for record in records:
                changed = written.setdefault(record[0], [False, False])
                changed[side] = self._note(side, record) or changed[side]
        self.ends.append((len(self.logs[0]), len(self.logs[1])))
        cases = []
        for key in [*written, *sorted(self.uneven - written.keys())]:
            their, our = self.state[THEIRS].get(key), self.state[OURS].get(key)
            if their != our:
                self.uneven.add(key)
                cases.append(Case("record", _TYPES[key[1]], read_text(key, 2)[0], their, our, self.command, self))
            else:
                self.uneven.discard(key)
        return cases

    def _uneven_timers(self) -> list[Case]:
        theirs = self.theirs.timers
        ours_ = {name: at for timer, at in self.ours.timers.items() if (name := self._name_of(timer))}
        self.shifted = {
            name: (both, why)
            for name, (both, why) in self.shifted.items()
            if both == (theirs.get(name), ours_.get(name))
        }
        return [
            Case(
                "timer",
                name.split("-g", 1)[0],
                _group_of(name),
                theirs.get(name),
                ours_.get(name),
                self.command,
                self,
                name,
            )
            for name in sorted(theirs.keys() | ours_.keys())
            if theirs.get(name) != ours_.get(name) and name not in self.shifted
        ]

    def _name_of(self, timer: Timer) -> str | None:
        """Return Kafka's name for a timer, None for one that only we have."""
        words = {TimerKind.SESSION: "heartbeat", TimerKind.JOIN: "join", TimerKind.SYNC: "sync"}
        if isinstance(self.ours.shard.groups.get(timer.group_id), ConsumerGroup):
            words |= {TimerKind.SESSION: "session-timeout", TimerKind.REBALANCE: "rebalance-timeout"}
        word = words.get(timer.kind)
        return word and "-".join([word, timer.group_id, *([timer.member_id] if timer.member_id else [])])

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

    def _judge(self, cases: Iterable[Case]) -> None:
        """Find the listed difference that each case is. Raises Mismatch.

        Where one of them ends the comparison of its group, all else that differs there follows from it.
        """
        unlisted: dict[str, Case] = {}
        for case in cases:
            if case.group_id in self.left:
                continue
            difference = next((each for each in TABLE if each.rule(case)), None)
            if difference is not None:
                self._meet(difference, case)
                if case.kind == "timer":
                    self.shifted[case.name] = ((case.theirs, case.ours), difference)
            else:
                unlisted.setdefault(case.group_id, case)
        for group_id, case in unlisted.items():
            if group_id not in self.left:
                raise Mismatch(case)

    def _meet(self, difference: Difference, case: Case) -> None:
        """Count a difference, and leave its group if the two sides go on in different states."""
        self.met[difference.name] += 1
        if difference.is_end(case):
            self.left.add(case.group_id)


def _group_of(name: str) -> str:
    """Return the group of a timer. Ids of groups hold no dash."""
    words = name.split("-")
    return words[2] if words[1] == "timeout" else words[1]
