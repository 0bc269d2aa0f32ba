"""What the options choose for a partition without a committed offset, or with one outside its log.

`ResetPolicy` is the consumer's `auto.offset.reset`; `ChoicePolicy` is `startingOffsets` with `failOnDataLoss`, as in
Spark's own source. It also decides whether a topic that was deleted or recreated ends the query.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.list_offsets import list_starts
from kohort.client.cluster.offset_specs import EARLIEST, LATEST, READ_UNCOMMITTED, reset_timestamp
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net.environment import wall_clock
from kohort.spark.options.offset_choice import OffsetChoice, resolve

log = logging.getLogger(__name__)

_DELETED = "the topic was deleted"
_RECREATED = "the topic was deleted and created again"


class NoOffset(KafkaError):
    """A partition has no committed offset that can be read, and no option states where to read instead."""

    def __init__(self, partition: TopicPartition, committed: int | None, found: Log, advice: str) -> None:
        committed_at = "has no committed offset" if committed is None else f"has the committed offset {committed}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} {committed_at}, the log has {found.first} to {found.last}, and {advice}",
        )


class OffsetNotInLog(KafkaError):
    """An option names an offset outside a partition's log, and `failOnDataLoss` is true."""

    def __init__(self, option: str, partition: TopicPartition, offset: int, found: Log) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{option} is {offset} for {partition}, the log has {found.first} to {found.last}, and failOnDataLoss"
            " is true: name an offset that the log has, or set failOnDataLoss=false to begin at its first one",
        )


class TopicDeleted(KafkaError):
    """A topic was deleted while a job read it, and `option` (`failOnDataLoss`) is true."""

    def __init__(self, partitions: Iterable[TopicPartition], option: str) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{_names(partitions)}: {_DELETED}, and {option} is true: rows may be lost that were never read; set"
            f" {option}=false to read the other topics on",
        )


class TopicRecreated(KafkaError):
    """A topic was deleted and created again while a job read it or was down, and `option` is true.

    `is_stateful`: the job has windows, joins or keys of the old topic, which `option` does not remove.
    """

    def __init__(self, partitions: Iterable[TopicPartition], option: str, *, is_stateful: bool = False) -> None:
        advice = f"set {option}=false to read the new one from its first record on"
        if is_stateful:
            advice = (
                "begin with a new checkpoint and onNewCheckpoint=startingOffsets, and with a new table, because the"
                f" state in this checkpoint is that of the old topic; {option}=false adds the new one to it"
            )
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"{_names(partitions)}: {_RECREATED}, and {option} is true: rows of the old topic may be lost that"
            f" were never read; {advice}",
        )


@dataclass(frozen=True, slots=True)
class Log:
    """Offsets of a partition's log, from `first` up to, and without, `last`."""

    first: int
    last: int


