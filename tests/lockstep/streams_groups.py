"""Streams groups (KIP-1071) of Kafka 4.4's coordinator and of ours, on the same random steps, in virtual time.

A group has up to four clients in three processes. Each of them has, on either side, the epoch and the tasks that it was
answered with, and sends those. A step says what a client does; what it sends follows from where it is. After each step
the answers must be the same, and so must what the records leave of each key and when the timers of members are due, but
for the rows of `STREAMS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from tests.lockstep.apache import Answered, Apache
from tests.lockstep.apache import Outcome as KafkasOutcome
from tests.lockstep.ours import Ours, Outcome, RackedTopics
from tests.lockstep.records import Records, event_of, value_of
from tests.lockstep.requests import commit
from tests.lockstep.run import fewest
from tests.lockstep.settings import SETTINGS, START_MS, settings_of
from tests.lockstep.streams_rules import GIVEN_BACK, STREAMS, TOPICS, Answer, StreamsCase
from tests.quality.replacing import replaced_in

from interop import jars
from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology
from kohort.group.commands import ForgetTopic, OffsetToCommit
from kohort.group.group_timers import TimerKind
from kohort.group.streams import target as streams_target
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.group.streams.topology import InternalTopic, StreamsTopology, Subtopology
from kohort.model.ids import topic_id_text
from kohort.model.streams_tasks import NO_TASKS, Task, TasksByRole, by_subtopology, tasks_of

STEPS = 80
"""Steps of one seed."""

TOPOLOGY = StreamsTopology(
    1, (Subtopology("0", ("a",), changelogs=(InternalTopic("g-changelog"),)), Subtopology("1", ("b",)))
)
"""Three tasks with state, and at first two without."""
TOPICS_AT_FIRST = {"a": 3, "b": 2, "g-changelog": 3}
MOST_PARTITIONS, PROCESSES = 4, 3

ACTIONS = {
    "heartbeat": 30,
    "report": 45,
    "send everything": 5,
    "commit": 15,
    "leave": 6,
    "leave for a while": 4,
    "join again": 0.3,
    "lose the answer": 2,
    "ask for the end": 0.3,
    "fail over": 3,
    "change topics": 3,
}
"""What a client does, and how often; one that is not in the group joins."""

_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")


class Step(NamedTuple):
    """What a client does, some time after the step before."""

    ms: int
    client: int
    action: str


class Ended(Exception):
    """A listed difference has left the two sides in different states."""


def program() -> Apache:
    """Return Kafka's coordinator, in a process of its own."""
    return Apache(jars.NEWEST, "StreamsGroupLockstep")


@contextmanager
def dealt() -> Iterator[None]:
    """Have our tasks dealt as StreamsGroupLockstep.java deals them, and wait for no copy, as on Kafka 4.4.0."""
    with (
        replaced_in(streams_target, "assign_tasks", _deal),
        replaced_in(streams_target, "refine", lambda target, *_: target),
    ):
        yield


def _deal(
    members: Mapping[str, StickyMember], subtopologies: Mapping[str, StickySubtopology], standby_replicas: int
) -> dict[str, TasksByRole]:
    ids = sorted(members, key=instance_of)
    at = crc32(",".join(map(instance_of, ids)).encode())
    active: dict[str, set[Task]] = {each: set() for each in ids}
    standby: dict[str, set[Task]] = {each: set() for each in ids}
    for name, subtopology in sorted(subtopologies.items()):
        for number in range(subtopology.tasks):
            used: set[str] = set()
            for turn in range(len(ids)):
                member_id = ids[(at + turn) % len(ids)]
                if len(used) > (standby_replicas if subtopology.is_stateful else 0):
                    break
                if members[member_id].process_id not in used:
                    used.add(members[member_id].process_id)
                    (standby if turn else active)[member_id].add((name, number))
            at += 1
    return {each: TasksByRole(frozenset(active[each]), frozenset(standby[each])) for each in ids}


def instance_of(member_id: str) -> str:
    """Return the instance id of a static member, which its member id begins with; of another one its member id."""
    return member_id.partition("/")[0]


