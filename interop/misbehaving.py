"""Clients of others that misbehave, as applications do: a minute in which groups go wrong in all the known ways.

Each act returns when its group has shown what it is there for; its members stay until the stage is left, so that the
groups stand as they would be found. Members that behave well are programs of their own (`interop.group`), here are
those that need leading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Self, TypeVar

import kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from interop.group import Group, Member
from interop.waiting import eventually

COMINGS: Final = 16
OVERRUNS: Final = 5
TAKE_OVERS: Final = 7
ZOMBIE_COMMITS: Final = 5
POLL_INTERVAL_S: Final = 4
WORK_S: Final = 7
"""Longer than the poll interval by more than a client takes to see that."""
WAIT_S: Final = 240
"""The most that a busy machine takes until members have what they wait for."""
_EVERY_S: Final = 0.25
T = TypeVar("T")
_CLASSIC: Final = {"session.timeout.ms": 4000, "heartbeat.interval.ms": 300}


class Stage:
    """A broker with topics that get a record in each partition four times a second; a context manager."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int]) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        self.over = threading.Event()
        self._threads = ThreadPoolExecutor(60)
        self._began: list[Future[Any]] = []

    def __enter__(self) -> Self:
        self.begin(self._feed)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._threads.shutdown()

    def begin(self, act: Callable[..., T], *arguments: Any, **named: Any) -> Future[T]:
        """Begin something that goes on beside the others."""
        began = self._threads.submit(act, *arguments, **named)
        self._began.append(began)
        return began

    def check(self) -> None:
        """Raise what one of them has raised."""
        for began in self._began:
            if began.done():
                began.result()

    def _feed(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        while not self.over.wait(_EVERY_S):
            for topic, partitions in self.topics.items():
                for partition in range(partitions):
                    producer.produce(topic, b"value", b"key", partition=partition)
            producer.flush(30)

    def consumer(self, group: str, topics: list[str], **settings: Any) -> Consumer:
        """Return a member by librdkafka that commits by itself, twice a second."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        settled = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "log_level": 2,
        }
        timing = {} if given.get("group.protocol") == "consumer" else _CLASSIC
        consumer = Consumer({**settled, **timing, **given})
        consumer.subscribe(topics)
        return consumer

    def stay(self, *consumers: Consumer) -> None:
        """Let members poll as they should until all is over."""
        for consumer in consumers:
            self.begin(self._poll_on, consumer)

    def _poll_on(self, consumer: Consumer) -> None:
        while not self.over.is_set():
            consumer.poll(_EVERY_S)
        consumer.close()


def polled_until_assigned(*consumers: Consumer) -> None:
    """Poll until each of them has a partition."""

    def all_have_some() -> bool:
        for each in consumers:
            each.poll(0.05)
        return all(each.assignment() for each in consumers)

    eventually(all_have_some, True, WAIT_S)


def settle(stage: Stage, group: str, topics: list[str], members: int, **settings: Any) -> None:
    """Members that behave well: they come one after the other, and stay."""
    stage.stay(*_come(stage, group, topics, members, **settings))


def _come(stage: Stage, group: str, topics: list[str], members: int, **settings: Any) -> list[Consumer]:
    came: list[Consumer] = []
    for number in range(members):
        came.append(stage.consumer(group, topics, client_id=f"steady-{number}", **settings))
        polled_until_assigned(*came)
    return came


def crowd(stage: Stage, group: str, topics: list[str], members: int, **settings: Any) -> None:
    """Members of which some get nothing: more than there are partitions, or by an assignor that is unjust."""
    stage.stay(*(stage.consumer(group, topics, client_id=f"crowd-{number}", **settings) for number in range(members)))


def abandon(stage: Stage, group: str, topic: str, **settings: Any) -> None:
    """A member that reads, commits and goes for good."""
    consumer = stage.consumer(group, [topic], **settings)
    eventually(lambda: _is_record(consumer.poll(0.2)), True, WAIT_S)
    consumer.commit(asynchronous=False)
    consumer.close()


def _is_record(polled: Message | None) -> bool:
    return polled is not None and polled.error() is None


def storm(stage: Stage, group: str, topic: str, **settings: Any) -> None:
    """Two members, and a third that comes and goes all the time: a rebalance each."""
    steady = _come(stage, group, [topic], 2, **settings)

    def owned() -> int:
        for each in steady:
            each.poll(0.05)
        return sum(len(each.assignment()) for each in steady)

    for _ in range(COMINGS):
        eventually(owned, stage.topics[topic], WAIT_S)
        restless = stage.consumer(group, [topic], client_id="restless", **settings)
        polled_until_assigned(restless, *steady)
        restless.close()
    stage.stay(*steady)


def overrun(stage: Stage, group: str, topic: str, **settings: Any) -> None:
    """A member whose work takes longer than its max.poll.interval.ms, beside one that is in time."""
    settle(stage, group, [topic], 1, **settings)
    slow = stage.consumer(
        group,
        [topic],
        client_id="slow",
        max_poll_interval_ms=POLL_INTERVAL_S * 1000,
        enable_auto_commit=False,
        **settings,
    )
    times = 0
    while times < OVERRUNS:
        polled = slow.poll(_EVERY_S)
        if polled is None:
            continue
        error = polled.error()
        if error is None:
            stage.over.wait(WORK_S)
        elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
            times += 1
    stage.stay(slow)


def overrun_alone(stage: Stage, group: str, topic: str) -> None:
    """The same by kafka-python, with no other member in the group."""
    slow = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=stage.bootstrap,
        group_id=group,
        client_id="slow",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=4000,
        heartbeat_interval_ms=300,
        max_poll_interval_ms=POLL_INTERVAL_S * 1000,
        max_poll_records=1,
    )
    times = 0
    while times < OVERRUNS:
        if slow.poll(1000):
            stage.over.wait(WORK_S)
            times += 1
    stage.begin(_poll_on, stage, slow)


def _poll_on(stage: Stage, consumer: Any) -> None:
    while not stage.over.is_set():
        consumer.poll(int(1000 * _EVERY_S))
    consumer.close(autocommit=False)


def fight(group: Group, instance: str) -> None:
    """Two processes of one instance id, each started again by its supervisor when the other has put it out."""
    group.are_troubles_expected = True
    settings = {"session_ms": "30000", "assignor": "range"}
    group.start("librdkafka", instance="other", **settings)
    one = group.start("librdkafka", instance=instance, **settings)
    group.await_(lambda: bool(one.owned), "the first of them has partitions", WAIT_S)
    for _ in range(TAKE_OVERS):
        last, one = one, group.start("librdkafka", instance=instance, **settings)
        group.await_(partial(_is_fenced, last), "the other is evicted", WAIT_S)
        group.kill(last)
    group.await_(lambda: bool(one.owned), "the last of them has partitions", WAIT_S)


def _is_fenced(member: Member) -> bool:
    return any("fenced" in each for each in member.troubles)


def hold(stage: Stage, group: str, topic: str) -> None:
    """A member of the consumer protocol that does not poll when it is asked for partitions, and one that waits."""
    holder = stage.consumer(group, [topic], client_id="holder", group_protocol="consumer")
    polled_until_assigned(holder)
    stage.begin(_hold_on, stage, holder)
    stage.stay(stage.consumer(group, [topic], client_id="waiter", group_protocol="consumer"))


def _hold_on(stage: Stage, holder: Consumer) -> None:
    stage.over.wait()
    holder.close()


def rise(stage: Stage, group: str, topic: str) -> list[str]:
    """Commit for a live group in every way there is; return why those were refused that were."""
    member = stage.consumer(group, [topic], client_id="first", enable_auto_commit=False)
    polled_until_assigned(member)
    stale = member.consumer_group_metadata()
    other = stage.consumer(group, [topic], client_id="second", enable_auto_commit=False)
    polled_until_assigned(member, other)
    stage.stay(other)
    offsets = [TopicPartition(topic, 0, 1)]
    refusals = [*_refused_outside(stage, group, offsets), _refused_in_transaction(stage, offsets, stale)]
    zombie = kafka.KafkaProducer(bootstrap_servers=stage.bootstrap, transactional_id=f"zombie of {group}")
    zombie.init_transactions()
    for number in range(ZOMBIE_COMMITS):
        member.commit(offsets=[TopicPartition(topic, 0, 100 + number)], asynchronous=False)
        zombie.begin_transaction()
        # By the group's name alone, as before KIP-447: no member is fenced.
        by_name = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(10 + number, "", -1)}
        zombie.send_offsets_to_transaction(by_name, group)
        zombie.commit_transaction()
    member.commit(offsets=[TopicPartition(topic, 0, 200)], asynchronous=False)
    zombie.close()
    stage.stay(member)
    return refusals


def _refused_outside(stage: Stage, group: str, offsets: list[TopicPartition]) -> Iterator[str]:
    """An administrator, and a consumer with manually assigned partitions."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)])[group]
    try:
        yield from (each.error.name() for each in altered.result(30).topic_partitions if each.error is not None)
    except KafkaException as refused:
        yield refused.args[0].name()
    simple = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": group, "log_level": 2})
    try:
        simple.commit(offsets=offsets, asynchronous=False)
    except KafkaException as refused:
        yield refused.args[0].name()
    simple.close()


def _refused_in_transaction(stage: Stage, offsets: list[TopicPartition], stale: Any) -> str:
    """A producer that goes on for a member of an earlier generation."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": "stale", "log_level": 2})
    producer.init_transactions(30)
    producer.begin_transaction()
    try:
        producer.send_offsets_to_transaction(offsets, stale, 30)
    except KafkaException as refused:
        producer.abort_transaction(30)
        return str(refused.args[0].name())
    producer.commit_transaction(30)
    return ""


def haunt(stage: Stage, group: str, topic: str) -> None:
    """Two programs without membership that commit for the same partition, each what it has read."""
    ahead, behind = (Consumer({"bootstrap.servers": stage.bootstrap, "group.id": group}) for _ in range(2))
    for number in range(ZOMBIE_COMMITS):
        ahead.commit(offsets=[TopicPartition(topic, 0, 100 + number)], asynchronous=False)
        behind.commit(offsets=[TopicPartition(topic, 0, 10 + number)], asynchronous=False)
    ahead.close()
    behind.close()


def set_back(stage: Stage, group: str, topic: str) -> None:
    """A group that is stopped and whose offsets an administrator sets to the first one, three times."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    first = [TopicPartition(topic, number, 0) for number in range(stage.topics[topic])]
    for _ in range(3):
        abandon(stage, group, topic)
        altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, first)])[group]
        assert not any(each.error for each in altered.result(30).topic_partitions)
    settle(stage, group, [topic], 1)


