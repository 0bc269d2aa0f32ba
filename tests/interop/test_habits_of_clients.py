"""What each client does where its heartbeats are parked, as the table of clients has it, and what it logs of that.

All commit by their timers, each in a group of its own on a broker of ours, and read what is produced all the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.group import Group
from interop.parked_share import parked_shares
from interop.producers import Load
from interop.unavailable import Unavailable
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from kohort.broker.embedded import EmbeddedBroker

SHARES: Mapping[str, tuple[str, float, float]] = {
    "java": ("java", 0.7, 1),
    "kgo": ("kgo", 0.35, 1),
    "librdkafka": ("librdkafka", 0.7, 1),
    "kafka_python": ("kafka-python", 0.8, 1),
    "aiokafka": ("aiokafka", 0.4, 1),
    "kohort": ("kohort", 0.7, 1),
    "sarama": ("sarama", 0, 0),
    "kafkajs": ("kafkajs", 0, 0),
}
"""By library, its client id, and for which part of the time a heartbeat of it must be parked: from, to."""

LEARNT_S = 30
"""Until the commits of a timer are known: four of them, and a trial."""

WATCHED_S = 20

OF_A_MEMBER = re.compile("heartbeat|coordinator|session|commit|rebalanc|rejoin", re.IGNORECASE)
"""What a line in a log would be about, at INFO and above."""


class Seen:
    """What was seen: the share of the time by client id, what each library wrote on stderr then, and who is missing."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self.logs: dict[str, str] = {}
        self.missing: dict[str, Unavailable] = {}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Let all clients run beside each other, and watch them."""
    found = Seen()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("JAVA_TOOL_OPTIONS", "-Dlog.level=INFO")
        embedded = stack.enter_context(EmbeddedBroker(group_initial_rebalance_delay_ms=0))
        create_topic(embedded.bootstrap_servers, "habits", 2)
        stack.enter_context(Load(embedded.bootstrap_servers, "habits", pause_s=0.3))
        groups: dict[str, Group] = {}
        for library in SHARES:
            try:
                need(library)
            except Unavailable as reason:
                found.missing[library] = reason
                continue
            folder: Path = tmp_path_factory.mktemp(library)
            group = stack.enter_context(Group(embedded.bootstrap_servers, library, "habits", 2, folder))
            group.are_troubles_expected = True
            group.start(library, auto="1", log="1")
            groups[library] = group
        for group in groups.values():
            group.calm(1, 90)
        groups[next(iter(groups))].calm(LEARNT_S, 90)
        written = {library: len(group.members[0].log()) for library, group in groups.items()}
        found.shares = parked_shares(embedded, list(groups), WATCHED_S)
        for library, group in groups.items():
            found.logs[library] = group.members[0].log()[written[library] :]
        yield found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("library", SHARES)
def test_a_client_that_commits_by_its_timer_is_parked_as_its_habits_allow_and_logs_nothing(
    library: str, seen: Seen
) -> None:
    if library in seen.missing:
        raise seen.missing[library]
    client_id, least, most = SHARES[library]
    assert least <= seen.shares[client_id] <= most, seen.shares
    assert not [line for line in seen.logs[library].splitlines() if OF_A_MEMBER.search(line)]
