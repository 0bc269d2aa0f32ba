"""The machines of one test as network namespaces: Kafka and its clients, two gateways, and what leads clients to them.

They need no root (Linux's user namespaces, iproute2), and no packet leaves this machine. A file of hosts of their own
gives a name two addresses. The load balancer is HAProxy.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from interop.kafka import ApacheKafka, Quorum
from interop.process import Child
from interop.unavailable import Unavailable

LAB, VIRTUAL = "192.0.2.1", "192.0.2.10"
"""The machine of Kafka, clients and load balancer; the address that moves. All are of RFC 5737."""
GATEWAYS = ("192.0.2.2", "192.0.2.3")
NAME = "gateway.test"
"""The name that has both addresses."""
KAFKA = f"{LAB}:9092"
PORT, METRICS, PEERS = 9191, 9404, 9500
WAYS = {"dns": NAME, "vip": VIRTUAL, "balancer": LAB}
"""The host that brokers advertise, by the way in which clients find a gateway."""

CHECK_S = 1.0
"""The interval of health checks; two that fail in a row take a gateway out."""


def run(*command: str) -> None:
    """Run a command of the system to its end."""
    subprocess.run(command, check=True, capture_output=True, text=True)


class GatewayHost:
    """A network namespace with an address, and the gateway in it."""

    def __init__(self, number: int, folder: Path, advertised: str, *, is_balanced: bool) -> None:
        self.address = GATEWAYS[number]
        self._link = f"gateway{number}"
        self._folder = folder
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self._holder.pid}/ns/net").readlink() == own:
            time.sleep(0.01)
        pid = str(self._holder.pid)
        self._inside = ["nsenter", "--target", pid, "--net"]
        run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", self._link, "master", "lab", "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")
        command = [str(Path(sys.executable).parent / "kohort"), "gateway", "--bootstrap-servers", KAFKA, "--park", "*"]
        command += ["--mode", "listener", "--advertised", advertised, "--metrics", f"0.0.0.0:{METRICS}"]
        command += ["--instances-listen", f"{self.address}:{PEERS}", "--instances-secret-file", str(folder / "secret")]
        for address in GATEWAYS:
            command += ["--instances", f"{address}:{PEERS}"]
        if is_balanced:
            command += ["--proxy-protocol-from", LAB]
        self._command = [*self._inside, *command]
        self._starts = 0
        self.child = self.start()

    def inside(self, *command: str) -> None:
        """Run a command in the namespace."""
        run(*self._inside, *command)

    def start(self) -> Child:
        """Start the gateway, and return when it is ready."""
        self._starts += 1
        self.child = Child(self._command, self._folder / f"{self._link}-{self._starts}.log")
        self.child.wait_for(lambda text: "kohort gateway ready" in text, self._link, 60)
        return self.child

    def fetch(self, path: str, timeout_s: float = 10) -> str:
        """Return what it answers by HTTP. Raises OSError where it does not, or that it is not ready."""
        with urllib.request.urlopen(f"http://{self.address}:{METRICS}/{path}", timeout=timeout_s) as answer:
            return str(answer.read().decode())

    def is_ready(self) -> bool:
        """Whether a health check finds it well."""
        with suppress(OSError):
            return bool(self.fetch("ready", CHECK_S))
        return False

    def connections(self) -> float:
        """Return how many connections of clients it has."""
        lines = self.fetch("metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("kohort_gateway_connections{"))

    def fail(self, fault: str) -> None:
        """Let it fail."""
        if fault == "vanish":
            run("ip", "link", "set", self._link, "down")
        else:
            number = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "drain": signal.SIGTERM}[fault]
            self.child.signal(number)

    def heal(self, fault: str) -> None:
        """End the fault."""
        if fault == "vanish":
            run("ip", "link", "set", self._link, "up")
        elif fault == "freeze":
            self.child.signal(signal.SIGCONT)
        else:
            self.child.process.wait(60)
            self.start()

    def close(self) -> None:
        """End its processes."""
        self.child.kill()
        subprocess.run(["ip", "link", "del", self._link], capture_output=True, check=False)  # it may be gone already
        self._holder.kill()
        self._holder.wait()


class VirtualAddress:
    """An address that two gateways share, as keepalived moves it: to the one that is ready, where it stays."""

    def __init__(self, gateways: Sequence[GatewayHost]) -> None:
        self._gateways = gateways
        self._owner = gateways[0]
        self._owner.inside("ip", "addr", "add", f"{VIRTUAL}/24", "dev", "eth0")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        failed = 0
        while not self._is_over.wait(CHECK_S):
            failed = 0 if self._owner.is_ready() else failed + 1
            others = [each for each in self._gateways if each is not self._owner]
            if failed >= 2 and others[0].is_ready():
                self._owner.inside("ip", "addr", "del", f"{VIRTUAL}/24", "dev", "eth0")
                self._owner = others[0]
                self._owner.inside("ip", "addr", "add", f"{VIRTUAL}/24", "dev", "eth0")
                run("ip", "neigh", "flush", "dev", "lab")  # what the new owner's ARP announcement does
                failed = 0

    def close(self) -> None:
        """Move it no more."""
        self._is_over.set()
        self._thread.join()


HAPROXY = f"""
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    option redispatch 1
frontend kafka
    bind {LAB}:{PORT}
    default_backend gateways
backend gateways
    option httpchk GET /ready
    default-server check port {METRICS} inter {CHECK_S:.0f}s fall 2 rise 2
    default-server on-marked-down shutdown-sessions send-proxy-v2
    server gateway-1 {GATEWAYS[0]}:{PORT}
    server gateway-2 {GATEWAYS[1]}:{PORT}
"""


def haproxy() -> str:
    """Return the program of the load balancer. Raises Unavailable."""
    found = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Unavailable("HAProxy is not installed: it is the Debian package haproxy")
    return found


@contextmanager
def lab(way: str, folder: Path) -> Iterator[list[GatewayHost]]:
    """Run Kafka and two gateways, and what leads clients to them."""
    quorum = Quorum.of(1)[0]
    listeners = {
        "listeners": f"PLAINTEXT://{KAFKA},GATEWAY://{LAB}:9093,CONTROLLER://127.0.0.1:{quorum.controllers[1]}",
        "advertised.listeners": f"PLAINTEXT://{KAFKA},GATEWAY://{WAYS[way]}:{PORT}",
        "group.consumer.session.timeout.ms": "45000",
    }
    with ExitStack() as stack:
        stack.enter_context(ApacheKafka(listeners, listeners=("PLAINTEXT", "GATEWAY:PLAINTEXT"), quorum=quorum))
        gateways = []
        for number in range(len(GATEWAYS)):
            gateways.append(GatewayHost(number, folder, WAYS[way], is_balanced=way == "balancer"))
            stack.callback(gateways[-1].close)
        if way == "vip":
            stack.callback(VirtualAddress(gateways).close)
        if way == "balancer":
            (folder / "haproxy.cfg").write_text(HAPROXY)
            proxy = Child([haproxy(), "-db", "-f", str(folder / "haproxy.cfg")], folder / "haproxy.log")
            stack.callback(proxy.kill)
        yield gateways


OWN_WORLD = ("--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Options of unshare; all processes inside end with it."""


def furnish(folder: Path) -> None:
    """Give these namespaces their network and their file of hosts."""
    hosts = folder / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + "".join(f"{address} {NAME}\n" for address in GATEWAYS))
    run("mount", "--bind", str(hosts), "/etc/hosts")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "lab", "type", "bridge")
    run("ip", "addr", "add", f"{LAB}/24", "dev", "lab")
    run("ip", "link", "set", "lab", "up")
