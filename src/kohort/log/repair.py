"""Repair of a partition's files by what `verification` found: each piece costs no more than itself.

A damaged batch is taken out of its segment and stored beside it (`<segment>.log.cut-<position>`); offset and length of
a batch are written anew where its neighbours show them; indexes, lists of aborted transactions and checkpoints are made
from the batches. What is lost for good is noted in `lost-offsets`, so that a later verification knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.log import checkpoints
from kohort.log.checkpoints import LeaderEpochs
from kohort.log.disk import Disk, File, replace_file
from kohort.log.producer_state import AbortedTransaction, Producers
from kohort.log.segment import ABORTED_SUFFIX, Segment, aborted_bytes, base_offsets, segment_name
from kohort.log.segments import LogConfig
from kohort.log.verification import Damage, DamageKind, verify
from kohort.wire.record_batches import CorruptBatch

_COPY_BYTES = 4 << 20
_CUT = frozenset({DamageKind.TORN_END, DamageKind.DAMAGED_BATCH, DamageKind.NO_BATCH, DamageKind.OUT_OF_PLACE})


def remedy(finding: Damage) -> str:
    """Return in a few words what `repair` does about a finding."""
    if finding.kind in _CUT:
        return f"take {finding.size} bytes out of the file, and store them in {_aside(finding)}"
    match finding.kind:
        case DamageKind.DAMAGED_HEADER:
            return "write the right value: no record is lost"
        case DamageKind.MISSING_OFFSETS:
            return f"note the gap in {checkpoints.LOST_OFFSETS}: its records are not in these files"
        case DamageKind.INDEX | DamageKind.ABORTED_INDEX:
            return "make it from the batches"
        case DamageKind.SNAPSHOT:
            return "remove it: producers are read from the batches"
        case DamageKind.CHECKPOINT if finding.file.endswith(checkpoints.LEADER_EPOCHS):
            return "make it from the batches"
        case DamageKind.CHECKPOINT if finding.file.endswith(checkpoints.LOG_START_OFFSET):
            return "remove it: records that DeleteRecords hid can be read again"
        case DamageKind.CHECKPOINT:
            return "remove it: the broker makes it anew"
        case _:
            return "nothing: put the file back from a copy"


def repair(disk: Disk, directory: str, findings: Sequence[Damage]) -> list[Damage]:
    """Carry out the remedy of each finding, and return what a new verification finds. Raises StorageError.

    A repair that is broken off can be repeated: each file is replaced by one rename.
    """
    by_file: dict[str, list[Damage]] = {}
    for finding in findings:
        by_file.setdefault(finding.file, []).append(finding)
    if any(file.endswith(".log") for file in by_file):
        disk.remove(f"{directory}/{checkpoints.CLEAN_SHUTDOWN}")
    for file, found in by_file.items():
        if any(each.kind in _CUT or each.patch for each in found):
            _rewrite(disk, file, found)
        elif file.endswith(".snapshot") or found[0].kind is DamageKind.CHECKPOINT:
            disk.remove(file)
    _remake(disk, directory, by_file)
    _note_gaps(disk, directory, findings)
    found_then = verify(disk, directory)[1]
    _note_gaps(disk, directory, found_then)
    return [each for each in found_then if each.offsets is None]


def _aside(finding: Damage) -> str:
    return f"{finding.file}.cut-{finding.position}"


def _rewrite(disk: Disk, path: str, findings: Iterable[Damage]) -> None:
    """Write a segment anew without the pieces that are cut out, which are stored beside it."""
    source, draft = disk.open(path), f"{path}.tmp"
    disk.remove(draft)
    target = disk.open(draft, create=True)
    try:
        position = 0
        for finding in sorted(findings, key=lambda each: each.position):
            if finding.kind in _CUT:
                piece = bytes(source.read(finding.position, finding.size))
                replace_file(disk, _aside(finding), piece, durable=True)
            elif not finding.patch:
                continue
            _copy(source, target, position, finding.position)
            if finding.patch:
                target.append([finding.patch])
            position = finding.position + finding.size
        _copy(source, target, position, source.size)
        target.flush()
    finally:
        source.close()
        target.close()
    disk.rename(draft, path)
    disk.flush_directory(path.rpartition("/")[0])


def _copy(source: File, target: File, position: int, end: int) -> None:
    while position < end:
        piece = source.read(position, min(_COPY_BYTES, end - position))
        target.append([piece])
        position += len(piece)


def _remake(disk: Disk, directory: str, by_file: dict[str, list[Damage]]) -> None:
    """Make the files that follow from the batches of a segment: of each segment that was rewritten, and where asked."""
    producers, epochs = Producers(), LeaderEpochs(disk, directory, durable=True)
    has_new_epochs = f"{directory}/{checkpoints.LEADER_EPOCHS}" in by_file
    for base in base_offsets(list(disk.list(directory)), ".log"):
        names = {suffix: f"{directory}/{segment_name(base, suffix)}" for suffix in _DERIVED}
        segment = Segment(disk, directory, base, LogConfig().index_interval_bytes)
        try:
            aborted: list[AbortedTransaction] = []
            for header, marker in segment.batches():
                if header.producer_id >= 0 and (ended := producers.update(header, marker=marker)) is not None:
                    aborted.append(ended)
                if has_new_epochs and header.partition_leader_epoch >= 0:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
            is_rewritten = any(each.kind in _CUT or each.patch for each in by_file.get(names[".log"], ()))
            if is_rewritten or names[".index"] in by_file or names[".timeindex"] in by_file:
                segment.rebuild_indexes()
                segment.seal()
            if names[ABORTED_SUFFIX] in by_file:
                replace_file(disk, names[ABORTED_SUFFIX], aborted_bytes(aborted), durable=True)
        except CorruptBatch:
            continue  # an unreadable file, which the verification afterwards names again
        finally:
            segment.close()


_DERIVED = (".log", ".index", ".timeindex", ABORTED_SUFFIX)


def _note_gaps(disk: Disk, directory: str, findings: Iterable[Damage]) -> None:
    gaps = {each.offsets for each in findings if each.offsets is not None}
    if not gaps:
        return
    path = f"{directory}/{checkpoints.LOST_OFFSETS}"
    known = checkpoints.read_rows(disk, path) if disk.exists(path) else []
    rows = sorted(gaps | {(first, last) for first, last in known})
    checkpoints.write_rows(disk, path, [f"{first} {last}" for first, last in rows], durable=True)
