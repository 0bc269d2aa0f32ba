"""One Nessie server on loopback, a REST catalog of Iceberg tables in an object store: a context manager.

It commits to several tables at once, and its history has every state that all tables were in.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from interop import jars
from interop.object_store import BUCKET, PASSWORD, USER, ObjectStore
from interop.ports import free_port
from interop.process import Child

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

POM = "nessie-pom.xml"
LEAST_JAVA = 21
WAREHOUSE = "lake"


class Nessie:
    """A server whose tables are in an object store, and whose history is in its memory."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._port = free_port()
        self._management_port = free_port()

    @property
    def endpoint(self) -> str:
        """Where its clients connect."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        (runner,) = jars.jars(POM).glob("*.jar")
        self._directory = Path(tempfile.mkdtemp(prefix="kohort-nessie."))
        of_s3 = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self._management_port,
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": WAREHOUSE,
            f"nessie.catalog.warehouses.{WAREHOUSE}.location": f"s3://{BUCKET}/",
            f"{of_s3}.endpoint": self._store.endpoint,
            f"{of_s3}.region": "us-east-1",
            f"{of_s3}.path-style-access": "true",
            f"{of_s3}.request-signing-enabled": "false",
            f"{of_s3}.access-key": "urn:nessie-secret:quarkus:kohort.store",
            "kohort.store.name": USER,
            "kohort.store.secret": PASSWORD,
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        command = [jars.java(LEAST_JAVA), "-Xmx768m", "-XX:+UseSerialGC", *options, "-jar", str(runner)]
        self.child = Child(command, self._directory / "server.log")
        self.child.wait_for(lambda text: "Listening on" in text, "Nessie", 120)
        self.catalog().create_namespace("air")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the properties of a client, which perhaps reaches it through a proxy."""
        return {
            "uri": f"{endpoint or self.endpoint}/iceberg",
            "s3.endpoint": self._store.endpoint,
            "s3.access-key-id": USER,
            "s3.secret-access-key": PASSWORD,
            "s3.region": "us-east-1",
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        }

    def catalog(self, endpoint: str | None = None, **properties: str) -> RestCatalog:
        """Return a new client."""
        from pyiceberg.catalog.rest import RestCatalog

        return RestCatalog("lake", **self.properties(endpoint), **properties)

    def states(self) -> Iterator[RestCatalog]:
        """Yield a client of each state of all tables, the newest first."""
        history = f"{self.endpoint}/api/v2/trees/main/history?max-records=100000"
        with urllib.request.urlopen(history) as answer:
            entries = json.load(answer)["logEntries"]
        for each in entries:
            yield self.catalog(prefix=quote(f"main@{each['commitMeta']['hash']}|{WAREHOUSE}"))