class Client:
    """One client. `epochs` and `tasks` are what Kafka and ours have answered."""

    def __init__(self, number: int, random: Random) -> None:
        self.number = number
        self.process_id = f"p{random.randrange(PROCESSES)}"
        self.instance_id = f"i{number}" if random.random() < 0.3 else None
        self.rebalance_timeout_ms = 4_000 + 1_000 * random.randint(0, 4) + 53 * number
        self.lives = 0
        self.member_id = ""
        self.is_away = False
        self.is_full = False
        """Whether its next heartbeat has everything: the answer before was lost."""
        self.epochs = [0, 0]
        self.tasks = [NO_TASKS, NO_TASKS]

    def lose(self) -> None:
        """Be out of the group, and own nothing."""
        self.epochs, self.tasks, self.is_away, self.is_full = [0, 0], [NO_TASKS, NO_TASKS], False, False

    def rename(self) -> None:
        """Begin another life, under another member id."""
        self.lives += 1
        self.member_id = f"{self.instance_id}/{self.lives}" if self.instance_id else f"m{self.number}-{self.lives}"


class Play:
    """One run of the two sides."""

    def __init__(self, kafka: Apache, seed: int) -> None:
        self.random = Random(f"streams groups {seed}")
        delay = self.random.choice(("0", "3000"))
        config = {
            "group.streams.initial.rebalance.delay.ms": delay,
            "group.streams.num.standby.replicas": self.random.choice(("0", "1", "1", "2")),
            "group.streams.assignment.interval.ms": "0",
            "group.streams.session.timeout.ms": "7000",
            "group.streams.min.session.timeout.ms": "6000",
        }
        self.clients = [Client(number, self.random) for number in range(self.random.randint(2, 4))]
        self.met: Counter[str] = Counter()
        self.topics = RackedTopics()
        self._now_ms, self._tickets, self._ids = START_MS, 0, 0
        self._kafka = kafka
        self.ours = Ours(settings_of(config, self.topics), START_MS)
        self._logs: tuple[Records, Records] = ([], [])
        self.stored: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
        self._permitted: dict[Any, tuple[Any, Any]] = {}
        kafka.open(START_MS, seed, {**SETTINGS, **config})
        for name, partitions in TOPICS_AT_FIRST.items():
            self._put(name, partitions)

    def draw(self) -> Step:
        """Return a random step."""
        random = self.random
        ms = random.choice((1, 50, 300, 1_000, 3_500)) if random.random() < 0.97 else 12_000
        (action,) = random.choices(list(ACTIONS), list(ACTIONS.values()))
        return Step(ms, random.randrange(len(self.clients)), action)

    @property
    def members(self) -> dict[str, StreamsMember]:
        """The members of our group."""
        group = self.ours.shard.groups.get("g")
        return group.members if isinstance(group, StreamsGroup) else {}

    def take(self, step: Step) -> None:
        """Take a step on both sides. Raises Ended, and AssertionError for a difference that is not listed."""
        client = self.clients[step.client % len(self.clients)]
        self._advance(step.ms)
        match step.action:
            case "fail over":
                self._did(self._kafka.load(self._logs[0]), self.ours.load(self._logs[1]))
                self._compare()
            case "change topics":
                self._change_topics()
            case _ if client.is_away or not client.epochs[1]:
                if not client.is_away or step.action != "report":
                    client.rename()
                if client.is_away and step.action in ("send everything", "leave"):
                    client.process_id = f"p{(int(client.process_id[1:]) + 1) % PROCESSES}"  # its disk is lost
                client.lose()
                self._join(client)
            case "join again":
                client.epochs, client.tasks = [0, 0], [NO_TASKS, NO_TASKS]
                self._join(client)
            case "leave":
                self._beat(client, epochs=[-1, -1])
                client.lose()
            case "leave for a while" if client.instance_id is not None:
                self._beat(client, epochs=[-2, -2])
                client.lose()
                client.is_away = True
            case "commit":
                self._commit(client)
            case _:
                self._heartbeat(client, step.action)

    # -- what clients send

    def _join(self, client: Client) -> None:
        self._beat(
            client,
            topology=TOPOLOGY,
            process_id=client.process_id,
            rebalance_timeout_ms=client.rebalance_timeout_ms,
            client_tags=(),
            reports=True,
        )

    def _heartbeat(self, client: Client, action: str) -> None:
        before = list(client.epochs), list(client.tasks)
        is_full = client.is_full or action == "send everything"
        timeout_ms = client.rebalance_timeout_ms if is_full else -1
        shuts_down, reports = action == "ask for the end", is_full or action == "report"
        self._beat(client, rebalance_timeout_ms=timeout_ms, reports=reports, shuts_down=shuts_down)
        client.is_full = action == "lose the answer"
        if client.is_full and client.epochs[1]:
            client.epochs, client.tasks = before

    def _commit(self, client: Client) -> None:
        """Commit an offset of one partition, with the client's epoch or one of the two before."""
        self._tickets += 1
        name, late = "ab"[self._tickets % 2], self._tickets % 3
        topic = self.topics.topic(name)
        if topic is None:
            return
        offset = OffsetToCommit(name, self._tickets % 5 % topic.partitions, self._now_ms, -1, "", topic.topic_id)
        epochs = [max(each - late, 0) for each in client.epochs]
        asked = commit("g", f"c{client.number}", 9, client.member_id, client.instance_id, epochs, [offset], -1)
        theirs = self._kafka.ask(
            op="commit",
            ticket=self._tickets,
            group="g",
            version=9,
            client=asked.client_id,
            makes_id=False,
            request=asked.theirs,
        )
        ours = self.ours.submit(asked.ours(""), self._tickets)
        self._did(theirs, ours)
        response, thrown = theirs.answers[self._tickets]
        found = response["topics"][0]["partitions"][0]["errorCode"] if thrown is None else thrown
        answers = found, int(ours.answers[self._tickets].error)
        self._judge(StreamsCase("commit", *answers, None, self, name=f"{asked.theirs}, ours {epochs[1]}"))
        self._compare()

    def _beat(
        self,
        client: Client,
        epochs: list[int] | None = None,
        *,
        reports: bool = False,
        is_repeated: bool = False,
        **sent: Any,
    ) -> None:
        self._tickets += 1
        shown = client.epochs if epochs is None else epochs
        owned = client.tasks if reports else (None, None)
        command = StreamsHeartbeat(
            "g",
            client.member_id,
            shown[1],
            client.instance_id,
            owned=owned[1],
            reports_lags=True,
            client_id=f"c{client.number}",
            client_host="localhost/127.0.0.1",
            **sent,
        )
        member = self.members.get(client.member_id)
        given_back = set() if member is None or is_repeated else set(member.pending.roles())
        known_epoch = 0 if member is None else member.epoch
        theirs = self._kafka.ask(
            op="streams",
            ticket=self._tickets,
            group="g",
            version=1,
            client=command.client_id,
            makes_id=False,
            request=request_of(command, shown[0], owned[0]),
        )
        ours = self.ours.submit(command, self._tickets)
        self._did(theirs, ours)
        answers = shown_by_kafka(theirs.answers[self._tickets]), shown_by_us(ours.answers[self._tickets])
        if is_repeated:  # what the first answer had is the client's already
            theirs_now, ours_now = (
                each._replace(tasks=tasks if each.tasks is None else each.tasks)
                for each, tasks in zip(answers, client.tasks, strict=True)
            )
            answers = theirs_now, ours_now
        member = self.members.get(client.member_id)
        wanted = set() if member is None else set().union(*member.target)
        if given_back & wanted and answers[0] != answers[1] and not answers[0].error:
            self.met[GIVEN_BACK.name] += 1
            self._answered(client, answers)
            self._beat(client, is_repeated=True)
            return
        self._judge(StreamsCase("answer", *answers, command, self, known_epoch))
        self._compare()
        self._answered(client, answers)

    def _answered(self, client: Client, answers: tuple[Answer, Answer]) -> None:
        if any(each.error for each in answers):
            client.lose()
            return
        client.epochs = [each.member_epoch for each in answers]
        for side, each in enumerate(answers):
            tasks = each.tasks if each.tasks is not None else answers[1].tasks
            client.tasks[side] = client.tasks[side] if tasks is None else tasks

    # -- what happens around them

    def _advance(self, ms: int) -> None:
        self._now_ms += ms
        before = set(self.members)
        self._did(self._kafka.ask(op="advance", to=self._now_ms), self.ours.advance(self._now_ms))
        self._compare()
        for client in self.clients:
            if client.member_id in before - self.members.keys():
                client.lose()

    def _put(self, name: str, partitions: int) -> None:
        """Create or grow a topic, or (0 partitions) delete it."""
        known = self.topics.topic(name)
        self._ids += known is None
        topic_id = bytes([self._ids]) * 16 if known is None else known.topic_id
        changed, deleted = [[name, topic_id_text(topic_id), partitions]], [[name, topic_id_text(topic_id)]]
        if partitions:
            self.topics.put(name, topic_id, partitions)
        else:
            del self.topics.topics[name]
        is_there = bool(partitions)
        theirs = self._kafka.ask(op="topics", changed=changed * is_there, deleted=deleted * (not is_there))
        forgotten = [] if is_there else [ForgetTopic(group_id, name) for group_id in sorted(self.ours.shard.offsets)]
        self._did(theirs, self.ours.topics_change([name], forgotten))
        self._took(1, self.ours.advance(self._now_ms).records)

    def _change_topics(self) -> None:
        """Grow the topic without state, or delete it, or make it again. Kafka sees that in the next heartbeat."""
        known = self.topics.topic("b")
        count = 0 if known is None else known.partitions
        self._put("b", MOST_PARTITIONS if not count else (count + 1) % (MOST_PARTITIONS + 1))
        for client in self.clients:
            member = self.members.get(client.member_id)
            if member is not None and client.epochs[0] == client.epochs[1] == member.epoch > 0:
                self._beat(client)
                return
        if self.members:
            self.met[TOPICS.name] += 1
            raise Ended(TOPICS.name)

    # -- what is compared

    def _did(self, theirs: KafkasOutcome, ours: Outcome) -> None:
        assert theirs.failure is None, theirs.failure
        self._took(0, theirs.records)
        self._took(1, ours.records)

    def _took(self, side: int, records: Records) -> None:
        self._logs[side].extend(records)
        for key, value in records:
            if value is None:
                self.stored[side].pop(key, None)
            else:
                self.stored[side][key] = value_of(event_of((key, value)))

    def _compare(self) -> None:
        for kind, (theirs, ours) in (("record", self.stored), ("timer", self._timers())):
            for key in sorted(theirs.keys() | ours.keys()):
                found = theirs.get(key), ours.get(key)
                if found[0] != found[1] and self._permitted.get(key) != found:
                    self._judge(StreamsCase(kind, *found, None, self, name=str(key)))
                    self._permitted[key] = found

    def _timers(self) -> tuple[dict[Any, int], dict[Any, int]]:
        """Return when the timers of members are due, by Kafka's names for them."""
        words = {TimerKind.SESSION: "session-timeout", TimerKind.REBALANCE: "rebalance-timeout"}
        return (
            {name: at for name, at in self._kafka.timers.items() if name.startswith(tuple(words.values()))},
            {
                f"{words[timer.kind]}-g-{timer.member_id}": at
                for timer, at in self.ours.timers.items()
                if timer.kind in words
            },
        )

    def _judge(self, case: StreamsCase) -> None:
        if case.theirs == case.ours:
            return
        for difference in STREAMS:
            if difference.rule(case):
                self.met[difference.name] += 1
                if difference.is_end(case):
                    raise Ended(difference.name)
                return
        raise AssertionError(f"{case.kind} {case.name}, {case.command}\n  Kafka: {case.theirs}\n  ours:  {case.ours}")


