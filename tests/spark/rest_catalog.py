"""An Iceberg REST catalog on loopback that commits to several tables at once, by pyiceberg's own models of the API.

It has every state that it was in. A test may lose a commit or its answer, or carry one out later.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import CreateTableRequest, RestCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertCreate, update_table_metadata

SEVERAL = "POST /v1/{prefix}/transactions/commit"
ENDPOINTS = (
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
_ERRORS = {CommitFailedException: 409, TableAlreadyExistsError: 409, NoSuchTableError: 404}


class Head(NamedTuple):
    """The newest version of a table."""

    location: str
    metadata: TableMetadata


Answer = dict[str, Any] | None
Requests = Sequence[CommitTableRequest]


class RestServer(ThreadingHTTPServer):
    """The catalog. `states` has all tables after each commit; `commits` counts those of several tables.

    `on_commit` may be set: it is called for each commit of several tables, in the place of `commit`.
    """

    daemon_threads = True

    def __init__(self, folder: Path, endpoints: Iterable[str] | None = (*ENDPOINTS, SEVERAL)) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.endpoints = None if endpoints is None else list(endpoints)
        self.heads: dict[str, Head] = {}
        self.states: list[dict[str, TableMetadata]] = []
        self.commits = 0
        self.on_commit: Callable[[Requests], object] = self.commit
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def uri(self) -> str:
        """Where its clients connect."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def catalog(self, name: str = "lake") -> RestCatalog:
        """Return a new client."""
        return RestCatalog(name, uri=self.uri)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def staged(self, namespace: str, asked: CreateTableRequest) -> Answer:
        """Return the metadata of a table that is to be made."""
        with self._lock:
            if f"{namespace}.{asked.name}" in self.heads:
                raise TableAlreadyExistsError(asked.name)
        made = new_table_metadata(
            location=f"{self.folder.as_uri()}/{namespace}/{asked.name}-{uuid.uuid4().hex[:8]}",
            schema=asked.table_schema,
            partition_spec=asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            sort_order=asked.write_order or UNSORTED_SORT_ORDER,
            properties=asked.properties,
        )
        return {"metadata": json.loads(made.model_dump_json()), "config": {}}

    def loaded(self, name: str) -> Answer:
        """Return a table. Raises NoSuchTableError."""
        with self._lock:
            if name not in self.heads:
                raise NoSuchTableError(name)
            return _shown(self.heads[name])

    def drop(self, name: str) -> Answer:
        """Forget a table."""
        with self._lock:
            del self.heads[name]
        return None

    def commit(self, requests: Requests) -> Answer:
        """Commit to all tables or to none. Raises CommitFailedException, NoSuchTableError."""
        with self._lock:
            made: dict[str, Head] = {}
            for each in requests:
                name = ".".join((*each.identifier.namespace.root, each.identifier.name))
                made[name] = self._next(name, made.get(name, self.heads.get(name)), each)
            for head in made.values():
                ToOutputFile.table_metadata(head.metadata, PyArrowFileIO().new_output(head.location))
            self.heads.update(made)
            self.states.append({name: head.metadata for name, head in self.heads.items()})
            self.commits += len(requests) > 1
            return _shown(next(iter(made.values())))

    def _next(self, name: str, head: Head | None, asked: CommitTableRequest) -> Head:
        if head is None and not any(isinstance(each, AssertCreate) for each in asked.requirements):
            raise NoSuchTableError(name)
        for requirement in asked.requirements:
            requirement.validate(head and head.metadata)
        metadata = update_table_metadata(
            head.metadata if head else MetastoreCatalog._empty_table_metadata(),
            asked.updates,
            enforce_validation=head is None,
            metadata_location=head.location if head else None,
        )
        return Head(f"{metadata.location}/metadata/{uuid.uuid4()}.metadata.json", metadata)


def _shown(head: Head) -> Answer:
    return {"metadata-location": head.location, "metadata": json.loads(head.metadata.model_dump_json()), "config": {}}


class Cut(Exception):
    """The connection ends without an answer."""


class _Handler(BaseHTTPRequestHandler):
    server: RestServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def parse_request(self) -> bool:
        """Parse a request, whatever its method is, and answer it."""
        if super().parse_request():
            self._answer()
        return False

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, found = 200, self._done(body)
        except Cut:
            self.close_connection = True
            return
        except tuple(_ERRORS) as error:
            status = _ERRORS[type(error)]
            found = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        text = b"" if found is None else json.dumps(found).encode()
        self.send_response(status if found is not None else 204)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _done(self, body: bytes) -> Answer:
        server = self.server
        match [self.command, *map(unquote, self.path.partition("?")[0].strip("/").split("/")[1:])]:
            case ["GET", "config"]:
                listed = {} if server.endpoints is None else {"endpoints": server.endpoints}
                return {"defaults": {}, "overrides": {}, **listed}
            case ["POST", "transactions", "commit"]:
                asked = [CommitTableRequest.model_validate(each) for each in json.loads(body)["table-changes"]]
                server.on_commit(asked)
                return None
            case ["POST", "namespaces", namespace, "tables"]:
                return server.staged(
                    namespace,
                    CreateTableRequest.model_validate(
                        {"location": None, "partition-spec": None, "write-order": None, **json.loads(body)}
                    ),
                )
            case ["POST", "namespaces", _, "tables", _]:
                return server.commit([CommitTableRequest.model_validate_json(body)])
            case ["GET", "namespaces", namespace, "tables", table]:
                return server.loaded(f"{namespace}.{table}")
            case ["DELETE", "namespaces", namespace, "tables", table]:
                return server.drop(f"{namespace}.{table}")
        raise NoSuchTableError(self.path)


def offsets_in(metadata: TableMetadata) -> Any:
    """Return the offsets of a table by group: those of its newest snapshot that has some. None where none has."""
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        assert snapshot.summary is not None
        if (text := snapshot.summary.additional_properties.get("kohort.offsets")) is not None:
            return json.loads(text)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    return None


def require_together(states: Iterable[Mapping[str, TableMetadata]], *names: str) -> int:
    """Require that tables have the same offsets in all states of a catalog, and return how many different ones."""
    seen = []
    for state in states:
        one, *others = (offsets_in(state[name]) if name in state else None for name in names)
        assert all(each == one for each in others), f"{names} are apart: {one}, {others}"
        if one not in seen:
            seen.append(one)
    return len(seen)
