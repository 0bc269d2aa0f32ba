"""Scenarios that mostly wait run side by side: tests marked `lane` begin together and are reported one by one.

Each gets a `Stage` of its own, a fresh topic and group on a broker that all share. They come after all other tests, so
that nothing is measured beside them, and those that take longest begin first.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore

import pytest
from interop.brokers import Broker
from interop.gateways import Way
from interop.group import Group
from interop.kohort_gateway import KohortGateway
from interop.unavailable import Unavailable
from tests.interop.topics import create_topic

LANES = 8

JAVA_AT_ONCE = BoundedSemaphore(4)
"""Groups of Java's members that play beside each other: with more of them, two cores start a member so slowly that the
session ends which it was to come back in."""


class Stage:
    """The place of one scenario: a broker or a gateway, a unique name, a folder for the output of its members."""

    def __init__(self, broker: Broker | KohortGateway | Way, name: str, folder: Path) -> None:
        self.broker = broker
        self.figures = ""  # what was measured, for the table
        self.bootstrap = broker.bootstrap
        self.name = name
        self.folder = folder

    @contextmanager
    def group(self, partitions: int = 6, prefix: str = "group") -> Iterator[Group]:
        """Create the topic and hand out an empty group on it, whose members are ended with the scenario."""
        create_topic(self.bootstrap, self.name, partitions)
        with Group(self.bootstrap, f"{prefix}-{self.name}", self.name, partitions, self.folder) as group:
            yield group


class Lanes:
    """The threads, and what becomes of each scenario."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(LANES, "lane")
        self._futures: dict[str, Future[None]] = {}
        self._stages: dict[str, Stage] = {}

    def begin(self, request: pytest.FixtureRequest) -> None:
        """Begin every lane test of the session, the first time."""
        if self._futures:
            return
        try:
            self._begin_all(request)
        except BaseException as error:  # out of time: those that have not begun end with the same reason
            for item in filter(is_lane, request.session.items):
                self._futures.setdefault(item.nodeid, _failed(error))
            raise

    def _begin_all(self, request: pytest.FixtureRequest) -> None:
        factory = request.getfixturevalue("tmp_path_factory")
        brokers: dict[str, Broker | KohortGateway | Way | BaseException] = {}
        for number, item in enumerate(each for each in request.session.items if is_lane(each)):
            assert isinstance(item, pytest.Function)
            parameters = dict(item.callspec.params)
            kind = str(parameters.pop("broker"))
            if kind not in brokers:
                try:
                    brokers[kind] = request.getfixturevalue(f"_{kind}")
                except Unavailable as reason:
                    brokers[kind] = reason
            found = brokers[kind]
            if isinstance(found, BaseException):
                future = _failed(found)
            else:
                name = f"{item.originalname.removeprefix('test_').replace('_', '-')[:40]}-lane-{number}"
                stage = Stage(found, name, factory.mktemp("lane"))
                self._stages[item.nodeid] = stage
                future = self._pool.submit(item.obj, stage=stage, **parameters)
            self._futures[item.nodeid] = future

    def stage(self, item: pytest.Item) -> Stage:
        """Return where a scenario plays, or raise why it cannot."""
        if item.nodeid not in self._stages:
            self.result(item)
        return self._stages[item.nodeid]

    def result(self, item: pytest.Item) -> None:
        """Wait until a scenario is over, and raise what it raised."""
        self._futures[item.nodeid].result()

    def end(self) -> None:
        """Begin nothing more, and wait for what runs."""
        self._pool.shutdown(cancel_futures=True)


def _failed(reason: BaseException) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(reason)
    return future


def is_lane(item: pytest.Item) -> bool:
    """Return whether a test runs beside others."""
    return item.get_closest_marker("lane") is not None


def order(item: pytest.Item) -> float:
    """Return the place of a test in a session: lanes last, by how many seconds they say that they take."""
    marker = item.get_closest_marker("lane")
    return -1e9 if marker is None else -float(marker.args[0])
