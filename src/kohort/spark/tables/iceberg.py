"""`IcebergTable`: an Apache Iceberg table that takes a round's rows and its offsets in one snapshot, without a JVM.

Tasks write data files; one append adds them, and the summary of its snapshot has the offsets of all groups. An append
that lost a race is not tried again by the library: then rows could be there twice. It is compared and tried again here,
by the newest snapshot with offsets among the ancestors of the current one.

pyiceberg has no call that commits to several tables: it is one request with the requirements and updates of each
table (`transactions/commit` in the REST catalog's specification), which the catalog takes as a whole or not at all.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import takewhile
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.model.ids import TopicPartition
from kohort.spark.tables.changes.row_change import DELETED, Change, changed_rows, matched
from kohort.spark.tables.iceberg_files import IcebergPlan, require_partitionable, require_pyiceberg, rows_of_file
from kohort.spark.tables.lake_table import ROWS_ON_DRIVER, LakeTable, take_together
from kohort.spark.tables.table import Position, Positions, SchemaMismatch, TableBroken

try:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.io import FileIO
    from pyiceberg.table import CommitTableRequest, TableIdentifier, TableProperties, Transaction
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update import AssertTableUUID
    from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles
except ImportError:
    FileIO = Any
else:

    class TableTransaction(Transaction):  # type: ignore[misc]  # read without its types
        """A transaction that does not copy the table's metadata where nothing in it is updated.

        The library copies all of it, with each snapshot, whenever it looks at a property: some 20 times in a commit.
        """

        @property
        def table_metadata(self) -> Any:
            """The metadata of the table after the updates."""
            return super().table_metadata if self._updates else self._table.metadata

        def request(self) -> str:
            """Return what a catalog is asked for to commit it, as JSON."""
            *namespace, name = self._table.name()
            request = CommitTableRequest(
                identifier=TableIdentifier(namespace=namespace, name=name),
                requirements=(*self._requirements, AssertTableUUID(uuid=self.table_metadata.table_uuid)),
                updates=self._updates,
            )
            return str(request.model_dump_json())

        def remove_old_metadata(self) -> None:
            """Remove files of metadata that the catalog no longer lists, as the library does after a commit of one."""
            table = self._table
            most, default = TableProperties.METADATA_PREVIOUS_VERSIONS_MAX, "100"
            if len(table.metadata.metadata_log) >= int(table.properties.get(most, default)):
                newest = table.catalog.load_table(table.name()).metadata
                table.catalog._delete_old_metadata(table.io, table.metadata, newest)

        def remove_manifests(self) -> None:
            """Remove what was written for it, as the library does where a commit was refused."""
            for each in self._snapshot_producers:
                each._clean_all_uncommitted()

    class MergingOverwrite(_OverwriteFiles, _MergeAppendFiles):  # type: ignore[misc]  # read without its types
        """A snapshot that replaces files, and as in Java has no manifest without files, and puts small ones together.

        The library retains each manifest of removed files for ever and reads all of them in the next overwrite.
        """

        def _existing_manifests(self) -> Any:
            return [
                each for each in super()._existing_manifests() if each.has_added_files() or each.has_existing_files()
            ]


_TRANSACTIONS = "transactions/commit"


def overwriting(transaction: Any, io: FileIO, summary: Mapping[str, str]) -> Any:
    """Return the snapshot of a transaction to which files are added and from which files are removed."""
    return MergingOverwrite(Operation.OVERWRITE, transaction, io, snapshot_properties=dict(summary))


def commit_transactions(transactions: Sequence[Any], catalog: Any) -> None:
    """Commit a transaction of each table, all or nothing.

    Raises CommitFailedException where another commit was first, and else what the catalog raises: then it is not known
    whether the tables have it.
    """
    if len(transactions) == 1:
        transactions[0].commit_transaction()
        return
    from pyiceberg.catalog.rest.response import _handle_non_200_response

    body = f'{{"table-changes":[{",".join(each.request() for each in transactions)}]}}'
    answer = catalog._session.post(catalog.url(_TRANSACTIONS), data=body.encode())
    try:
        answer.raise_for_status()
    except OSError as error:
        try:
            _handle_non_200_response(error, {409: CommitFailedException})
        except CommitFailedException:
            for each in transactions:
                each.remove_manifests()
            raise
    for each in transactions:
        each.remove_old_metadata()


def require_one_commit(catalogs: Mapping[str, Any]) -> None:
    """Raise ValueError unless tables, by their names, are of one REST catalog that commits to several at once."""
    from pyiceberg.catalog.rest import API_PREFIX, DEFAULT_ENDPOINTS, VIEW_ENDPOINTS, Endpoint, RestCatalog

    needed = Endpoint.from_string(f"POST {API_PREFIX}/{_TRANSACTIONS}")
    for name, catalog in catalogs.items():
        if not isinstance(catalog, RestCatalog):
            raise ValueError(
                f"{name} is in a {type(catalog).__name__}: of Iceberg's catalogs only REST catalogs commit to several"
                " tables at once"
            )
        offered = catalog._supported_endpoints
        # A catalog that lists none is to have it. pyiceberg puts a list of its own in their place, which has not.
        if needed not in offered and offered - VIEW_ENDPOINTS != DEFAULT_ENDPOINTS:
            raise ValueError(f"the REST catalog of {name} does not offer {needed}: it commits to one table at a time")
    if len({each.url(_TRANSACTIONS) for each in catalogs.values()}) > 1:
        raise ValueError(f"{', '.join(catalogs)} are in different catalogs, and a commit is in one")


try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual, Reference
    from pyiceberg.transforms import parse_transform
except ImportError:
    Catalog = Any

log = logging.getLogger(__name__)

OFFSETS, MARK = "kohort.offsets", "kohort.mark"
"""What the summary of our snapshots has: all offsets as JSON, by group, topic and partition; and what is its own."""

GROUP = "kohort.group."
"""How the property of a table begins that a group has set by writing it."""

_NEW_TABLE = {"write.metadata.delete-after-commit.enabled": "true"}
"""Properties of a new table: of each commit a file of metadata is left, of which Iceberg then retains the last 100."""

_COMMITS_BETWEEN_EXPIRIES = 50
"""After how many commits of a job snapshots are expired: that is a commit of its own."""

MERGED_MANIFESTS = "10"
"""From how many small manifests on a merge makes one of them: it reads all of them, an addition none."""

_FIELD = re.compile(r"(?:(?P<transform>[a-z]+(?:\[\d+\])?)\((?P<of>[^()]+)\))|(?P<plain>[^()]+)")

IDS = "/ids"
"""What follows a topic's name where its ids are: for each id the partitions whose rows are of that topic."""