def request_of(command: StreamsHeartbeat, epoch: int, owned: TasksByRole | None) -> dict[str, Any]:
    """Return a heartbeat as Kafka's converter reads it."""
    tasks = [None] * 3 if owned is None else [_partitions(each) for each in owned]
    return {
        "groupId": "g",
        "memberId": command.member_id,
        "memberEpoch": epoch,
        "endpointInformationEpoch": 0,
        "instanceId": command.instance_id,
        "rackId": None,
        "rebalanceTimeoutMs": command.rebalance_timeout_ms,
        "topology": None if command.topology is None else _topology(command.topology),
        **dict(zip(_ROLES, tasks, strict=True)),
        "processId": command.process_id,
        "userEndpoint": None,
        "clientTags": None if command.client_tags is None else [],
        "taskOffsets": None,
        "taskEndOffsets": None,
        "shutdownApplication": command.shuts_down,
    }


def _partitions(tasks: frozenset[Task]) -> list[dict[str, Any]]:
    return [{"subtopologyId": name, "partitions": numbers} for name, numbers in by_subtopology(tasks).items()]


def _topology(topology: StreamsTopology) -> dict[str, Any]:
    none: dict[str, Any] = {
        "sourceTopicRegex": [],
        "copartitionGroups": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
    }
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopologyId": each.subtopology_id,
                "sourceTopics": list(each.source_topics),
                "stateChangelogTopics": [
                    {"name": topic.name, "partitions": 0, "replicationFactor": 0, "topicConfigs": []}
                    for topic in each.changelogs
                ],
                **none,
            }
            for each in topology.subtopologies
        ],
    }


