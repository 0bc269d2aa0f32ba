"""What a run leaves behind: all histories and the log; judged from its files, at once or again later."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from interop.torture.checks.anomaly import Anomaly
from interop.torture.checks.commits import check_commits, check_rising
from interop.torture.checks.reads import check_reads
from interop.torture.checks.records import check_records
from interop.torture.checks.services import check_services
from interop.torture.checks.transactions import check_copies, check_transactions
from interop.torture.history import (
    UNKNOWN,
    GroupHistory,
    Log,
    Logged,
    OffsetFetch,
    Reader,
    ServiceMember,
    Writer,
    take_lines,
)

CLIENTS, OFFSETS, LOG = "clients.json", "offsets.jsonl", "log.jsonl"
"""Files of a run's directory: whose history is which, the committed offsets that were seen, the log at the end."""


class NoEvidence(Exception):
    """A directory is not that of a run that came to its end."""


class WriterFile(NamedTuple):
    """The history of one start of a writer."""

    file: str
    topic: str
    is_exact: bool
    is_transactional: bool


class GroupFiles(NamedTuple):
    """A group and the histories of its members; `target` is the topic that copiers write, whose histories are not.

    Members are services where there is a topic for their dead letters.
    """

    name: str
    topic: str
    is_read_committed: bool
    members: list[str]
    target: str | None = None
    letters: str | None = None


@dataclass(slots=True)
class Clients:
    """Whose history each file of a directory is."""

    writers: list[WriterFile]
    groups: list[GroupFiles]

    def write(self, folder: Path, log: Log) -> None:
        """Write this and the log that was read in the end beside the histories."""
        (folder / CLIENTS).write_text(json.dumps(asdict(self), indent=1))
        with (folder / LOG).open("w") as lines:
            for (topic, partition), records in log.items():
                lines.writelines(json.dumps([topic, partition, *record]) + "\n" for record in records)


@dataclass(slots=True)
class Evidence:
    """The histories of all clients, and the log."""

    writers: list[Writer]
    groups: list[GroupHistory]
    targets: Mapping[str, str]  # what the copiers of a group write
    letters: Mapping[str, str]  # where the services of a group write dead letters
    log: Log

    @classmethod
    def read(cls, folder: Path) -> Evidence:
        """Read what a run left in `folder`.

        Raises:
            NoEvidence: Files are missing, because the run was ended before its log was read, or are not of a run.
        """
        try:
            clients = json.loads((folder / CLIENTS).read_text())
            writers = [_writer(folder, WriterFile(*each)) for each in clients["writers"]]
            files = [GroupFiles(*each) for each in clients["groups"]]
            groups = [_group(folder, each) for each in files]
            _add_fetches(folder, {group.name: group for group in groups})
            log: dict[tuple[str, int], list[Logged]] = {}
            for topic, partition, *record in _rows(folder / LOG):
                log.setdefault((topic, partition), []).append(Logged(*record))
        except FileNotFoundError as error:
            missing = f"there is no {error.filename}: the run did not come to its end, or it is another directory"
            raise NoEvidence(missing) from None
        except (ValueError, TypeError, KeyError) as error:
            raise NoEvidence(f"{folder} has files that no run has written: {error!r}") from None
        targets = {each.name: each.target for each in files if each.target is not None}
        letters = {each.name: each.letters for each in files if each.letters is not None}
        return cls(writers, groups, targets, letters, log)

    def judge(self) -> Iterator[Anomaly]:
        """Yield each promise that was broken."""
        yield from check_records(self.writers, self.log)
        for writer in self.writers:
            yield from check_transactions(writer, self.log)
        for group in self.groups:
            if group.name in self.targets:
                yield from check_rising(group)
                yield from check_copies(group, self.targets[group.name], self.log)
                continue
            yield from check_commits(group)
            if group.name in self.letters:
                yield from check_services(group, self.letters[group.name], self.log)
            else:
                yield from check_reads(group, self.log)

    def counts(self) -> Counter[str]:
        """Return how much was tried, by what it is."""
        readers = [reader for group in self.groups for reader in group.readers]
        handled = Counter(
            (group.name, each.partition, each.offset)
            for group in self.groups
            for each in group.handlings()
            if each.is_done
        )
        failed = [each for group in self.groups for each in group.handlings() if each.has_failed]
        targets = set(self.targets.values())
        return Counter(
            {
                "records sent": sum(len(each) for writer in self.writers for each in writer.appends.values()),
                "records acknowledged": sum(writer.acknowledged for writer in self.writers),
                "records read": sum(len(span) for reader in readers for span in reader.spans),
                "records copied": sum(len(records) for (topic, _), records in self.log.items() if topic in targets),
                "records handled": len(handled),
                "records handled again": sum(handled.values()) - len(handled),
                "calls of handlers that failed": len(failed),
                "transactions": sum(len(writer.transactions) for writer in self.writers),
                "commits acknowledged": sum(c.acked_s < UNKNOWN for reader in readers for c in reader.commits),
                "committed offsets seen": sum(len(group.fetches) for group in self.groups),
                "members": len(readers),
            }
        )


def _writer(folder: Path, of: WriterFile) -> Writer:
    writer = Writer(Path(of.file).stem, of.topic, of.is_exact, of.is_transactional)
    with (folder / of.file).open() as lines:
        take_lines(writer, lines)
    return writer


def _group(folder: Path, of: GroupFiles) -> GroupHistory:
    history = GroupHistory(of.name, of.topic)
    for name in of.members:
        kind = Reader if of.letters is None else ServiceMember
        reader = kind(Path(name).stem, of.topic, of.is_read_committed)
        with (folder / name).open() as lines:
            take_lines(reader, lines)
        history.readers.append(reader)
    return history


def _add_fetches(folder: Path, groups: Mapping[str, GroupHistory]) -> None:
    for row in _rows(folder / OFFSETS):
        groups[row.pop("group")].fetches.append(OffsetFetch(**row))


def _rows(path: Path) -> Iterator[Any]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)
