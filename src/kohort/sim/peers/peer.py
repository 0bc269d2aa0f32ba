"""One process of a member in a simulated world: our state machines behind real bytes, and a user who reads and commits.

    peer = Peer("m1", host, network, [("n1", 9092)], KINDS["cooperative"], draw.stream("m1/1"), observer,
                PeerConfig("g", ("orders",)))
    peer.start()        # looks at the cluster, joins, polls; boots the host if it is down
    peer.subscribe(("orders", "bills")), peer.rejoin("why"), peer.close(), peer.kill(), host.freeze(until_us)

A restart is a new `Peer` of the same name on the same host, with a stream of its own. `is_over` once it has ended;
`is_settled` when it owns what it shall and reads it; `owned`; `failure` if the group put it out for good.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from kohort.client.membership.consumer_messages import REGEX_VERSION
from kohort.member import ClassicMember, ConsumerMember, Identity, effects, inputs
from kohort.member.callback_contract import ContractBroken
from kohort.member.contract_checker import ConsumerWitness, Witness
from kohort.member.identity import NOBODY
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.sim.kernel.host import Alarm, Host
from kohort.sim.kernel.network import Address, Network
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.client_kinds import Kind, PeerConfig
from kohort.sim.peers.group_requests import ClassicSpeech, ConsumerSpeech
from kohort.sim.peers.heartbeat_pace import LONGEST_GAPS
from kohort.sim.peers.peer_application import Application
from kohort.sim.peers.peer_link import PeerLink
from kohort.sim.peers.peer_metadata import PeerTopics
from kohort.wire.apis import Api

NOTHING: Partitions = frozenset()
CLOSING = "the consumer is being closed"


class Peer:
    """One process. `made_as` is the kind of program it is, `config` what its user says."""

    def __init__(
        self,
        name: str,
        host: Host,
        network: Network,
        bootstrap: Sequence[Address],
        kind: Kind,
        random: Random,
        observer: Observer,
        config: PeerConfig,
    ) -> None:
        self.name = name
        self.host = host
        self.made_as = kind
        self.random = random
        self.observer = observer
        self.config = config
        self.group_id = config.group_id
        self.instance_id = config.instance_id
        self.kind = kind.label
        self.failure: effects.Fail | None = None
        self.is_over = False
        self._network = network
        self._wants: tuple[tuple[str, ...], str | None] = (config.topics, config.pattern)
        self._is_begun = False
        self._inbox: deque[inputs.Input] = deque()
        self._is_stepping = False
        self._told: Partitions = NOTHING
        self._named: tuple[str, ...] = ()
        """The topics that the group was told last."""
        self._awaited: tuple[frozenset[str], int, Callable[[], None]] | None = None
        self._alarm = Alarm(host, self._tick)
        self.link = PeerLink(
            name,
            config.group_id,
            host,
            network,
            bootstrap,
            random,
            versions=kind.versions,
            request_timeout_ms=config.request_timeout_ms,
            software=kind.software,
            connections=kind.connections,
        )
        self.topics = PeerTopics(self.link, config.metadata_ms, self._topics_changed)
        speech = ConsumerSpeech if kind.protocol == "consumer" else ClassicSpeech
        self._speech: ClassicSpeech | ConsumerSpeech = speech(
            self.link, self.topics, kind, config.member_config(kind), self.take, self._asked, self._heard
        )
        self.member: ClassicMember | ConsumerMember = self._speech.member
        self._oath = ConsumerWitness(self.member) if isinstance(self.member, ConsumerMember) else Witness(self.member)
        self.application = Application(self)

    # -- as others see it

    @property
    def identity(self) -> Identity:
        """Its member id with the generation or epoch that it shows; empty before it joined."""
        return NOBODY if self.is_over else self.member.identity

    @property
    def owned(self) -> Partitions:
        """What it owns."""
        return NOTHING if self.is_over else self.member.owned

    @property
    def is_settled(self) -> bool:
        """Whether it is in its group, owns what it shall, reads that, and no round is under way."""
        member = self.member
        if self.is_over or not member.is_stable or not self.application.is_settled:
            return False
        return not (isinstance(member, ClassicMember) and member.is_rejoin_wanted)

    @property
    def is_closing(self) -> bool:
        """Whether its user has asked it to end."""
        return self.application.is_closing

    # -- its life

    def start(self) -> None:
        """Begin the process."""
        if not self.host.is_up:
            self.host.boot()
        self.observer.member_started(self)
        self.observer.configured(self, LONGEST_GAPS[self.made_as.pace] * self.config.heartbeat_interval_ms)
        self.topics.is_following_all = self._wants[1] is not None
        self.topics.follow(self._wants[0])
        self.topics.look()

    def kill(self) -> None:
        """End the process where it stands; its kernel resets its connections."""
        if not self.is_over:
            self._network.close_all(self.host)
            self._end("killed")

    def close(self, leave: bool | None = None) -> None:
        """Have the user close the member when it is done with what it works on. `leave` as in `CloseRequested`."""
        if self.is_over:
            return
        if self._is_begun:
            self.application.close(inputs.CloseRequested(CLOSING, leave))
        else:
            self._end("closed")

    def when_in(self, states: frozenset[str], wait_us: int, action: Callable[[], None]) -> None:
        """Do something once, so long after the member's state machine is next in one of these states."""
        self._awaited = (states, wait_us, action)

    def subscribe(self, topics: Sequence[str], pattern: str | None = None) -> None:
        """Want other topics from now on."""
        self._wants = (tuple(topics), pattern)
        self.topics.is_following_all = pattern is not None
        if self.topics.follow(topics) or pattern is not None:
            self.topics.want_look()
        if self._is_begun and not self.is_over:
            self.take(self._subscribed())

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance (classic)."""
        if self._is_begun and not self.is_over:
            self.take(inputs.RejoinRequested(reason))

    # -- the inside

    def take(self, event: inputs.Input) -> None:
        """Let the member take an input, after those that came before it, and do what it asks for."""
        self._inbox.append(event)
        if self._is_stepping or self.is_over:
            return
        self._is_stepping = True
        while self._inbox and not self.is_over:
            self._step(self._inbox.popleft())
        self._is_stepping = False
        if not self.is_over:
            self._watch()

    def _step(self, event: inputs.Input) -> None:
        member = self.member
        state, identity = member.state, member.identity
        try:
            asked = self._oath.step(event, self.host.now_ms())
        except ContractBroken as broken:
            self.observer.contract_broken(self, str(broken))
            raise
        if member.owned is not self._told:
            self._tell_owned(member.owned)
        if member.state is not state:
            error = getattr(event, "error", None)
            cause = f"{type(event).__name__} {error.name}" if error else type(event).__name__
            self.observer.member_moved(self, member.state.value, cause)
            if self._awaited is not None and member.state.value in self._awaited[0]:
                (_, wait_us, action), self._awaited = self._awaited, None
                self.host.after_us(wait_us, action)
        for effect in asked:
            self._carry_out(effect)
            if self.is_over:
                return
        if member.state is not state or member.identity is not identity:
            self.application.member_changed()

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.RunCallback():
                self.topics.follow({partition.topic for partition in effect.partitions})
                self.application.run_callback(effect)
            case effects.Rediscover():
                self.link.rediscover()
            case effects.Fail():
                self.failure = effect
                self.application.close(inputs.CloseRequested(CLOSING))
            case effects.Ended():
                self._end("closed" if self.failure is None else f"failed: {self.failure.code.name}")
            case effects.TellUser() | effects.PollLate() | effects.PollMissed():
                pass
            case _:
                self._speech.carry_out(effect)

    def _end(self, how: str) -> None:
        if how != "killed":
            self.link.close()
        if self._told:
            self._tell_owned(NOTHING)
        self.is_over = True
        self.observer.member_ended(self, how)
        self.host.kill()

    def _tell_owned(self, owned: Partitions) -> None:
        if owned != self._told:
            self.application.commits.gave_up(sorted(self._told - owned))
            self.observer.owns(self, owned)
        self._told = owned

    def _watch(self) -> None:
        self._alarm.set(self.member.next_deadline_ms())

    def _tick(self) -> None:
        deadline_ms = self.member.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.host.now_ms():
            self.take(inputs.Tick())
        else:
            self._watch()

    # -- topics

    def _topics_changed(self) -> None:
        if self.is_over:
            return
        self.take(self._speech.seen())
        if not self._is_begun:
            self._is_begun = True
            self.take(self._subscribed())
            self.application.begin()
            return
        if self._wants[1] is not None:
            self.take(self._subscribed())
        self.application.reading.topics_changed()
        self.application.go_on()

    def _subscribed(self) -> inputs.Subscribed:
        topics, pattern = self._wants
        if pattern is None:
            return inputs.Subscribed(topics)
        matches = re.compile(pattern).fullmatch
        found = [
            topic.name
            for topic in self.topics.view.topics.values()
            if topic.partitions and not topic.is_internal and matches(topic.name)
        ]
        wanted = tuple(dict.fromkeys([*topics, *sorted(found)]))
        if self.made_as.protocol == "consumer":
            is_resolved_here = self.link.version(Api.CONSUMER_GROUP_HEARTBEAT) < REGEX_VERSION
            return inputs.Subscribed(wanted, regex=None if is_resolved_here else pattern, names=topics)
        return inputs.Subscribed(wanted, lambda topic: matches(topic) is not None)

    # -- what it says and hears

    def _asked(self, request: str, detail: str) -> None:
        if request == "JoinGroup" or (request == "ConsumerGroupHeartbeat" and self.member.topics is not self._named):
            self._named = self.member.topics
            self.observer.subscribed(self, self._named)
        self.observer.asked(self, request, detail)

    def _heard(self, request: str, error: ErrorCode, detail: str) -> None:
        self.observer.answered(self, request, error, detail)
