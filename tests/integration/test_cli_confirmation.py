"""Commands that destroy ask on a terminal, and are refused without one unless --yes is given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.commands import Commands
from tests.integration.test_cli_log_files import damage, segment

from kohort.broker.embedded import EmbeddedBroker
from kohort.sync import Admin, Producer


class Asked:
    """A command on a terminal that waits for an answer."""

    def __init__(self, address: str, *words: str) -> None:
        self._terminal, other = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kohort", *words],
            env={**os.environ, "KOHORT_BOOTSTRAP": address},
            stdin=other,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(other)
        assert self._process.stderr is not None
        shown = b""
        while not shown.endswith(b"[y/N] ") and (read := self._process.stderr.read(1)):
            shown += read
        self.question = shown.decode()

    def answer(self, text: str) -> tuple[int, str]:
        """Type a line; return the exit status and what the command printed after that."""
        os.write(self._terminal, text.encode() + b"\n")
        return self.end()

    def interrupt(self) -> tuple[int, str]:
        """Send SIGINT in place of an answer."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> tuple[int, str]:
        out, err = self._process.communicate()
        os.close(self._terminal)
        return self._process.returncode, (out + err).decode()


def test_a_topic_is_deleted_once_the_answer_is_yes(kohort: Commands) -> None:
    kohort("topics", "create", "asked", "--partitions", "3")
    words = ("topics", "delete", "asked")
    for answer, status in (("n", 1), ("", 1), ("y", 0)):
        asked = Asked(kohort.address, *words)
        assert asked.question == (
            f"kohort: this deletes topic asked: 3 partitions with all of their records ({kohort.address})\n"
            "Continue? [y/N] "
        )
        assert asked.answer(answer) == (status, "deleted asked\n" if answer == "y" else "kohort: nothing was done\n")
        assert kohort("topics", "describe", "asked").status == 2 * (answer == "y")


def test_ctrl_c_is_no_answer(kohort: Commands) -> None:
    kohort("topics", "create", "kept")
    asked = Asked(kohort.address, "topics", "delete", "kept")
    assert asked.interrupt() == (130, "\nkohort: nothing was done\n")
    assert kohort("topics", "describe", "kept").status == 0


def test_what_a_group_loses_is_in_the_question(kohort: Commands) -> None:
    kohort("topics", "create", "lost", "--partitions", "2")
    kohort("groups", "reset-offsets", "losing", "--topic", "lost", "--to-earliest", "--execute")
    asked = Asked(kohort.address, "groups", "delete", "losing")
    assert "this deletes group losing and its committed offsets of 2 partitions" in asked.question
    assert asked.answer("yes") == (0, "deleted losing\n")


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "delete", "t"),
        ("groups", "delete", "g"),
        ("groups", "drain", "g", "m", "--wait"),
        ("users", "remove", "ann"),
        ("acls", "remove", "--topic", "t"),
        ("log", "repair", "."),
    ],
    ids=" ".join,
)
def test_a_script_needs_yes_and_no_cluster_is_asked_before(kohort: Commands, words: tuple[str, ...]) -> None:
    where = () if words[0] == "log" else ("--bootstrap-server", "127.0.0.1:1")
    outcome = kohort(*words, *where)
    assert outcome.status == 2
    assert outcome.err == "kohort: there is no terminal to ask on: give --yes, if it shall be done\n"


def test_a_repair_names_its_findings_before_it_asks(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    with EmbeddedBroker(folder) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=1)
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("orders", b"order 1")
    damage(segment(folder), b"order 1")
    before = segment(folder).read_bytes()
    asked = Asked("127.0.0.1:1", "log", "repair", str(folder))
    assert "this repairs 2 findings in the files" in asked.question
    status, printed = asked.answer("no")
    assert (status, str(segment(folder)) in printed) == (1, True)
    assert segment(folder).read_bytes() == before
