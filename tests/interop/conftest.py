"""Brokers for the interop tests, one of each kind a session, and what of a run goes into its record."""

from __future__ import annotations

import itertools
import json
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interop.brokers import BROKERS, NEWEST, Broker
from interop.gateways import GATEWAYS, PARKED, WAYS, Way, gateway_of_three, three_nodes
from interop.group import Group
from interop.kafka import ApacheKafka
from interop.kafka_cluster import ApacheCluster
from interop.kohort_broker import KohortBroker
from interop.kohort_gateway import KohortGateway
from interop.ports import free_port
from interop.spark_cluster import SparkCluster
from interop.table import place
from interop.unavailable import Unavailable
from tests.interop.gateway_ways import GatewayWays
from tests.interop.lanes import Lanes, Stage, is_lane, order
from tests.interop.topics import coordinate_on, create_topic

from interop import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_SESSIONS = {  # so that a killed member is missed sooner, and members on Apache Kafka learn sooner
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "1000",
}
MISSING = pytest.StashKey[Counter[str]]()
"""How many tests were skipped for each part that is missing on this machine."""

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "capability(client, name, broker=parameter): the cell of docs/interop.md that a test fills"
    )
    config.addinivalue_line("markers", "lane(seconds): runs beside others, for about so long; see lanes.py")
    if not hasattr(config, "workerinput"):
        is_whole = not config.option.keyword and all(Path(argument).is_dir() for argument in config.args)
        config.pluginmanager.register(_Record(config.rootpath / "build" / "interop" / "outcomes.json", is_whole))


def pytest_sessionstart() -> None:
    # Members are asked by SIGHUP to change their protocol. Where it is ignored (nohup) they would inherit that, and a
    # JVM then never listens to it; what is handled here, they get as the system has it.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)
            _record(item)
    items.sort(key=order)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test for which a part is missing here, in a fixture or in the test itself, and keep what it is."""
    if call.excinfo is not None and isinstance(missing := call.excinfo.value, Unavailable):
        item.config.stash.setdefault(MISSING, Counter())[str(missing)] += 1
        skipped = pytest.skip.Exception(str(missing), _use_item_location=True)
        call.excinfo = pytest.ExceptionInfo.from_exc_info((type(skipped), skipped, call.excinfo.tb))
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """End with what is missing on this machine, and how to install it."""
    if missing := config.stash.get(MISSING, None):
        terminalreporter.section("parts that are missing here")
        for reason, count in sorted(missing.items()):
            terminalreporter.line(f"{count} tests skipped: {reason}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not is_lane(pyfuncitem):
        return None
    lanes = pyfuncitem.funcargs["_lanes"]
    assert isinstance(lanes, Lanes), "`stage` takes the fixture"
    lanes.result(pyfuncitem)
    pyfuncitem.user_properties.append(("figures", lanes.stage(pyfuncitem).figures))
    return True


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    """An Apache Kafka of a test's own, which the test stops and starts."""
    broker = ApacheKafka(wait_s=120)
    broker.start()
    yield broker
    broker.stop()
    broker.remove()


@pytest.fixture
def ours(kafka: ApacheKafka) -> Iterator[KohortBroker]:
    """A broker of ours, not started, that will come up at the address of the other."""
    broker = KohortBroker()
    broker.bootstrap = kafka.bootstrap
    broker.prepare()
    yield broker
    if broker.is_started:
        broker.stop()
    broker.remove()


@pytest.fixture(scope="session")
def _lanes() -> Iterator[Lanes]:
    lanes = Lanes()
    yield lanes
    lanes.end()


@pytest.fixture
def stage(request: pytest.FixtureRequest, broker: str, _lanes: Lanes) -> Stage:
    """Where a `lane` test plays, which says its broker by a parameter."""
    assert broker in (*BROKERS, NEWEST, *GATEWAYS, *WAYS), (
        "a lane test names its broker or its way to one by a parameter"
    )
    _lanes.begin(request)
    return _lanes.stage(request.node)


def _record(item: pytest.Item) -> None:
    marker = item.get_closest_marker("capability")
    if marker is None or not isinstance(item, pytest.Function):
        return
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    broker = marker.kwargs.get("broker", parameters.get("broker", "kohort"))
    client, name, broker = (text.format(**parameters) for text in (*marker.args, broker))
    cell = {"client": client, "capability": name, "broker": broker}
    place(cell)  # raises where the page has no such cell
    item.user_properties += cell.items()


@pytest.fixture(scope="session")
def _apache() -> Iterator[ApacheKafka]:
    broker = ApacheKafka(SHORT_SESSIONS)
    broker.start()
    yield broker
    broker.stop()
    broker.remove()


@pytest.fixture(scope="session")
def _kohort() -> Iterator[KohortBroker]:
    broker = KohortBroker(SHORT_SESSIONS)
    broker.start()
    yield broker
    broker.stop()
    broker.remove()


