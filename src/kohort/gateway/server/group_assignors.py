"""Assignors of groups by the settings' patterns, run in threads: a user's code neither stops nor delays the traffic.

The topics are looked up for each round, since one may have been created a moment ago. While a
thread does not end, its group has no assignor; the process may end although it runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from kohort.assign.server.adapter import TargetRefused, assign_by_name
from kohort.assign.server.spec import ServerAssignor
from kohort.assign.server.uniform import UniformAssignor
from kohort.assign.spec import GroupSpec, TopicSpec
from kohort.broker.server_assignors import load_assignors
from kohort.client import Cluster
from kohort.client.cluster.metadata import ClusterView
from kohort.gateway.assigning.assignments import Done, Intended
from kohort.gateway.gateway_settings import AssignorRow
from kohort.gateway.server.load_assignors import LoadAssignor
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.setting import SettingsError
from kohort.wire.messages import MetadataRequest

MOST_RUNNING = 64
"""How many assignors run at the same time; of further groups the leader's own assignment passes."""

DEFAULT = "uniform"
"""The assignor of a cooperative group that has drained members and no assignor of its own."""


class RunFailed(ValueError):
    """An assignor did not assign; the text is the reason."""


class GroupAssignors:
    """Runs the assignors (`AssignorRunner`). `informed` are those of the gateway's own that look loads up, by name.

    `ended` is called after each run, since it may have armed or disarmed timers. Raises SettingsError.
    """

    def __init__(
        self,
        rows: Iterable[AssignorRow],
        cluster: Cluster,
        now_ms: Callable[[], int],
        ended: Callable[[], None],
        informed: Mapping[str, LoadAssignor] | None = None,
    ) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._ended = ended
        self._informed = informed or {}
        self._rows: tuple[AssignorRow, ...] = ()
        self._loaded: dict[str, ServerAssignor] = {}
        self.change(rows)
        self._running: set[str] = set()
        """Groups whose assignor runs now."""
        self._tasks: set[asyncio.Task[None]] = set()

    def change(self, rows: Iterable[AssignorRow]) -> None:
        """Take other rows, for the next rounds of their groups. Raises SettingsError; then the rows stay."""
        rows = tuple(rows)
        names = sorted({row.assignor for row in rows if row.assignor not in self._informed})
        self._loaded = {name: self._loaded.get(name) or _loaded(name) for name in names}
        self._rows = rows

    def assignor_of(self, group_id: str) -> str | None:
        """Return the name of the assignor of a group: the first row that matches decides."""
        return next((row.assignor for row in self._rows if fnmatchcase(group_id, row.groups)), None)

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done) -> None:
        """Look the topics up, run the assignor, and call `done`."""
        if group_id in self._running:
            done("its previous run has not ended", self._now_ms())
        elif len(self._running) >= MOST_RUNNING:
            done(f"{MOST_RUNNING} others run already", self._now_ms())
        else:
            self._running.add(group_id)
            task = asyncio.get_running_loop().create_task(self._run(group_id, members, topics, done))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Wait for no run any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done) -> None:
        outcome: Intended | str
        try:
            outcome = await self._intended(group_id, members, topics)
        except KafkaError as error:
            outcome = f"the topics cannot be looked up: {error}"
        except Exception as error:
            outcome = _reason(error)
        finally:
            self._running.discard(group_id)
        done(outcome, self._now_ms())
        self._ended()

    async def _intended(self, group_id: str, members: GroupSpec, topics: frozenset[str]) -> Intended:
        known = await self._topics(topics)
        if not members.members:
            return Intended({}, known)
        wanted = {topic for member in members.members.values() for topic in member.subscription.topics}
        spec = GroupSpec(members.members, {topic: each for topic, each in known.items() if topic in wanted})
        name = self.assignor_of(group_id) or DEFAULT
        informed = self._informed.get(name)
        if informed is not None:
            assignor = await informed.prepared(group_id, spec)
        else:
            assignor = self._loaded.get(name) or UniformAssignor()
        return Intended(await _in_thread(lambda: assign_by_name(assignor, spec)), known)

    async def _topics(self, names: frozenset[str]) -> dict[str, TopicSpec]:
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(name=name) for name in sorted(names)], allow_auto_topic_creation=False
        )
        view = ClusterView.read(await self._cluster.call_any(request))
        return {name: spec for name in sorted(names) if (spec := view.spec(name)) is not None}


def _loaded(name: str) -> ServerAssignor:
    try:
        return next(iter(load_assignors([name]).values()))
    except SettingsError as error:
        raise SettingsError(f"assignors: {error}") from error


async def _in_thread(work: Callable[[], dict[str, Partitions]]) -> dict[str, Partitions]:
    """Return what `work` returns, computed in a thread that the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[dict[str, Partitions]] = loop.create_future()

    def settle(result: dict[str, Partitions] | None, why: str) -> None:
        if future.cancelled():
            return
        if result is None:
            future.set_exception(RunFailed(why))
        else:
            future.set_result(result)

    def run() -> None:
        result, why = None, ""
        try:
            result = work()
        except BaseException as error:
            why = _reason(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, why)

    threading.Thread(target=run, name="kohort assignor", daemon=True).start()
    return await future


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, TargetRefused | RunFailed) else f"it raised {type(error).__name__}: {error}"
