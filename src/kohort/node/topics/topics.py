"""Topics and their partitions: what exists, under which id, with which settings, and where its bytes are.

Every change is an entry of the metadata log before it is visible, and replaying that log gives the same
topics. A partition's log is opened when it is first needed. Leader epochs count the starts of this broker
since the partition was created.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from kohort.log import checkpoints
from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID, topic_id_text
from kohort.model.setting import SettingsError
from kohort.node.configuration.config import TopicConfig
from kohort.node.metadata_log import DIRECTORY, Entry, MetadataLog
from kohort.node.rate_limited_log import RateLimitedLog
from kohort.node.topics.topic import INTERNAL, Partition, Storage, Topic

log = logging.getLogger("kohort.node")

MAX_NAME = 249
MAX_PARTITIONS = 100_000
CREATION_STEPS = 32
"""What the creation, growth or deletion of a topic counts in a turn of the event loop."""

_LISTED = 10
_FOLDER = re.compile(r"([a-zA-Z0-9._-]+)-\d+")
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class Topics:
    """All topics of the broker, by name and by id.

    `on_change` is called with a topic's name after it was created, grown or deleted.
    """

    def __init__(self, storage: Storage, metadata: MetadataLog, random_bytes: Callable[[int], bytes]) -> None:
        self._storage = storage
        self._config = storage.config
        self._metadata = metadata
        self._random_bytes = random_bytes
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._partition_count = 0
        self._deleted: set[str] = set()
        self._warnings = RateLimitedLog()
        self.on_change: list[Callable[[str], None]] = []

    # -- asking

    def __iter__(self) -> Iterator[Topic]:
        """Yield topics by name."""
        return iter([self._topics[name] for name in sorted(self._topics)])

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def find(self, key: str | bytes) -> Topic:
        """Return the topic of a name or an id. Raises KafkaError."""
        topic = self._by_id.get(key) if isinstance(key, bytes) else self._topics.get(key)
        if topic is None:
            is_id = isinstance(key, bytes)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if is_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def find_partition(self, key: str | bytes, index: int) -> Partition:
        """Return a partition of the topic of a name or an id. Raises KafkaError."""
        return self.find(key).partition(index)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return one partition, or None when the topic or the number does not exist."""
        topic = self._topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    # -- changing

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Raise KafkaError when such a topic may not be created."""
        check_name(name)
        if name in self._topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._collisions.get(_collision_key(name))
        if other is not None:
            # In Kafka's metric names '.' and '_' are the same, and clients rely on the refusal.
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        if not 0 < partitions <= MAX_PARTITIONS:
            text = f"Number of partitions was set to {partitions}; it must be from 1 to {MAX_PARTITIONS}."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
        if name not in INTERNAL:
            self.check_room(partitions)
        try:
            TopicConfig(self._config, configs)
        except SettingsError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str], now_ms: int, *, topic_id: bytes | None = None
    ) -> Topic:
        """Create a topic and return it. Raises KafkaError, and StorageError when it cannot be written down."""
        self.check_new(name, partitions, configs)
        text = (topic_id or self._new_id()).hex()
        entry: Entry = {"type": "topic", "name": name, "id": text, "partitions": partitions}
        self._clear(name, 0, partitions)
        self._write([{**entry, "configs": dict(configs), "epoch": self._storage.epoch, "at_ms": now_ms}], now_ms)
        self._changed(name)
        return self._topics[name]

    def check_room(self, partitions: int) -> None:
        """Raise KafkaError when the broker may not have so many partitions more."""
        most = self._config.kohort_partitions_max
        if self._partition_count + partitions > most:
            text = f"The broker has {self._partition_count} partitions; kohort.partitions.max is {most}."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)

    def ensure_internal(self, name: str, partitions: int, configs: Mapping[str, str], now_ms: int) -> Topic:
        """Return an internal topic, created if there is none. Raises KafkaError, StorageError.

        Folders that it has left where the metadata log was lost or shortened are taken up, under their own id: clients
        cannot delete such a topic, so their content is as it was.
        """
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        topic_id, highest = self._stored(name)
        if topic_id is None:
            return self.create(name, partitions, configs, now_ms)
        if highest >= partitions:
            text = (
                f"the folder has {highest + 1} partitions or more, and is to have {partitions}; set their former number"
            )
            raise StorageError(errno.EINVAL, text, f"{name}-{highest}")
        log.warning(
            "%s is not in the metadata log, which was lost or shortened, but has folders: it is taken up again with %d "
            "partitions, under their topic id %s", name, partitions, topic_id_text(topic_id),
        )  # fmt: skip
        return self.create(name, partitions, configs, now_ms, topic_id=topic_id)

    def _stored(self, name: str) -> tuple[bytes | None, int]:
        """Return the id that all folders of a topic have, None if there is none, and the highest partition."""
        disk = self._storage.disk
        indexes = [int(text) for each in disk.list("") if (text := each.removeprefix(f"{name}-")).isdecimal()]
        ids = {checkpoints.read_topic_id(disk, f"{name}-{index}") for index in indexes} - {NO_TOPIC_ID}
        return ids.pop() if len(ids) == 1 else None, max(indexes, default=-1)

    def check_automatic(self, name: str) -> None:
        """Raise KafkaError when such a topic may not be created because a client asked for it."""
        self.check_new(name, 1, {})
        most, now_ms = self._config.kohort_auto_create_topics_max, self._storage.clock.now_ms
        if len(self._topics) < most:
            return
        text = "topic %s is not created by the request that names it: there are %d topics, and"
        text += " kohort.auto.create.topics.max is %d; create it yourself, or raise the setting"
        self._warnings.warning("uncreated", now_ms, text, name, len(self._topics), most)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def grow(self, topic: Topic, partitions: int, now_ms: int) -> None:
        """Give a topic more partitions."""
        entry: Entry = {"type": "grow", "name": topic.name, "partitions": partitions}
        self._clear(topic.name, len(topic.partitions), partitions)
        self._write([{**entry, "epoch": self._storage.epoch, "at_ms": now_ms}], now_ms)
        self._changed(topic.name)

    def delete(self, topic: Topic, now_ms: int) -> None:
        """Delete a topic and its files."""
        self._write([{"type": "delete", "name": topic.name, "at_ms": now_ms}], now_ms)
        self._changed(topic.name)
        for partition in topic.partitions:
            partition.delete()
            self._deleted.discard(partition.directory)

    def alter(self, topic: Topic, changes: Iterable[tuple[str, str | None]], now_ms: int) -> None:
        """Set or (None) remove settings of a topic that were checked before."""
        entries = [
            {"type": "topic_config", "topic": topic.name, "name": name, "value": value, "at_ms": now_ms}
            for name, value in changes
        ]
        self._write(entries, now_ms)
        for partition in topic.partitions:
            partition.reconfigure()

    # -- replaying

    def apply(self, entry: Entry) -> None:
        """Fold one metadata entry into the topics; entries of other types are ignored."""
        match entry["type"]:
            case "topic":
                name = entry["name"]
                config = TopicConfig(self._config, entry["configs"])
                topic = Topic(self._storage, name, bytes.fromhex(entry["id"]), config)
                self._topics[name] = self._by_id[topic.topic_id] = topic
                self._collisions[_collision_key(name)] = name
                topic.extend(entry["partitions"], entry["epoch"])
                self._partition_count += len(topic.partitions)
            case "grow":
                topic = self._topics[entry["name"]]
                self._partition_count -= len(topic.partitions)
                topic.extend(entry["partitions"], entry["epoch"])
                self._partition_count += len(topic.partitions)
            case "delete":
                topic = self._topics.pop(entry["name"])
                del self._by_id[topic.topic_id]
                del self._collisions[_collision_key(topic.name)]
                self._partition_count -= len(topic.partitions)
                self._deleted.update(partition.directory for partition in topic.partitions)
            case "topic_config":
                self._topics[entry["topic"]].config.alter(entry["name"], entry["value"])

    def entries(self, now_ms: int) -> Iterator[Entry]:
        """Yield the entries that give these topics; partitions that were added later have entries of their own."""
        for topic in self:
            count = 0
            for epoch, added in groupby(topic.partitions, lambda partition: partition.created_epoch):
                entry: Entry = {"type": "grow", "name": topic.name}
                if not count:
                    configs = dict(topic.config.texts)
                    entry = {"type": "topic", "name": topic.name, "id": topic.topic_id.hex(), "configs": configs}
                count += len(list(added))
                yield {**entry, "partitions": count, "epoch": epoch, "at_ms": now_ms}

    @property
    def has_leftovers(self) -> bool:
        """Whether a deleted topic has files still, which its entry in the log must have removed."""
        return bool(self._deleted)

    def remove_leftovers(self) -> None:
        """Remove what a crash in the middle of a deletion left on the disk."""
        existing = {partition.directory for topic in self._topics.values() for partition in topic.partitions}
        for directory in sorted(self._deleted - existing):
            self._storage.disk.remove_directory(directory)
        self._deleted.clear()

    def report_strays(self) -> None:
        """Log which topics have folders and no entry in the metadata log."""
        existing = {partition.directory for topic in self._topics.values() for partition in topic.partitions}
        strays = set(self._storage.disk.list("")) - existing - {DIRECTORY}
        found = (match[1] for each in strays if (match := _FOLDER.fullmatch(each)))
        names = sorted(set(found) - self._topics.keys() - INTERNAL)
        if names:
            log.warning(
                "folders of %d topics have no entry in the metadata log, which was lost or shortened, or lie here by "
                "mistake: %s%s; they are not served, and topics of these names cannot be used: put the folder "
                "__kohort_metadata-0 back from a copy, or move these folders away",
                len(names), ", ".join(names[:_LISTED]), ", …" if len(names) > _LISTED else "",
            )  # fmt: skip

    def close(self) -> None:
        """Flush and close every open log."""
        for topic in self._topics.values():
            for partition in topic.partitions:
                partition.close()

    # -- inside

    def _write(self, entries: list[Entry], now_ms: int) -> None:
        self._metadata.append(entries, now_ms)
        for entry in entries:
            self.apply(entry)

    def _new_id(self) -> bytes:
        while (topic_id := self._random_bytes(16)) == NO_TOPIC_ID or topic_id in self._by_id:
            pass
        return topic_id

    def _clear(self, name: str, first: int, end: int) -> None:
        """Remove what a deletion that failed left where new partitions will be."""
        if self._deleted:
            for directory in self._deleted & {f"{name}-{index}" for index in range(first, end)}:
                self._storage.disk.remove_directory(directory)
                self._deleted.discard(directory)

    def _changed(self, name: str) -> None:
        for listener in self.on_change:
            listener(name)


def check_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION), in Kafka's words, when a topic may not have that name."""
    if not name:
        text = "the empty string is not allowed"
    elif name in (".", ".."):
        text = "'.' or '..' is not allowed"
    elif len(name) > MAX_NAME:
        text = f"the length of '{name}' is longer than the max allowed length {MAX_NAME}"
    elif not _LEGAL.fullmatch(name):
        text = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {text}")


def _collision_key(name: str) -> str:
    return name.replace(".", "_")
