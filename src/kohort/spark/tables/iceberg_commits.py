"""Commits to Iceberg tables by pyiceberg: one of a table, or one of several tables of a REST catalog.

pyiceberg has no call for the second: it is one request with the requirements and updates of a transaction of each
table (`transactions/commit` in the REST catalog's specification), which the catalog takes as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
