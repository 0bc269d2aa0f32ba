"""Queries and streams in a notebook: what interrupting a cell and restarting the kernel do to the group.

The kernel is Jupyter's own. Sessions of the group last a minute, longer than anything here waits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel")
pytest.importorskip("jupyter_client")
pytest.importorskip("pyspark")

from interop.waiting import eventually
from jupyter_client.manager import KernelManager
from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]
READY_S = 240
CELL = (Path(__file__).parents[2] / "examples" / "spark_notebook" / "cell.py").read_text()
SESSION = '.option("kafka.session.timeout.ms", "60000").load()'
STREAM = """
from kohort.spark import GroupStream

with GroupStream(
    spark, "flights", bootstrap_servers="{}", group_id="notebook", session_timeout_ms=60_000
) as stream:
    stream.run(lambda frame, _: frame.count())
"""


class Notebook:
    """A kernel that runs cells one after another."""

    def __init__(self) -> None:
        self.kernel = KernelManager(kernel_name="python3")
        assert self.kernel.kernel_spec is not None, "ipykernel brings this one"
        self.kernel.kernel_spec.argv[0] = sys.executable
        self.kernel.start_kernel()
        self.client = self.kernel.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=READY_S)

    def begin(self, cell: str) -> str:
        """Start to run a cell, and return the id of its message; one that is interrupted does not cancel the next."""
        return str(self.client.execute(cell, stop_on_error=False))

    def end(self, message: str) -> str:
        """Wait until a cell has ended; return how: `ok`, or the name of its exception."""
        while True:
            reply: dict[str, Any] = self.client.get_shell_msg(timeout=READY_S)
            if reply["parent_header"].get("msg_id") == message:
                content = reply["content"]
                return "ok" if content["status"] == "ok" else f"{content['ename']}: {content['evalue']}"

    def run(self, cell: str) -> None:
        """Run a cell to its end."""
        assert self.end(self.begin(cell)) == "ok"

    def interrupt(self, message: str) -> str:
        """Interrupt a cell as the button does, and return how it ended."""
        self.kernel.interrupt_kernel()
        return self.end(message)

    def restart(self) -> None:
        """Restart the kernel as the menu does."""
        self.kernel.restart_kernel()
        self.client.wait_for_ready(timeout=READY_S)

    def close(self) -> None:
        """End the kernel and what it has started."""
        self.client.stop_channels()
        self.kernel.shutdown_kernel(now=True)


@pytest.fixture
def topic() -> Iterator[Topic]:
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker,
        Topic(broker.bootstrap_servers, "flights", partitions=2) as made,
    ):
        made.group_id = "notebook"
        yield made


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    made = Notebook()
    yield made
    made.close()


def test_an_interrupted_cell_and_a_restarted_kernel_leave_the_group_at_once(notebook: Notebook, topic: Topic) -> None:
    query = CELL.replace("localhost:9092", topic.bootstrap_servers).replace(".load()", SESSION)
    for cell in (query, STREAM.format(topic.bootstrap_servers)):
        message = notebook.begin(cell)
        read_all(topic)
        assert notebook.interrupt(message).startswith("KeyboardInterrupt")
        topic.wait_until_empty()
    waiting = notebook.begin(STREAM.format(topic.bootstrap_servers))
    read_all(topic)
    assert waiting
    notebook.restart()
    topic.wait_until_empty()


def test_a_query_runs_on_behind_an_interrupted_cell_that_only_waits_for_it(notebook: Notebook, topic: Topic) -> None:
    """As in Spark itself: it ends with `query.stop()`, with the session, or with the kernel."""
    waiting, _, stop = CELL.replace("localhost:9092", topic.bootstrap_servers).partition("try:")
    assert "query.stop()" in stop
    notebook.run(waiting.replace(".load()", SESSION))
    message = notebook.begin("query.awaitTermination()")
    read_all(topic)
    assert notebook.interrupt(message).startswith("KeyboardInterrupt")
    read_all(topic)
    notebook.restart()
    topic.wait_until_empty()


def read_all(topic: Topic) -> None:
    """Write some records, and wait until the group has committed them."""
    topic.fill(6)
    eventually(lambda: sum(topic.committed().values()) == topic.end(), True, READY_S)