AllOffsets = dict[str, dict[str, dict[str, Any]]]


class _Commit(NamedTuple):
    """A snapshot of a table that is not committed yet, and the data files of this attempt."""

    table: IcebergTable
    transaction: TableTransaction
    files: Sequence[Any] = ()


class IcebergTable(LakeTable):
    """The Iceberg table `name` (`namespace.table`) of a catalog. The first round makes it; its namespace has to exist.

    `catalog` is a catalog of pyiceberg, or its name in pyiceberg's configuration with further `properties`. A new table
    is partitioned by `partition_by`, whose entries are columns or transforms of them, such as `day(timestamp)` or
    `bucket[16](key)`, and has `table_properties`. With `merge_schema`, columns that rows have and the table has not are
    added to it, fields of structs too, and its columns become as wide as the rows'. With `expire_after`, snapshots that
    are older are expired every 50 commits. Rounds of more than `rows_on_driver` offsets are written by Spark's tasks.
    Raises PyicebergMissing without pyiceberg.
    """

    _can_widen = True

    def __init__(
        self,
        name: str,
        *,
        catalog: Catalog | str = "default",
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        table_properties: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        expire_after: timedelta | None = None,
        rows_on_driver: int = ROWS_ON_DRIVER,
    ) -> None:
        require_pyiceberg()
        super().__init__(CommitFailedException, merge_schema=merge_schema, rows_on_driver=rows_on_driver)
        self.name = name
        self.catalog = load_catalog(catalog, **(properties or {})) if isinstance(catalog, str) else catalog
        self._partition_by = tuple(map(_partition_field, partition_by))
        self._table_properties = _NEW_TABLE | dict(table_properties or {})
        self._expire_after = expire_after
        self._unexpired = 0
        """Commits since snapshots were expired."""

    def __repr__(self) -> str:
        return f"IcebergTable({self.catalog.name}.{self.name})"

    def expire_snapshots(self, older_than: timedelta) -> None:
        """Expire old snapshots, beside running jobs, and retain the offsets, in a new snapshot if need be."""
        with self._lock:
            self._require()
            before = datetime.now(UTC) - older_than
            known = self._newest()
            if known is not None and known[0].timestamp_ms < before.timestamp() * 1000:
                self._commit([], "", {})
            self._table.maintenance.expire_snapshots().older_than(before).commit()

    @staticmethod
    def require_together(tables: Sequence[IcebergTable]) -> None:
        """Raise ValueError unless the tables are of one REST catalog that commits to several tables at once."""
        require_one_commit({table.name: table.catalog for table in tables})

    take_together = staticmethod(take_together)

    # The table as it is

    def _load(self) -> Any:
        try:
            return self.catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    def _identity_of(self, table: Any) -> str:
        return str(table.metadata.table_uuid)

    def _version(self) -> int | None:
        snapshot = self._table.current_snapshot()
        return None if snapshot is None else int(snapshot.snapshot_id)

    def _schema(self) -> pa.Schema:
        return self._table.schema().as_arrow()

    def _layout(self) -> int:
        return int(self._table.metadata.default_spec_id)

    def _create(self, rows: pa.Schema) -> None:
        columns = _storable(rows)
        require_partitionable(
            [rows.field(name) for name, how in self._partition_by if how == "identity" and name in rows.names],
            repr(self),
        )
        try:
            made = self.catalog.create_table_transaction(self.name, columns, properties=self._table_properties)
            with made as transaction, transaction.update_spec() as update:
                for column, transform in self._partition_by:
                    update.add_field(column, parse_transform(transform))
        except (TableAlreadyExistsError, CommitFailedException):
            return  # another job was first
        except (TypeError, ValueError, NotImplementedError) as error:
            raise SchemaMismatch(f"{self!r} cannot be made for these rows: {error}") from error

    def _change_columns(self, changed: Sequence[pa.Field]) -> None:
        with self._table.update_schema() as update:
            update.union_by_name(_storable(changed))

    # Offsets

    def _ancestors(self) -> Iterator[Any]:
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)

    def _newest(self) -> tuple[Any, AllOffsets] | None:
        """Return the newest snapshot with offsets among the ancestors of the current one, and its offsets."""
        for snapshot in self._ancestors():
            if (text := _summary(snapshot).get(OFFSETS)) is not None:
                return snapshot, json.loads(text)
        return None

    def _found(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        known = self._newest()
        if known is None:
            if f"{GROUP}{group}" in self._table.properties:
                raise TableBroken(
                    f"{self!r} was written by group {group}, and no snapshot has its offsets any more: they expired, or"
                    " the table was rolled back to before its first round. Set the offsets to read on from"
                    " (set_offsets)"
                )
            return {}
        found = _positions(known[1].get(group, {}))
        return {each: found[each] for each in partitions if each in found}

    # Writing

    def _plan(self) -> IcebergPlan:
        table = self._table
        schema = self._schema()
        by = [table.schema().find_column_name(each.source_id) for each in table.spec().fields]
        require_partitionable([schema.field(name) for name in by if name in schema.names], repr(self))
        return IcebergPlan(table.metadata, table.io.properties, table.location(), schema)

    def _stage(
        self, files: Sequence[Any], group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> _Commit:
        return _Commit(self, self._snapshot(self._moved(group, positions), group, mark, files, []))

    def _moved(self, group: str, positions: Mapping[TopicPartition, Position]) -> AllOffsets:
        """Return all offsets of the table after a step."""
        known = self._newest()
        after = {} if known is None else known[1]
        if positions:
            after[group] = _topics({**_positions(after.get(group, {})), **positions})
        return after

    def _stage_merge(
        self, changes: pa.Table, change: Change, group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> _Commit:
        """Write the rows of files with rows to change anew, together with new rows; no other file is read whole.

        They are written as one stream: a file for each that is changed would be one file more with every round.
        """
        plan, touched, is_new = self._plan(), [], ~changes[DELETED].to_numpy()

        def rows() -> Iterator[pa.RecordBatch]:
            for task in self._tasks_of(changes, change.matches):
                here, there = matched(self._read(task, change.matches), changes, change.matches)
                is_new[there] = False
                if len(here):
                    kept = changed_rows(self._read(task), changes, here, there, change.condition)
                    if kept is not None:
                        touched.append(task.file)
                        yield from kept.to_batches()
            yield from changes.filter(pa.array(is_new)).drop([DELETED]).to_batches()

        written = plan.write(rows())
        return _Commit(self, self._snapshot(self._moved(group, positions), group, mark, written, touched), written)

    def _send(self, commits: Sequence[_Commit]) -> None:
        try:
            commit_transactions([each.transaction for each in commits], self.catalog)
        except CommitFailedException:  # of any other failure it is not known whether the snapshots are there
            for table, _, files in commits:
                table._remove(files)
            raise

    def _snapshot(
        self, offsets: AllOffsets, group: str, mark: str, added: Sequence[Any], removed: Sequence[Any]
    ) -> TableTransaction:
        """Return a transaction of one snapshot with files and offsets."""
        # In memory: a property of the table would bind other writers. Iceberg's own default is to merge manifests.
        properties = self._table.metadata.properties
        properties["commit.retry.num-retries"] = "0"
        properties.setdefault("commit.manifest-merge.enabled", "true")
        transaction = TableTransaction(self._table)
        if group and f"{GROUP}{group}" not in self._table.properties:
            transaction.set_properties({f"{GROUP}{group}": "true"})
        summary = {OFFSETS: json.dumps(offsets, separators=(",", ":")), MARK: mark}
        if removed:
            properties.setdefault("commit.manifest.min-count-to-merge", MERGED_MANIFESTS)  # a merge reads all of them
            update = overwriting(transaction, self._table.io, summary)
        else:
            update = transaction.update_snapshot(snapshot_properties=summary).merge_append()
        with update as snapshot:
            for file in removed:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
        return transaction

    def _after_commit(self) -> None:
        """Expire old snapshots now and then, where that is asked for."""
        self._unexpired += 1
        if self._expire_after is None or self._unexpired < _COMMITS_BETWEEN_EXPIRIES:
            return
        try:
            self.expire_snapshots(self._expire_after)
        except Exception as error:  # the round is in the table
            log.warning("%r: old snapshots are not expired this time: %s", self, error)
        self._unexpired = 0

    def _tasks_of(self, changes: pa.Table, keys: Sequence[str]) -> Iterable[Any]:
        """Return the files whose statistics do not exclude every key of `changes`."""
        if self._table.current_snapshot() is None or not changes.num_rows:
            return []
        found: Iterable[Any] = self._table.scan(row_filter=_range_of(changes, keys)).plan_files()
        return found

    def _read(self, task: Any, names: Sequence[str] | None = None) -> pa.Table:
        schema = self._table.schema()
        wanted = schema if names is None else schema.select(*names)
        return rows_of_file(self._table, task, wanted)

    def _rows_of(self, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
        found = [self._read(each) for each in self._tasks_of(changes, keys)]
        return pa.concat_tables(found, promote_options="permissive") if found else self._schema().empty_table()

    def _beside(self, suffix: str) -> IcebergTable:
        return IcebergTable(self.name + suffix, catalog=self.catalog, merge_schema=self._is_merging)

    def _has(self, mark: str, since: int | None) -> bool:
        after = takewhile(lambda each: each.snapshot_id != since, self._ancestors())
        return any(_summary(each).get(MARK) == mark for each in after)

    def _delete(self, file: Any) -> None:
        self._table.io.delete(file.file_path)


def _positions(topics: Mapping[str, Mapping[str, Any]]) -> Positions:
    """Return the positions of a group out of its JSON."""
    ids = {
        TopicPartition(name.removesuffix(IDS), number): topic_id
        for name, found in topics.items()
        if name.endswith(IDS)
        for topic_id, numbers in found.items()
        for number in numbers
    }
    places = {
        TopicPartition(name, int(number)): offset
        for name, found in topics.items()
        if not name.endswith(IDS)
        for number, offset in found.items()
    }
    return {each: Position(offset, ids.get(each)) for each, offset in places.items()}


def _topics(positions: Mapping[TopicPartition, Position]) -> dict[str, dict[str, Any]]:
    """Return the JSON of a group's positions. A version without ids moves the offsets, and leaves the ids."""
    topics: dict[str, dict[str, Any]] = {}
    for (topic, number), (offset, topic_id) in sorted(positions.items()):
        topics.setdefault(topic, {})[str(number)] = offset
        if topic_id is not None:
            topics.setdefault(topic + IDS, {}).setdefault(topic_id, []).append(number)
    return topics


def _range_of(changes: pa.Table, keys: Sequence[str]) -> Any:
    """Return the filter of the keys' ranges."""
    parts = []
    for each in keys:
        low, high = (pc.min_max(changes[each])[name].as_py() for name in ("min", "max"))
        parts += [GreaterThanOrEqual(Reference(each), low), LessThanOrEqual(Reference(each), high)]
    return reduce(And, parts)


def _summary(snapshot: Any) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _partition_field(entry: str) -> tuple[str, str]:
    """Return the column and the transform of an entry of `partition_by`. Raises ValueError."""
    found = _FIELD.fullmatch(entry.strip())
    if found is None:
        raise ValueError(f"{entry!r} is no partition field: give a column, day(column), or bucket[16](column)")
    return (found["plain"], "identity") if found["plain"] else (found["of"].strip(), found["transform"])


def _storable(columns: Sequence[pa.Field] | pa.Schema) -> pa.Schema:
    """Return columns as Iceberg has them: its shortest integer has 32 bits."""
    small = {pa.int8(), pa.int16()}
    return pa.schema([pa.field(each.name, pa.int32() if each.type in small else each.type) for each in columns])
