"""Services by `Consumer.process` on Apache Kafka, which end again and again, half of them by SIGKILL.

As in `make torture`: what each handler did is in a history, and `check_services` compares all of them with the log:
each record was handled or is a dead letter, those of a key in their order, none again without need.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from interop.committed import read_to_end
from interop.kafka import ApacheKafka
from interop.torture import clients
from interop.torture.evidence import OFFSETS, Clients, Evidence, GroupFiles, WriterFile
from interop.torture.history import GroupHistory, Logged, Place
from interop.torture.offset_watch import OffsetWatch
from interop.waiting import eventually
from tests.interop.topics import create_topic

from kohort.sync import Admin

ROUNDS = 10
"""In each, every group has one of its services ended and another started."""
PER_ROUND = 200
"""So many records are handled between two rounds."""
REST_S = 120.0


@pytest.mark.timeout(400)
def test_killed_services_handle_each_record_in_the_order_of_its_key_and_none_again_without_need(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    bootstrap = kafka.bootstrap
    groups = clients.services((bootstrap, bootstrap), tmp_path)
    for name in (clients.ONCE, *map(clients.letters, groups)):
        create_topic(bootstrap, name, clients.PARTITIONS)
    (writer,) = (
        program
        for program, topic, *_ in clients.writers((bootstrap,), 7, tmp_path)
        if topic == clients.ONCE and program.library == "kohort"
    )
    histories = [GroupHistory(name, clients.ONCE) for name in groups]
    services = [each for of_group in groups.values() for each in of_group]
    try:
        with OffsetWatch(bootstrap, histories, tmp_path / OFFSETS):
            for program in (writer, *services):
                program.start()
            for number in range(ROUNDS):
                due = handled(tmp_path) + PER_ROUND
                eventually(partial(has_handled, tmp_path, due), True, REST_S)
                for of_group in groups.values():
                    of_group[number % 2].replace(is_killed=number % 4 < 2)
                if number == ROUNDS // 2:
                    kafka.child.kill()
                    kafka.restart()
            writer.stop(90)
            ends = {partition: len(records) for (_, partition), records in log_of(bootstrap, clients.ONCE).items()}
            for name in groups:
                eventually(partial(committed, bootstrap, name), ends, REST_S)
    finally:
        for program in (writer, *services):
            program.stop(60)
    log = log_of(bootstrap, clients.ONCE)
    for name in groups:
        log |= log_of(bootstrap, clients.letters(name))
    files = [
        GroupFiles(
            name,
            clients.ONCE,
            False,
            [child.output.name for each in of_group for child in each.children],
            letters=clients.letters(name),
        )
        for name, of_group in groups.items()
    ]
    written = [WriterFile(each.output.name, clients.ONCE, True, False) for each in writer.children]
    Clients(written, files).write(tmp_path, log)
    evidence = Evidence.read(tmp_path)
    assert list(evidence.judge()) == []
    counts = evidence.counts()
    assert counts["members"] == len(services) + ROUNDS * len(groups)
    assert counts["records acknowledged"] > 1_000
    # What is a dead letter was never handled; each group handles all others.
    letters = sum(len(records) for (topic, _), records in log.items() if topic != clients.ONCE)
    assert letters > 0
    assert counts["records handled"] + letters >= len(groups) * counts["records acknowledged"]


def handled(folder: Path) -> int:
    """Return how often a handler has returned, by what all services have written."""
    return sum(each.read_bytes().count(b'"handled"') for each in folder.glob("service-*.jsonl"))


def has_handled(folder: Path, due: int) -> bool:
    """Whether handlers have returned so often."""
    return handled(folder) >= due


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Return the committed offsets of a group by the partitions of its topic."""
    with Admin(bootstrap) as admin:
        return {each.partition: offset.offset for each, offset in admin.group_offsets(group).items()}


def log_of(bootstrap: str, topic: str) -> dict[Place, list[Logged]]:
    """Return the records of a topic by their partitions, as librdkafka reads them."""
    log: dict[Place, list[Logged]] = {(topic, partition): [] for partition in range(clients.PARTITIONS)}
    for each in read_to_end(bootstrap, topic, clients.PARTITIONS, "read_uncommitted"):
        log[topic, each.partition].append(Logged(each.offset, each.value, True))
    return log