def renew(stage: Stage, group: str, topic: str, other: str) -> None:
    """A member of `topic` that also commits for `other`, a topic that is deleted and created again, four times."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    member = stage.consumer(group, [topic], enable_auto_commit=False)
    polled_until_assigned(member)
    place = TopicPartition(other, 0)
    for number in range(5):
        if number:
            admin.delete_topics([other])[other].result(30)
            # Until the coordinator has deleted the offset, it stores the next one with the id of the old topic.
            eventually(lambda: member.committed([place], 30)[0].offset < 0, True, WAIT_S)
        eventually(partial(_is_created, admin, other), True, WAIT_S)
        eventually(partial(_is_committed, member, TopicPartition(other, 0, 100 - 10 * number)), True, WAIT_S)
    stage.stay(member)


def _is_created(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    except KafkaException:  # of the old one something is left
        return False
    return True


def _is_committed(member: Consumer, at: TopicPartition) -> bool:
    member.poll(0.05)
    try:
        member.commit(offsets=[at], asynchronous=False)
    except KafkaException:  # the coordinator does not know the new topic yet
        return False
    return True


def replace(stage: Stage, group: str, topic: str, **settings: Any) -> None:
    """Three members, each of which is replaced by one of the next version, as in a deployment."""
    members = _come(stage, group, [topic], 3, **settings)
    for number in range(3):
        members.pop(0).close()
        members.append(stage.consumer(group, [topic], client_id=f"next-{number}", **settings))
        polled_until_assigned(*members)
    stage.stay(*members)


def restart(stage: Stage, group: str, topic: str) -> None:
    """Two static members, one of which is restarted four times within its session."""
    steady, again = (stage.consumer(group, [topic], group_instance_id=f"i-{number}") for number in range(2))
    polled_until_assigned(steady, again)
    for _ in range(4):
        again.close()
        again = stage.consumer(group, [topic], group_instance_id="i-1")
        polled_until_assigned(steady, again)
    stage.stay(steady, again)
