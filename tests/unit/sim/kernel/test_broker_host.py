"""A node in virtual time: it answers, dies, and comes back with what its disk kept."""

from __future__ import annotations

import errno
from random import Random

from kohort.log.disk import StorageError
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observers
from kohort.wire.apis import Api, response_class
from kohort.wire.frames import FrameSplitter, decode_response, gather_request
from kohort.wire.messages import CreateTopicsRequest, MetadataRequest


class Bench:
    """One node and one client that asks."""

    def __init__(self, **settings: str) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(1))
        self.client = Host("m1", self.scheduler)
        host = Host("n1", self.scheduler, drift_ppm=200, offset_ms=3)
        self.node = NodeHost(host, self.network, ("n1", 9092), Random(2), Observers(), settings)
        self.node.start()

    def ask(self, request: object, version: int) -> object:
        answers: list[object] = []
        splitter = FrameSplitter(1 << 20)
        api = Api(request.API_KEY)  # type: ignore[attr-defined]

        def opened(end):  # type: ignore[no-untyped-def]
            end.on_bytes = lambda chunk: answers.extend(
                decode_response(response_class(api), version, frame)[1] for frame in splitter.feed(chunk)
            )
            end.send(b"".join(gather_request(request, version, 1, "m1")))  # type: ignore[arg-type]

        self.network.connect(self.client, ("n1", 9092), opened, answers.append)
        self.scheduler.run_until(self.scheduler.now_us + 1_000_000)
        assert len(answers) == 1
        return answers[0]

    def create(self, name: str) -> None:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=3, replication_factor=1)
        self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)

    def topics(self) -> list[str]:
        answer = self.ask(MetadataRequest(topics=None), 12)
        return sorted(topic.name for topic in answer.topics)  # type: ignore[attr-defined]


def test_a_killed_node_comes_back_with_what_it_had_written() -> None:
    bench = Bench()
    bench.create("orders")
    bench.node.end("kill")
    assert bench.node.node is None
    assert bench.node.start()
    assert bench.topics() == ["orders"]


def test_a_node_that_cannot_read_its_disk_does_not_start() -> None:
    bench = Bench()
    bench.create("orders")
    bench.node.end("kill")

    def fault(operation: str, path: str) -> None:
        if operation == "read":
            raise StorageError(errno.EIO, "input/output error", path)

    bench.node.disk.fault = fault
    assert not bench.node.start()
    assert bench.node.failure is not None
    bench.node.disk.fault = None
    assert bench.node.start()
    assert bench.topics() == ["orders"]
