"""Our commits in the log of a Delta table: whether their rows are still there.

A RESTORE to an older version takes rows away, and leaves the application transactions of them.
Transactions that expired (`delta.setTransactionRetentionDuration`) leave rows without any. Commits are
read from the log itself: the library's `history` numbers them wrongly while others commit.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from math import inf
from typing import Any

from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import Position, TableBroken

MARK = "kohort.mark"
"""What a commit of ours has in its information, and no other commit has."""

_ID_DIGITS = f" {string.ascii_letters}{string.digits}-_"
_ID_LENGTH = 10
"""How many digits of 65 kinds a version of 63 bits has."""

MOST_AT_ONCE = 64
"""How many commits are read from a storage at the same time."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the log: its time in milliseconds, what it did, and the application transactions that it has."""

    version: int
    time_ms: float = 0
    operation: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    mark: str = ""

    @property
    def is_restore(self) -> bool:
        """Whether it took the table back to an older version."""
        return self.operation == "RESTORE"


def parse_commit(version: int, text: bytes) -> Commit:
    """Return a commit of the log, which is a line of JSON for each action."""
    information: dict[str, Any] = {}
    transactions: dict[str, int] = {}
    for line in text.splitlines():
        if b'"commitInfo"' in line or b'"txn"' in line:
            action = json.loads(line)
            information |= action.get("commitInfo") or {}
            if (transaction := action.get("txn")) is not None:
                transactions[transaction["appId"]] = transaction["version"]
    return Commit(
        version,
        information.get("timestamp", 0),
        information.get("operation", ""),
        information.get("operationParameters") or {},
        transactions,
        information.get(MARK, ""),
    )


def commit_path(version: int) -> str:
    """Return where a table has a commit."""
    return f"_delta_log/{version:020}.json"


def checkpoint_path(version: int) -> str:
    """Return where a table has a checkpoint of one file, in the layout before version 2."""
    return f"_delta_log/{version:020}.checkpoint.parquet"


def read_commits(read: Callable[[str], bytes], newest: int, oldest: int) -> Iterator[Commit]:
    """Yield the commits of a log from a version back to another; it ends where the log was cleaned.

    `read` returns a file below the table. Raises FileNotFoundError by none but `read` itself.
    """

    def one(version: int) -> Commit | None:
        try:
            return parse_commit(version, read(commit_path(version)))
        except FileNotFoundError:
            return None

    at, several = newest, 1
    with ThreadPoolExecutor(MOST_AT_ONCE, "delta-log") as pool:
        while at >= oldest:
            versions = range(at, max(oldest, at - several + 1) - 1, -1)
            for commit in [one(at)] if len(versions) == 1 else pool.map(one, versions):
                if commit is None:
                    return
                yield commit
            at, several = versions[-1] - 1, min(4 * several, MOST_AT_ONCE)


def app_id(group: str, partition: TopicPartition) -> str:
    """Return the application id under which a table has the offset of a group's partition."""
    return f"kohort/{group}/{partition.topic}/{partition.partition}"


def id_app(group: str, partition: TopicPartition) -> str:
    """Return the application id under which a table has the topic's id of a group's partition."""
    return f"kohort-id/{group}/{partition.topic}/{partition.partition}"


@lru_cache(1024)
def id_number(topic_id: str | None) -> int:
    """Return the version that stands for a topic's id, of which ten characters fit; 0 where it is not known.

    Raises ValueError for a character that is in no id.
    """
    number = 0
    for each in (topic_id or "").ljust(_ID_LENGTH)[:_ID_LENGTH]:
        number = number * len(_ID_DIGITS) + _ID_DIGITS.index(each)
    return number


@lru_cache(1024)
def id_text(number: int | None) -> str | None:
    """Return the beginning of the topic's id that a version stands for."""
    text, left = "", number or 0
    while left:
        left, digit = divmod(left, len(_ID_DIGITS))
        text = _ID_DIGITS[digit] + text
    return text.rstrip() or None


def require_rows(
    table: str,
    group: str,
    found: Mapping[TopicPartition, Position],
    asked: Iterable[TopicPartition],
    commits: Iterable[Commit],
) -> None:
    """Compare the offsets that a table has with its commits, the newest first.

    Raises TableBroken where the rows of our last commit to a partition are gone, or its offset is.
    """
    left = {app_id(group, each): each for each in asked}
    last_version = last_ms = inf
    for commit in commits:
        if not left:
            return
        is_gone = commit.version > last_version or commit.time_ms > last_ms
        if commit.is_restore and not is_gone:
            last_version = min(last_version, _number(commit.parameters.get("version"), inf))
            last_ms = min(
                last_ms, _milliseconds(commit.parameters.get("timestamp") or commit.parameters.get("datetime"))
            )
            continue
        for name in left.keys() & commit.transactions.keys():
            partition, offset = left.pop(name), commit.transactions[name]
            position = found.get(partition)
            now = None if position is None else position.offset
            if is_gone:
                raise TableBroken(
                    f"{table} was restored to an older version: rows of group {group} of {partition} below offset"
                    f" {offset} are gone, and its offset there is {now}. Set the offsets to read on"
                    " from (set_offsets), or read the topic as another group"
                )
            if now != offset:
                raise TableBroken(
                    f"{table} has rows of group {group} of {partition} up to offset {offset}, and its offset there is"
                    f" {now}: application transactions expired"
                    " (delta.setTransactionRetentionDuration), or another program changed them. Set the offsets to read"
                    " on from (set_offsets)"
                )


def _number(text: object, default: float) -> float:
    try:
        return int(str(text))
    except ValueError:
        return default


def _milliseconds(text: object) -> float:
    """Return a time of RESTORE … TO TIMESTAMP AS OF; one that cannot be read is taken for none."""
    if isinstance(text, int | float):
        return text
    try:
        return datetime.fromisoformat(str(text)).timestamp() * 1000
    except ValueError:
        return inf
