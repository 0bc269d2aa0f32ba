"""The place of one transactional id in a world: the processes that use it, one at a time unless a second one begins.

A process that failed is started again, as an orchestrator does it, unless another one runs already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, Network
from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.peer_connection import ClientPlace
from kohort.sim.peers.transactional_producer import ProducerPlan, TransactionalProducer
from kohort.sim.scenario.world_plan import SECOND_US

AGAIN_US = SECOND_US
"""How soon a process that failed is started again."""


class ProducerSlot:
    """One transactional id. Its processes run on two hosts, so that one may begin while another has not ended."""

    def __init__(
        self,
        plan: ProducerPlan,
        hosts: Callable[[str], Host],
        network: Network,
        addresses: Sequence[Address],
        rng: Rng,
        observer: Observer,
    ) -> None:
        self.plan = plan
        self.hosts = (hosts(plan.name), hosts(f"{plan.name}b"))
        self.is_finishing = False
        self.is_end_broken = False
        """Whether the connections of a process break when it sends the next request that ends a transaction."""
        self._network = network
        self._addresses = addresses
        self._rng = rng
        self._observer = observer
        self._numbers = count(1)
        self._births = 0
        self._processes: list[TransactionalProducer] = []

    @property
    def running(self) -> list[TransactionalProducer]:
        """The processes, the newest last."""
        self._processes = [each for each in self._processes if not each.is_over]
        return self._processes

    @property
    def is_finished(self) -> bool:
        """Whether each process has committed its last transaction."""
        return bool(self.running) and all(each.is_finished for each in self.running)

    def start(self) -> bool:
        """Begin one more process; False where there is no host for it."""
        taken = [each.host for each in self.running]
        free = [host for host in self.hosts if host not in taken]
        if not free:
            return False
        self._births += 1
        random = self._rng.stream(f"{self.plan.name}/{self._births}")
        place = ClientPlace(free[0], self._network, self._addresses, random, self._observer)
        process = TransactionalProducer(self.plan, place, self._numbers, self._ended, self._end_sent)
        process.is_last = self.is_finishing
        self._processes.append(process)
        process.start()
        return True

    def start_again(self) -> None:
        """Begin a process if none runs."""
        if not self.running:
            self.start()

    def kill(self) -> bool:
        """End every process where it stands; False where none ran."""
        processes = list(self.running)
        for process in processes:
            process.kill()
        return bool(processes)

    def finish(self) -> None:
        """Have one more transaction committed, and none after it."""
        self.is_finishing = True
        for process in list(self.running):
            process.finish()
        self.start_again()

    def _end_sent(self, process: TransactionalProducer) -> None:
        if self.is_end_broken:
            self.is_end_broken = False
            for end in self._network.open_ends(process.host.name):
                self._network.break_connection(end)

    def _ended(self, process: TransactionalProducer) -> None:
        self._observer.producer_ended(self.plan.name, process.failure)
        self.hosts[0].scheduler.after(AGAIN_US, self.start_again)
