"""One process of a Kafka Streams application in a simulated world: threads that share a state directory.

    process = StreamsProcess("m1", place, KINDS["streams"], config, application, directory)
    process.start(), process.close(), process.kill(), host.freeze(until_us)

As with the default handler of the Java client, a thread that fails closes the process. `is_over` once it has ended.
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode
from kohort.sim.peers.client_kinds import ClientKind, PeerConfig
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.sim.peers.state_directory import StateDirectory
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.peers.streams_thread import StreamsThread


class StreamsProcess:
    """One process. `directory` is its state on the disk."""

    def __init__(
        self,
        name: str,
        place: ClientPlace,
        kind: ClientKind,
        config: PeerConfig,
        application: StreamsApplication,
        directory: StateDirectory,
    ) -> None:
        self.name = name
        self.host = place.host
        self.application = application
        self.directory = directory
        self.is_over = False
        self._network = place.network
        self._failures: dict[str, ErrorCode] = {}
        """By the name of the thread."""
        self.threads = tuple(
            StreamsThread(f"{name}.{number}", self, place, config, self._connected(name, number, place, kind, config))
            for number in range(1, config.threads + 1)
        )

    def _connected(
        self, name: str, number: int, place: ClientPlace, kind: ClientKind, config: PeerConfig
    ) -> PeerConnections:
        return PeerConnections(
            f"{name}-StreamThread-{number}-consumer",
            config.group_id,
            place,
            versions=kind.versions,
            request_timeout_ms=config.request_timeout_ms,
            software=kind.software,
            layout=kind.connections,
        )

    @property
    def is_settled(self) -> bool:
        """Whether all threads are in their group and run what they were assigned."""
        return all(thread.is_settled for thread in self.threads)

    def start(self) -> None:
        """Begin the process."""
        if not self.host.is_up:
            self.host.boot()
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """Have all threads leave."""
        for thread in self.threads:
            thread.close()

    def kill(self) -> None:
        """End the process where it stands; its kernel resets its connections."""
        if not self.is_over:
            self._network.close_all(self.host)
            for thread in self.threads:
                thread.end("killed")

    # -- of its threads

    def thread_failed(self, thread: StreamsThread, code: ErrorCode) -> None:
        """Close the process, because a thread of it has failed."""
        self._failures[thread.name] = code
        self.close()

    def ending_of(self, thread: StreamsThread, how: str) -> str:
        """Return how a thread ends that was closed: with its own failure, if it has one."""
        code = self._failures.get(thread.name)
        return how if code is None else f"failed: {code.name}"

    def thread_over(self) -> None:
        """End the process when its last thread has ended."""
        if all(thread.is_over for thread in self.threads):
            self.is_over = True
            self.directory.close_all()
            self.host.kill()
