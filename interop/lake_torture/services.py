"""The servers of a run, each behind a gate: a broker, an object store, a PostgreSQL server, and a Spark cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from interop.kafka import ApacheKafka
from interop.lake_torture.gate import Gate
from interop.object_store import BUCKET, PASSWORD, USER, ObjectStore
from interop.postgres import Postgres
from interop.spark_cluster import SparkCluster
from interop.torture.faulty_broker import FaultyBroker

LISTENERS = ("PLAINTEXT", "CUT:PLAINTEXT")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "auto.create.topics.enable": "false",
}


class OurBroker:
    """A `kohort broker` that is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._broker = FaultyBroker(folder, folder / "broker", None)
        self.port = self._broker.behind_proxy
        self.bootstrap = self._broker.bootstrap

    def start(self, proxy_port: int) -> None:
        """Start it with a second listener, which advertises the proxy, and wait until it is ready."""
        self._broker.start(proxy_port)
        self._broker.wait_until_ready()

    def start_again(self) -> None:
        """Start it on the data that it left; it is not ready yet when this returns."""
        self._broker.start_again()

    @property
    def is_ready(self) -> bool:
        """Whether clients can connect."""
        return self._broker.is_ready

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._broker.kill()

    def close(self) -> None:
        """End it for good."""
        self._broker.kill()


class ApacheBroker:
    """An Apache Kafka that is killed and started again."""

    def __init__(self, _: Path) -> None:
        self._broker = ApacheKafka(SETTINGS, listeners=LISTENERS, heap="512m")
        self.port = 0
        self.bootstrap = ""

    def start(self, proxy_port: int) -> None:
        """Start it with a second listener, which advertises the proxy, and wait until it is ready."""
        self._broker.advertised["CUT"] = f"127.0.0.1:{proxy_port}"
        self._broker.start()
        self.bootstrap = self._broker.bootstrap
        self.port = int(self._broker.addresses["CUT"].rpartition(":")[2])

    def start_again(self) -> None:
        """Start it on the data that it left."""
        self._broker.restart()

    @property
    def is_ready(self) -> bool:
        """Whether clients can connect."""
        return self._broker.child.is_running

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._broker.child.kill()

    def close(self) -> None:
        """End it for good, and remove its data."""
        self._broker.child.kill()
        self._broker.remove()


class Services:
    """All servers; they end with the stack. `kill` ends the process that has a local port, for the gates."""

    def __init__(
        self, stack: ExitStack, folder: Path, kill: Callable[[int], bool], *, is_apache: bool, has_cluster: bool
    ) -> None:
        self.store = stack.enter_context(ObjectStore())
        self.postgres = stack.enter_context(Postgres())
        self.broker: OurBroker | ApacheBroker = (ApacheBroker if is_apache else OurBroker)(folder)
        broker_gate = _entered(stack, Gate(self.broker.port, kill))
        self.broker.start(broker_gate.port)
        stack.callback(self.broker.close)
        broker_gate.lead_to(self.broker.port)
        # The broker advertises its gate, so its port may be known after that of the gate.
        self.gates: dict[str, Gate] = {
            "broker": broker_gate,
            "store": _entered(stack, Gate(int(self.store.endpoint.rpartition(":")[2]), kill)),
            "postgres": _entered(stack, Gate(self.postgres.port, kill)),
        }
        self._make_namespace()
        self.cluster = stack.enter_context(SparkCluster(2, memory_mib=1024)) if has_cluster else None

    @property
    def bootstrap(self) -> str:
        """The broker, through its gate."""
        return f"127.0.0.1:{self.gates['broker'].port}"

    @property
    def endpoint(self) -> str:
        """The object store, through its gate."""
        return f"http://127.0.0.1:{self.gates['store'].port}"

    @property
    def conninfo(self) -> str:
        """PostgreSQL, through its gate."""
        return self.postgres.conninfo.replace(str(self.postgres.port), str(self.gates["postgres"].port))

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of jobs: where the store is and what the catalog `lake` of pyiceberg is, through the gates."""
        catalog = {
            "type": "sql",
            "uri": f"postgresql+psycopg://kohort@127.0.0.1:{self.gates['postgres'].port}/postgres",
            "warehouse": f"s3://{BUCKET}/warehouse",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": USER,
            "s3.secret-access-key": PASSWORD,
            "s3.region": "us-east-1",
        }
        named = {
            f"PYICEBERG_CATALOG__LAKE__{key.upper().replace('-', '_').replace('.', '__')}": value
            for key, value in catalog.items()
        }
        return {**os.environ, **self.store.environment, "AWS_ENDPOINT_URL": self.endpoint, **named}

    def _make_namespace(self) -> None:
        from pyiceberg.catalog import load_catalog

        catalog = f"postgresql+psycopg://kohort@127.0.0.1:{self.postgres.port}/postgres"
        warehouse = f"s3://{BUCKET}/warehouse"
        load_catalog("lake", type="sql", uri=catalog, warehouse=warehouse).create_namespace_if_not_exists("air")

    def executors(self) -> list[int]:
        """Return the processes of the cluster's executors."""
        found = []
        for worker in self.cluster.workers if self.cluster else ():
            for pid in worker.descendants():
                with suppress(OSError):
                    if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
        return found


def _entered(stack: ExitStack, gate: Gate) -> Gate:
    stack.enter_context(gate)
    return gate


def end(pid: int) -> bool:
    """End a process by SIGKILL; return whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