@pytest.fixture(scope="session")
def _three_nodes() -> Iterator[ApacheCluster]:
    with three_nodes(SHORT_SESSIONS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _listener_of_three(_three_nodes: ApacheCluster) -> Iterator[KohortGateway]:
    with gateway_of_three(_three_nodes, "listener") as gateway:
        yield gateway


@pytest.fixture(scope="session")
def _rewrite_of_three(_three_nodes: ApacheCluster) -> Iterator[KohortGateway]:
    with gateway_of_three(_three_nodes, "rewrite") as gateway:
        yield gateway


@pytest.fixture(scope="session")
def data_and_coordinator() -> Iterator[ApacheCluster]:
    """The newest Apache Kafka: node 1 holds data, node 2 only groups, and shows its clients a gateway in its place."""
    gateway = {2: {"CLIENTS": f"127.0.0.1:{free_port()}"}}
    listeners = ("PLAINTEXT", "CLIENTS:PLAINTEXT")
    alone = {f"{name}.replication.factor": "1" for name in ("offsets.topic", "transaction.state.log")}
    settings = {**SHORT_SESSIONS, **alone}
    with ApacheCluster(2, settings, listeners=listeners, advertised=gateway, pom=jars.NEWEST) as cluster:
        coordinate_on(cluster.bootstrap, 2)
        yield cluster


@pytest.fixture(scope="session")
def _coordinators_of_newest(data_and_coordinator: ApacheCluster) -> Iterator[KohortGateway]:
    start = data_and_coordinator.nodes[1].addresses["CLIENTS"]
    with KohortGateway(data_and_coordinator.bootstrap, *PARKED, mode="coordinators", bootstrap=start) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def _rewrite_of_newest(data_and_coordinator: ApacheCluster) -> Iterator[KohortGateway]:
    with KohortGateway(data_and_coordinator.bootstrap, *PARKED, nodes=tuple(data_and_coordinator.nodes)) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def _rewrite_of_older() -> Iterator[KohortGateway]:
    settings = {name: value for name, value in SHORT_SESSIONS.items() if not name.startswith("group.consumer.")}
    with (
        ApacheCluster(1, settings, pom="older-pom.xml") as cluster,
        KohortGateway(cluster.bootstrap, *PARKED) as gateway,
    ):
        yield gateway


@pytest.fixture(scope="session")
def _ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWays]:
    with GatewayWays(tmp_path_factory.mktemp("ways")) as ways:
        yield ways


@pytest.fixture(scope="session")
def _direct(_ways: GatewayWays) -> Way:
    return _ways["direct"]


@pytest.fixture(scope="session")
def _observe(_ways: GatewayWays) -> Way:
    return _ways["observe"]


@pytest.fixture(scope="session")
def _listener(_ways: GatewayWays) -> Way:
    return _ways["listener"]


@pytest.fixture(scope="session")
def _coordinators(_ways: GatewayWays) -> Way:
    return _ways["coordinators"]


@pytest.fixture(scope="session")
def _rewrite(_ways: GatewayWays) -> Way:
    return _ways["rewrite"]


@pytest.fixture(scope="session", params=list(BROKERS))
def broker(request: pytest.FixtureRequest) -> Broker:
    """Ours and the real one, each started once."""
    started: Broker = request.getfixturevalue(f"_{request.param}")
    return started


@pytest.fixture(scope="session")
def apache(_apache: ApacheKafka) -> ApacheKafka:
    """A real Apache Kafka."""
    return _apache


@pytest.fixture(scope="session")
def _newest() -> Iterator[ApacheKafka]:
    broker = ApacheKafka(SHORT_SESSIONS, heap="512m", pom=jars.NEWEST).start()
    yield broker
    broker.stop()
    broker.remove()


@pytest.fixture(scope="session")
def newest(_newest: ApacheKafka) -> ApacheKafka:
    """The newest Apache Kafka, of which not all jars are published yet."""
    return _newest


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    """A Spark standalone cluster of a master and two workers."""
    cluster = SparkCluster().start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark session for a file."""
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    from kohort.spark import build

    session = build("kohort interop", java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def java() -> str:
    """A Java that can run Kafka's tools, and their jars."""
    jars.class_path()
    return jars.java()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a topic or group that no other test uses."""
    plain = "".join(c if c.isalnum() else "-" for c in request.node.originalname)
    return f"{plain.removeprefix('test-')[:40]}-{next(_numbers)}"


@pytest.fixture
def topic(broker: Broker, name: str) -> str:
    """A fresh topic of six partitions."""
    create_topic(broker.bootstrap, name, 6)
    return name


@pytest.fixture
def group(broker: Broker, name: str, topic: str, tmp_path: Path) -> Iterator[Group]:
    """An empty group on the fresh topic; its members are ended with the test."""
    with Group(broker.bootstrap, f"group-{name}", topic, 6, tmp_path) as members:
        yield members


class _Record:
    """Collects the outcome of every test that fills a cell, for `python -m interop.table`."""

    def __init__(self, path: Path, is_whole: bool) -> None:
        self.path = path
        # A run of some of the tests replaces their own outcomes, and leaves those of the others.
        is_fresh = is_whole or not path.exists()
        self.is_whole = is_whole
        self.earlier: dict[str, Any] = {"is_whole": False, "cells": {}} if is_fresh else json.loads(path.read_text())
        self.cells: dict[str, dict[str, str]] = self.earlier["cells"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = {name: str(value) for name, value in report.user_properties}
        if "capability" not in properties or (report.when != "call" and report.outcome == "passed"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        cell = {**properties, "outcome": report.outcome, "reason": reason.removeprefix("Skipped: ")}
        self.cells[report.nodeid] = cell

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not session.shouldfail
        results = {"is_whole": self.earlier["is_whole"] or (self.is_whole and ended), "cells": self.cells}
        if self.cells:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(results, indent=1) + "\n")
