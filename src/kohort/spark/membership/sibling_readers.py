"""Readers of one application that are members of the same group and read the same topics.

Spark makes a process for each source of each query, which does not know its query. Two queries that share a group may
be intended: each reads a part of the rows, which is logged as a warning. Two sources of one query never are: each side
of a union or self-join would miss rows, so the query is refused. Sources of one query are known by Spark's order of
calls: it makes all of them before it calls the first, and reads a planned batch only when the last has planned.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kohort.model.errors import ErrorCode, KafkaError
from kohort.spark.membership.application import Calls
from kohort.spark.membership.control_socket import directory, is_private, socket_path

log = logging.getLogger(__name__)

_POLL_S = 0.05
_ANSWER_S = 2.0
PATIENCE_S = 5.0
"""How long a planned batch of another query may wait to be read: Spark writes its end to the checkpoint meanwhile."""


@dataclass(frozen=True, slots=True)
class SiblingReader:
    """A reader as it describes itself to others: its application's process, what it reads, and its calls."""

    name: str
    application: int
    cluster: str
    group: str
    topics: frozenset[str]
    calls: Calls

    def to_json(self) -> dict[str, Any]:
        """Return the answer of the control socket."""
        return asdict(self) | {"topics": sorted(self.topics)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SiblingReader:
        """Return the reader that `to_json` described. Raises KeyError, TypeError."""
        read = {"topics": frozenset(found["topics"]), "calls": Calls(**found["calls"])}
        return cls(**{**found, **read})

    def shares_with(self, other: SiblingReader) -> frozenset[str]:
        """Return the topics whose rows are divided between two readers of one application."""
        mine, theirs = ((each.application, each.cluster, each.group) for each in (self, other))
        return self.topics & other.topics if mine == theirs and self.name != other.name else frozenset()

    def may_be_of_query_of(self, other: SiblingReader) -> bool:
        """Return whether both were made before Spark called either."""
        made_ns = max(self.calls.made_ns, other.calls.made_ns)
        return all(made_ns < (each.calls.called_ns or math.inf) for each in (self, other))


class Siblings:
    """The readers that share topics and group with one reader, in its application."""

    def __init__(self) -> None:
        self._known: dict[str, bool] | None = None

    async def check(self, me: SiblingReader, patience_s: float = PATIENCE_S) -> None:
        """Log readers of other queries, once. Raises KafkaError for one of the same query."""
        if self._known is None:
            self._known = {}
            for other in await _readers():
                if shared := me.shares_with(other):
                    self._known[other.name] = me.may_be_of_query_of(other)
                    _warn(me.group, shared)
        for name in [name for name, is_suspect in self._known.items() if is_suspect]:
            await self._refuse(me, name, patience_s)

    async def _refuse(self, me: SiblingReader, name: str, patience_s: float) -> None:
        """Raise unless Spark reads the batch that the other reader planned: one query waits for this reader first."""
        assert self._known is not None, "a reader is known"
        deadline_s = time.monotonic() + patience_s
        while (other := await _ask(name)) is not None and other.calls.is_planned:
            if time.monotonic() > deadline_s:
                topics = ", ".join(sorted(me.shares_with(other)))
                raise KafkaError(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"this query loads {topics} more than once as the group {me.group!r}: each of its sources would get"
                    " only a part of the rows; load the topic once, or give each source a group.id of its own",
                )
            await asyncio.sleep(_POLL_S)
        if other is None:
            del self._known[name]


def _warn(group: str, shared: frozenset[str]) -> None:
    log.warning(
        "group %s: two queries of this application read %s as this group: each gets a part of the rows; give each a"
        " group.id of its own if both need all of them",
        group,
        ", ".join(sorted(shared)),
    )


async def _readers() -> list[SiblingReader]:
    """Return this user's readers on this host that answer."""
    folder = directory()
    names = [path.stem for path in folder.glob("*.socket")] if is_private(folder) else []
    found = await asyncio.gather(*map(_ask, names))
    return [each for each in found if each is not None]


async def _ask(name: str) -> SiblingReader | None:
    """Return how a reader describes itself, or None where it does not answer."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(socket_path(name))
            try:
                writer.write(b'{"describe": true}\n')
                return SiblingReader.from_json(json.loads(await reader.readline()))
            finally:
                writer.close()
    except (OSError, ValueError, KeyError, TypeError):
        return None