def shown_by_kafka(answered: Answered) -> Answer:
    """Return what Kafka's answer shows."""
    response, thrown = answered
    if thrown is not None or response["errorCode"]:
        return Answer(response["errorCode"] if thrown is None else thrown)
    tasks = None
    if response["activeTasks"] is not None:
        found = (tasks_of((each["subtopologyId"], each["partitions"]) for each in response[role]) for role in _ROLES)
        tasks = TasksByRole(*found)
    return Answer(
        0,
        response["memberEpoch"],
        response["heartbeatIntervalMs"],
        tasks,
        tuple(sorted((each["statusCode"], each["statusDetail"]) for each in response["status"] or ())),
        response["acceptableRecoveryLag"],
        response["taskOffsetIntervalMs"],
    )


def shown_by_us(result: Any) -> Answer:
    """Return what our answer shows."""
    if result.error:
        return Answer(int(result.error))
    return Answer(
        0,
        result.member_epoch,
        result.heartbeat_interval_ms,
        result.tasks,
        tuple(sorted((int(code), detail) for code, detail in result.statuses)),
        result.acceptable_recovery_lag,
        result.task_offset_interval_ms,
    )


# -- runs


@dataclass
class StreamsRun:
    """What became of a seed: its steps, the differences that it met, and why it ended early, if it did."""

    seed: int
    steps: list[Step] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    ended: str | None = None
    failure: Exception | None = None


def run(kafka: Apache, seed: int) -> StreamsRun:
    """Take the steps of a seed."""
    return _run(kafka, seed, lambda play, found: play.draw() if len(found.steps) < STEPS else None)


def again(kafka: Apache, seed: int, steps: list[Step]) -> StreamsRun:
    """Take these steps in the world of a seed."""
    rest = iter(steps)
    return _run(kafka, seed, lambda *_: next(rest, None))


def shrink(kafka: Apache, failed: StreamsRun) -> StreamsRun:
    """Leave out whatever the failure does not need."""
    return fewest(failed.steps, failed, lambda steps: again(kafka, failed.seed, steps))


def _run(kafka: Apache, seed: int, following: Callable[[Play, StreamsRun], Step | None]) -> StreamsRun:
    found = StreamsRun(seed)
    with dealt():
        play = Play(kafka, seed)
        found.met = play.met
        try:
            while (step := following(play, found)) is not None:
                found.steps.append(step)
                play.take(step)
        except Ended as ended:
            found.ended = str(ended)
        except Exception as failure:  # whatever it is, it is a finding
            found.failure = failure
    return found
