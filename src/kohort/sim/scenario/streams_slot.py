"""The slot of a Kafka Streams process in a world, and the application that the processes of a group share."""

from __future__ import annotations

from kohort.sim.peers.peer_connection import ClientPlace
from kohort.sim.peers.state_directory import StateDirectory
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.peers.streams_process import StreamsProcess
from kohort.sim.scenario.simulated_cluster import MemberSlot, SimulatedCluster
from kohort.sim.scenario.world_plan import MemberPlan

FAST_PER_S = 20_000
"""How fast copies are restored in a healed world, at least."""


class StreamsSlot(MemberSlot):
    """The slot of one process; `variants` are its configurations after each bounce."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        plan: MemberPlan,
        variants: tuple[MemberPlan, ...],
        application: StreamsApplication,
    ) -> None:
        super().__init__(cluster, plan)
        self.application = application
        self.process: StreamsProcess | None = None
        self._variants = variants
        self._bounces = 0
        self._directory: StateDirectory | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and not self.process.is_over

    def start(self) -> None:
        if self.is_running or self.is_retired:
            return
        random, cluster, config = self._begin(), self._cluster, self.plan.config
        if self._directory is None or not config.is_state_kept:
            process_id = f"{self.name}-{random.randrange(1 << 32):08x}"
            self._directory = StateDirectory(process_id, self.application, config.restores_per_s, cluster.scheduler)
        if cluster.is_healed:
            self._directory.restore_faster(FAST_PER_S)
        place = ClientPlace(self.host, cluster.network, cluster.addresses, random, cluster.observer)
        self.process = StreamsProcess(self.name, place, self.plan.kind, config, self.application, self._directory)
        self.process.start()

    def close(self) -> None:
        if self.process is not None and self.is_running:
            self.is_closing = True
            self.process.close()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def change(self) -> None:
        """Have the next process configured as a bounce would."""
        self.plan = self._variants[self._bounces % len(self._variants)]
        self._bounces += 1

    def behave(self) -> None:
        """Have the copies of the process catch up."""
        self.application.stop()
        if self._directory is not None:
            self._directory.restore_faster(FAST_PER_S)