class StartPolicy(ABC):
    """Chooses offsets for partitions without a committed offset, or with one outside the log.

    `option` is the name of the one that states whether lost rows end the job. `has_store`: a table's offsets come
    before the group's. `is_stateful`: rows that were read are in the state of the query's checkpoint.
    """

    def __init__(self, option: str, isolation: int, *, is_stateful: bool = False) -> None:
        self.has_store = False
        self._option = option
        self._isolation = isolation
        self._is_stateful = is_stateful
        self._old: frozenset[TopicPartition] = frozenset()
        """The partitions that existed when the job started; others begin at their first record."""

    @property
    def is_marking(self) -> bool:
        """Whether what it chooses is committed at once."""
        return True

    @property
    @abstractmethod
    def fails_on_data_loss(self) -> bool:
        """Whether an offset outside the log ends the job."""

    @property
    def needs_topics(self) -> bool:
        """Whether a topic that is deleted ends the job."""
        return self.fails_on_data_loss

    @property
    @abstractmethod
    def advice(self) -> str:
        """Why an offset outside the log ends the job, and what to do."""

    def see(self, partitions: Iterable[TopicPartition]) -> None:
        """Remember which partitions exist when the job starts."""
        self._old = frozenset(partitions)

    @abstractmethod
    async def begin(self, cluster: Cluster, logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
        """Return where to begin in partitions that have no committed offset. Raises NoOffset."""

    def instead(self, partition: TopicPartition, offset: int, found: Log) -> int:
        """Return the first offset of a log that lacks `offset`. Raises NoOffset where rows may not be lost."""
        if self.fails_on_data_loss:
            raise NoOffset(partition, offset, found, self.advice)
        if offset < found.first:
            lost = found.first - offset
            text = "%s: %d offsets are lost, %d to %d: the log begins at %d, where reading continues"
            log.warning(text, partition, lost, offset, found.first - 1, found.first)
        else:
            text = "%s: the log ends at %d, before offset %d: it is read from its first offset on, %d"
            log.warning(text, partition, found.last, offset, found.first)
        return found.first

    def deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Log owned partitions whose topics were deleted, and read the others on. Raises TopicDeleted."""
        if self.needs_topics:
            raise TopicDeleted(partitions, self._option)
        log.warning("%s: %s", _names(partitions), _DELETED)

    def recreated(self, partitions: Iterable[TopicPartition]) -> None:
        """Log partitions whose topics were recreated, and read those from their first records on.

        A table with rows of the old topic refuses those of the new one itself. Raises TopicRecreated.
        """
        if self.needs_topics and not self.has_store:
            raise TopicRecreated(partitions, self._option, is_stateful=self._is_stateful)
        log.warning("%s: %s", _names(partitions), _RECREATED)


class ResetPolicy(StartPolicy):
    """The consumer's `auto_offset_reset` for partitions that exist when a group begins; later ones are read whole.

    The latest offset is what `isolation` lets be read. While `is_exact`, each row is promised once: then the default of
    `reset` is "earliest" instead of "latest", and that of `fails_on_data_loss` is true. Where a table's offsets come
    first, resetting the group's changes nothing.
    """

    def __init__(
        self, reset: str | None, isolation: int = READ_UNCOMMITTED, *, fails_on_data_loss: bool | None = None
    ) -> None:
        super().__init__("fail_on_data_loss", isolation)
        self.is_exact = False
        self._reset = reset
        self._fails_on_data_loss = fails_on_data_loss

    @property
    def reset(self) -> str:
        """Where a partition begins that exists when the group begins."""
        return self._reset or ("earliest" if self.is_exact else "latest")

    @property
    def fails_on_data_loss(self) -> bool:
        """Whether an offset outside the log ends the job."""
        given = self._fails_on_data_loss
        return self.reset == "none" or (self.is_exact if given is None else given)

    @property
    def needs_topics(self) -> bool:
        """Whether a topic that is deleted ends the job: only where no row may be missing."""
        return self.is_exact and self.fails_on_data_loss

    @property
    def advice(self) -> str:
        """It names the offsets that decide, and `fail_on_data_loss` only beside a reset with which it has an effect."""
        move = "set the table's offsets (set_offsets)" if self.has_store else "reset the group's offsets"
        if self.reset == "none":
            return f'auto_offset_reset is "none": {move}, or choose earliest or latest with fail_on_data_loss=False'
        return (
            f"fail_on_data_loss is true: rows are lost; {move}, or pass fail_on_data_loss=False to continue at the"
            " first offset of the log"
        )

    @property
    def is_marking(self) -> bool:
        """Whether a choice is committed at once: the latest offset would be another one after a restart."""
        return self.reset not in ("earliest", "none")

    async def begin(self, cluster: Cluster, logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
        """Return the first or last offsets, or those of a time; the first for partitions that came later."""
        timestamp = reset_timestamp(self.reset, wall_clock()())
        if timestamp is None:
            advice = 'auto_offset_reset is "none": reset the group\'s offsets, or choose earliest or latest'
            raise NoOffset(min(logs), None, logs[min(logs)], advice)
        chosen = {each: found.first for each, found in logs.items()}
        old = logs.keys() & self._old if timestamp != EARLIEST else set()
        if timestamp == LATEST and self._isolation == READ_UNCOMMITTED:
            return chosen | {each: logs[each].last for each in old}
        # The records of an open transaction are read when it is committed.
        found = await list_starts(cluster, dict.fromkeys(old, timestamp), isolation=self._isolation, gone=set())
        return chosen | {each: at.offset for each, at in found.items()}


class ChoicePolicy(StartPolicy):
    """A stream's `startingOffsets` and `failOnDataLoss`, with the meaning that they have in Spark's own source."""

    def __init__(
        self, choice: OffsetChoice, isolation: int, *, fails_on_data_loss: bool, is_stateful: bool = False
    ) -> None:
        super().__init__("failOnDataLoss", isolation, is_stateful=is_stateful)
        self._choice = choice
        self._fails_on_data_loss = fails_on_data_loss

    @property
    def fails_on_data_loss(self) -> bool:
        """The option `failOnDataLoss`."""
        return self._fails_on_data_loss

    @property
    def advice(self) -> str:
        """It names the option, and what else moves the query: state continues at no offset that was set."""
        move = "begin with a new checkpoint" if self._is_stateful else "reset the group's offsets"
        return (
            f"failOnDataLoss is true: rows are lost; {move}, or set failOnDataLoss=false to read on at the first"
            " offset of the log"
        )

    async def begin(self, cluster: Cluster, logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
        """Return what the options chose; the first offset for partitions that came later or are not named."""
        named = self._choice.named()
        chosen = {each for each in logs if each in self._old and (named is None or each in named)}
        choice = self._choice if named is None else _only(self._choice, chosen)
        found = await resolve(cluster, choice, chosen, isolation=self._isolation) if chosen else {}
        for each in [each for each in found if self._is_beyond(each, logs[each])]:
            if self._fails_on_data_loss:
                raise OffsetNotInLog(choice.option, each, found[each], logs[each])
            found[each] = self.instead(each, found[each], logs[each])
        return {each: entry.first for each, entry in logs.items()} | found

    def _is_beyond(self, partition: TopicPartition, found: Log) -> bool:
        """Return whether the named offset is outside the log; the latest may have moved since it was looked up."""
        named = self._choice.place(partition)
        return named is not None and named >= 0 and not found.first <= named <= found.last


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _only(choice: OffsetChoice, partitions: set[TopicPartition]) -> OffsetChoice:
    return replace(
        choice,
        offsets={each: offset for each, offset in choice.offsets.items() if each in partitions},
        times_ms={each: time_ms for each, time_ms in choice.times_ms.items() if each in partitions},
    )
