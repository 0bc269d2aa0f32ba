"""Steps carried out: a client's state becomes a request, and the response becomes its state."""

from __future__ import annotations

import base64
from typing import Any

from tests.lockstep import requests
from tests.lockstep.apache import Apache
from tests.lockstep.model import OURS, THEIRS, Client, Stage, Step
from tests.lockstep.ours import RackedTopics
from tests.lockstep.pair import Pair
from tests.lockstep.requests import Answer, Asked
from tests.lockstep.settings import SETTINGS, START_MS, settings_of

from kohort.group.commands import OffsetToCommit
from kohort.group.consumer.group import ConsumerGroup
from kohort.model.assignment import NOTHING, Assignment, IdPartitions, id_partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.wire.consumer_protocol import decode_assignment, encode_assignment

_BEGIN_AGAIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class Play:
    """One run: two coordinators, and the clients that speak to both."""

    def __init__(self, theirs: Apache, seed: int, clients: list[Client], config: dict[str, str]) -> None:
        self.topics = RackedTopics()
        self.pair = Pair(theirs, settings_of(config, self.topics), self.topics, START_MS, seed, {**SETTINGS, **config})
        self.clients = clients
        self.incarnations: dict[int, int] = {}
        self._senders: dict[int, Client] = {}
        self._made_topics = 0

    def group_id(self, group: int) -> str:
        """Return the id of a group now: one whose comparison ended goes on under another."""
        return f"g{group}.{self.incarnations.get(group, 0)}"

    def do(self, step: Step) -> None:
        """Carry a step out on both sides. Raises Mismatch."""
        for answers in self.pair.advance(step.how.get("after", 1)):
            self._receive(answers)
        getattr(self, f"_{step.op}")(step)
        for group in sorted({client.group for client in self.clients}):
            if self.group_id(group) in self.pair.left:
                self._begin_anew(group)

    def _begin_anew(self, group: int) -> None:
        self.incarnations[group] = self.incarnations.get(group, 0) + 1
        for client in self.clients:
            if client.group == group:
                client.forget()
        self._senders = {ticket: sender for ticket, sender in self._senders.items() if sender.group != group}

    # -- sending and hearing

    def _send(self, client: Client, asked: Asked) -> None:
        ticket, answers = self.pair.ask(asked)
        if ticket in self.pair.asked:
            self._senders[ticket] = client
        self._receive(
            {**answers, ticket: answers[ticket]} if ticket in answers else answers, {ticket: client}, asked.op
        )

    def _receive(
        self,
        answers: dict[int, tuple[Answer | None, Answer | None]],
        sender: dict[int, Client] | None = None,
        op: str = "",
    ) -> None:
        for ticket, (theirs, ours) in sorted(answers.items()):
            client = (sender or {}).get(ticket) or self._senders.get(ticket)
            if ticket not in self.pair.asked:
                self._senders.pop(ticket, None)
            if client is not None and theirs is not None and ours is not None and theirs[0] == ours[0]:
                self._sent(client, op if sender and ticket in sender else "", theirs, ours)

    def _sent(self, client: Client, op: str, theirs: Answer, ours: Answer) -> None:
        error = ErrorCode(theirs[0])
        if len(theirs) == 8:
            client.member_id = theirs[1]
            client.epochs = [theirs[2], ours[2]]
            client.protocol = theirs[4]
            client.leader = [theirs[5] == theirs[1], ours[5] == ours[1]]
            client.members = tuple(each[0] for each in theirs[6])
            client.stage = Stage.JOINED
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = theirs[1]
            client.stage = Stage.OUT
        elif len(theirs) == 4:
            client.owned = decode_assignment(base64.b64decode(theirs[3])).partitions
            client.stage = Stage.STABLE
        elif len(theirs) == 5:
            client.epochs = [theirs[2], ours[2]]
            client.member_id = theirs[1]
            client.stage = Stage.STABLE if theirs[2] > 0 else Stage.OUT
            for side, answer in enumerate((theirs, ours)):
                if answer[4] is not None:
                    client.held[side] = answer[4]
        elif client.is_native and error in _BEGIN_AGAIN:
            client.lose()
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            client.forget()
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            client.lose()
        elif error is not ErrorCode.NONE and op != "commit":
            client.stage = Stage.OUT

    def _id(self, client: Client, step: Step) -> str:
        match step.how.get("id", "own"):
            case "own":
                return client.member_id
            case "old":
                return client.old_id
            case "none":
                return ""
            case other:
                return str(other)

    def _instance(self, client: Client, step: Step) -> str | None:
        instance = step.how.get("instance", "own")
        return client.instance_id if instance == "own" else instance

    def _epochs(self, client: Client, step: Step) -> list[int]:
        return [epoch + step.how.get("delta", 0) for epoch in client.epochs]

    # -- the steps of classic members

    def _join(self, step: Step) -> None:
        client = self.clients[step.who]
        metadata = client.metadata()
        protocols = tuple((name, metadata) for name in client.protocols)
        client.stage = Stage.JOINING
        asked = requests.join(
            self.group_id(client.group),
            client.client_id,
            client.version,
            self._id(client, step),
            self._instance(client, step),
            (client.session_ms, client.rebalance_ms),
            step.how.get("type", "consumer"),
            protocols,
            step.how.get("reason", ""),
        )
        self._send(client, asked)

    def _sync(self, step: Step) -> None:
        client = self.clients[step.who]
        client.stage = Stage.SYNCING
        asked = requests.sync(
            self.group_id(client.group),
            client.client_id,
            self._id(client, step),
            self._instance(client, step),
            self._epochs(client, step),
            (step.how.get("type", "consumer"), step.how.get("protocol") or client.protocol or ""),
            self._assignments(client, step) if client.leader[THEIRS] else (),
        )
        self._send(client, asked)

    def _assignments(self, client: Client, step: Step) -> tuple[tuple[str, bytes], ...]:
        """Return what a leader deals: all partitions, turned by `salt`, or those only that no other member has."""
        given: dict[str, set[TopicPartition]] = {member_id: set() for member_id in client.members}
        held = {
            partition: each.member_id for each in self.clients if each.group == client.group for partition in each.owned
        }
        for name, topic in sorted(self.topics.topics.items()):
            for index in range(topic.partitions):
                partition = TopicPartition(name, index)
                taker = client.members[(index + step.how.get("salt", 0)) % len(client.members)]
                if not step.how.get("withholds") or held.get(partition, taker) == taker:
                    given[taker].add(partition)
        return tuple((each, encode_assignment(Assignment(frozenset(found)))) for each, found in given.items())

    def _heartbeat(self, step: Step) -> None:
        client = self.clients[step.who]
        asked = requests.heartbeat(
            self.group_id(client.group),
            client.client_id,
            self._id(client, step),
            self._instance(client, step),
            self._epochs(client, step),
        )
        self._send(client, asked)

    def _leave(self, step: Step) -> None:
        """Members leave, or are removed by their instance."""
        client = self.clients[step.who]
        members: list[tuple[str, str | None]] = []
        for number in step.how.get("members", [step.who]):
            other = self.clients[number]
            members.append(("" if step.how.get("by") == "instance" else self._id(other, step), other.instance_id))
        ticket, answers = self.pair.ask(requests.leave(self.group_id(client.group), members))
        gone = [other for other in self.clients if other.group == client.group]
        self._receive(answers)
        response = answers[ticket][THEIRS]
        if response is None or response[0]:
            return
        for (_, _, error), number in zip(response[1], step.how.get("members", [step.who]), strict=True):
            if not error and self.clients[number] in gone:
                self.clients[number].forget()

    # -- the steps of native members

    def _beat(self, step: Step) -> None:
        """Send a ConsumerGroupHeartbeat of some kind, and what it takes to have the answer of both sides."""
        client = self.clients[step.who]
        kind = step.how.get("kind", "plain")
        member_id = self._id(client, step)
        version = 1 if client.regex is not None else step.how.get("version", 1)
        if version == 0 and kind == "join":
            member_id = ""  # the coordinator makes one
        elif not member_id or (kind == "join" and step.how.get("anew")):
            member_id = client.make_id()
        if kind == "away" and client.instance_id is None:
            kind = "leave"
        fields: dict[str, Any] = {}
        instance_id = self._instance(client, step) or (client.instance_id if kind == "away" else None)
        if instance_id is not None:
            fields["instance_id"] = instance_id
        # What no group would take, the service refuses before it asks one.
        epochs = [max(epoch, 1) for epoch in self._epochs(client, step)]
        owned: list[IdPartitions] | None = None
        match kind:
            case "join":
                epochs, owned = [0, 0], [NOTHING, NOTHING]
            case "leave":
                epochs = [-1, -1]
            case "away":
                epochs = [-2, -2]
            case "ack" | "full":
                owned = list(client.held)
            case "part":
                owned = [id_partitions((topic_id, numbers[:1]) for topic_id, numbers in held) for held in client.held]
        if kind in ("join", "full"):
            fields |= {
                "rebalance_timeout_ms": client.rebalance_ms,
                "rack_id": client.rack,
                "server_assignor": client.assignor,
                "subscribed_topic_names": None if client.regex is not None else list(client.topics),
                "subscribed_topic_regex": client.regex,
            }
        elif kind == "say":
            fields |= (
                {"subscribed_topic_regex": client.regex}
                if client.regex is not None
                else {"subscribed_topic_names": list(client.topics), "server_assignor": client.assignor}
            )
            if client.rack is not None:
                fields["rack_id"] = client.rack
        self._send(
            client,
            requests.consumer(self.group_id(client.group), client.client_id, member_id, epochs, fields, owned, version),
        )
        if kind == "leave":
            client.lose()

    def _nudge(self, group: int) -> None:
        """Have a native member of a group send a heartbeat, so that Kafka does what it leaves for one."""
        client = self._nudger(group)
        if client is not None:
            group_id = self.group_id(group)
            self._send(client, requests.consumer(group_id, client.client_id, client.member_id, client.epochs, {}, None))

    def _nudger(self, group: int) -> Client | None:
        """Return a client whose heartbeat is taken, None when there is none."""
        held = self.pair.ours.shard.groups.get(self.group_id(group))
        if isinstance(held, ConsumerGroup):
            for client in self.clients:
                member = held.members.get(client.member_id) if client.group == group and client.is_native else None
                if member is not None and member.classic is None and 0 < member.epoch == client.epochs[OURS]:
                    return client
        return None

    def _topics_change(self, changed: dict[str, tuple[bytes, int]], deleted: list[str]) -> None:
        groups = sorted({client.group for client in self.clients})
        self.pair.nudged = {self.group_id(group) for group in groups if self._nudger(group) is not None}
        self._receive(self.pair.change_topics(changed, deleted))
        for group in groups:
            self.pair.nudged.discard(self.group_id(group))
            self._nudge(group)
        self.pair.nudged = set()

    def _turn(self, step: Step) -> None:
        """A client goes on with the other protocol, as a process that was started anew."""
        client = self.clients[step.who]
        client.forget()
        client.is_native = not client.is_native

    def _assignor(self, step: Step) -> None:
        client = self.clients[step.who]
        client.assignor = step.how["name"]

    # -- offsets

    def _commit(self, step: Step) -> None:
        client = self.clients[step.who]
        offsets = []
        for name, index, offset, metadata in step.how["offsets"]:
            topic = self.topics.topic(name)
            if topic is not None and index < topic.partitions:
                offsets.append(OffsetToCommit(name, index, offset, index, metadata, topic.topic_id))
        if not offsets:
            return
        outside = step.how.get("outside", False)
        asked = requests.commit(
            self.group_id(client.group),
            client.client_id,
            step.how.get("version", 9),
            "" if outside else self._id(client, step),
            None if outside else self._instance(client, step),
            [-1, -1] if outside else self._epochs(client, step),
            offsets,
            step.how.get("retention", -1),
        )
        self._send(client, asked)

    def _fetch(self, step: Step) -> None:
        client = self.clients[step.who]
        partitions = [
            (name, topic.topic_id if step.how.get("by_id") else NO_TOPIC_ID, index)
            for name, topic in sorted(self.topics.topics.items())
            for index in range(topic.partitions)
        ]
        is_admin = step.how.get("admin", True)
        self.pair.fetch(
            self.group_id(client.group),
            None if is_admin else self._id(client, step),
            [-1, -1] if is_admin else self._epochs(client, step),
            partitions,
        )

    def _delete_offsets(self, step: Step) -> None:
        client = self.clients[step.who]
        partitions = [(name, step.how.get("index", 0)) for name in sorted(self.topics.topics)]
        self.pair.ask(requests.delete_offsets(self.group_id(client.group), partitions))

    def _delete_group(self, step: Step) -> None:
        client = self.clients[step.who]
        _, answers = self.pair.ask(requests.delete_group(self.group_id(client.group)))
        self._receive(answers)

    # -- what happens

    def _wait(self, step: Step) -> None:
        """Let time pass, which every step does anyway."""

    def _offer(self, step: Step) -> None:
        """A client wants other topics, or offers other protocols, from its next join on."""
        client = self.clients[step.who]
        client.topics = tuple(step.how.get("topics", client.topics))
        client.protocols = tuple(step.how.get("protocols", client.protocols))
        if "regex" in step.how:
            client.regex = step.how["regex"]
        if "rack" in step.how:
            client.rack = step.how["rack"]

    def _topic(self, step: Step) -> None:
        name, count = step.how["name"], step.how["partitions"]
        known = self.topics.topic(name)
        if not count:
            if known is not None:
                self._topics_change({}, [name])
            return
        if known is not None:
            topic_id = known.topic_id
            count = max(count, known.partitions)
        else:
            self._made_topics += 1
            topic_id = self._made_topics.to_bytes(1) * 16
        self._topics_change({name: (topic_id, count)}, [])

    def _expire(self, _step: Step) -> None:
        self._receive(self.pair.expire())

    def _load(self, step: Step) -> None:
        swapped = step.how.get("swapped", False)
        self._senders.clear()
        self.pair.load(swapped=swapped, cleaned=step.how.get("cleaned", 0.0), drops=step.how.get("drops", False))
        for client in self.clients:
            if swapped:
                client.epochs.reverse()
                client.leader.reverse()
                client.held.reverse()
            if client.stage in (Stage.JOINING, Stage.SYNCING):
                client.stage = Stage.OUT
