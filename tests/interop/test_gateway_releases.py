"""Two releases of the gateway beside each other, as during an upgrade: the last one and this one share what they see.

The last release is the newest tag before this commit. As long as there is none, it is a commit of this repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from interop.ports import free_port
from interop.process import OWN_CODE, ROOT, Child
from tests.integration.pods import Pod

from kohort import RangeAssignor, sync
from kohort.broker.embedded import EmbeddedBroker

BEFORE_RELEASES = "e218486cd628d2a2de2af9c737a82f0e76bec124"
"""What counts as the last release before there is one."""

SECRET = "0123456789abcdef0123\n"


def last_release() -> str:
    """Return the tag or commit of the last release."""
    described = ["git", "-C", str(ROOT), "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1"]
    found = subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip()
    return found or BEFORE_RELEASES


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last release as its wheel is installed: a folder to import from."""
    folder, release = tmp_path_factory.mktemp("release"), last_release()
    tree, installed = folder / "tree", folder / "installed"
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", release], capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"{release} is not in this clone: fetch the whole history")
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "pip"), "install", "--quiet", "--no-deps", "--target", str(installed), str(tree)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the wheel of {release} cannot be built here: {done.stderr.strip()[-300:]}")
    return installed


class Instance:
    """An instance of the gateway by the code of a release, in mode `rewrite`."""

    def __init__(self, broker: EmbeddedBroker, code: str, links: tuple[int, int], folder: Path) -> None:
        self.port, self.metrics = free_port(), free_port()
        self._secret = folder / "secret"
        self._secret.write_text(SECRET)
        options = ["--bootstrap-servers", broker.bootstrap_servers, "--mode", "rewrite", "--listen-host", "127.0.0.1"]
        options += ["--advertised", f"127.0.0.1:{self.port}", "--node-ports", f"1={free_port()}", "--park", "*"]
        options += ["--metrics", f"127.0.0.1:{self.metrics}", "--instances", f"127.0.0.1:{links[1]}"]
        options += ["--instances-listen", f"127.0.0.1:{links[0]}", "--instances-secret-file", str(self._secret)]
        command = [sys.executable, "-m", "kohort", "gateway", *options]
        environment = {**os.environ, "PYTHONPATH": code}
        self.child = Child(command, folder / f"{self.port}.log", environment=environment)
        self.child.wait_for(lambda text: "kohort gateway ready" in text, "a gateway", 60)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def metric(self, name: str) -> float:
        """Return a metric, all its labels added up."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(each.rpartition(" ")[2]) for each in lines if each.startswith(f"kohort_gateway_{name}"))


def until(holds: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s, what


def own_three(pods: list[Pod]) -> bool:
    return all(pod.owned == 3 for pod in pods)


def reaches(instance: Instance, metric: str, count: float) -> bool:
    return instance.metric(metric) >= count


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        kohort_group_heartbeat_park=False,
        kohort_group_consumer_heartbeat_park_ms=0,
        group_initial_rebalance_delay_ms=0,
    ) as broker:
        yield broker


@pytest.mark.timeout(300)
def test_the_last_release_and_this_one_share_what_they_see(
    broker: EmbeddedBroker, released: Path, tmp_path: Path
) -> None:
    links = free_port(), free_port()
    with ExitStack() as stack:
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 6)
        before = Instance(broker, str(released), links, tmp_path)
        stack.callback(before.child.stop)
        after = Instance(broker, OWN_CODE["PYTHONPATH"], (links[1], links[0]), tmp_path)
        stack.callback(after.child.stop)
        until(lambda: before.metric("instances_connected") == after.metric("instances_connected") == 1, "linked")
        for protocol, assignor in (("classic", RangeAssignor()), ("consumer", None)):
            pods = [
                stack.enter_context(Pod(each.bootstrap, f"{protocol}-{n}", assignor, protocol))
                for n, each in enumerate((before, after))
            ]
            until(partial(own_three, pods), "both have their parts")
        for each in (before, after):
            until(partial(reaches, each, "heartbeats_held{", 2), "a member of each group is parked at each")
        counted = {each: each.metric("heartbeats_news_total") for each in (before, after)}
        stack.enter_context(Pod(before.bootstrap, "classic-2", RangeAssignor(), "classic"))
        stack.enter_context(Pod(after.bootstrap, "consumer-2", None, "consumer"))
        for each, count in counted.items():
            until(partial(reaches, each, "heartbeats_news_total", count + 2), "each learns of both")
        assert [each.metric("instances_connected") for each in (before, after)] == [1, 1]
        assert [each.metric("instances_lost_total") for each in (before, after)] == [0, 0]
        logs = before.child.text() + after.child.text()
    assert "cannot be read" not in logs, logs
