"""`SchemaRegistry`: a schema registry in the process of a test, with the HTTP API that clients and serializers use.

It stores Avro, JSON and Protobuf schemas as texts, in memory, and accepts whatever is registered: compatibility is not
checked. It registers a schema, returns it by id, by GUID or by subject and version, and lists subjects and versions.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

_MOST_BYTES = 16 << 20


class SchemaRegistry:
    """A registry on a port of its own, from when it is entered until it is left.

    `requests` are the paths that clients have requested. While `failing` is a number, every request is answered with
    this status.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.failing: int | None = None
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": self}))
        self._server.daemon_threads = True

    def __enter__(self) -> SchemaRegistry:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="schema registry", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """Register the next version of a subject's schema, a text or what JSON makes one of, and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = {"schema": text, "schemaType": kind, "references": list(references)}
        with self._lock:
            if entry not in self._schemas:
                self._schemas.append(entry)
            number = self._schemas.index(entry) + 1
            versions = self._subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
            return number

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the content of a response."""
        self.requests.append(path)
        if self.failing is not None:
            return self.failing, {"error_code": self.failing, "message": "the registry is failing"}
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self._schema(int(found[1]))
        if found := re.fullmatch(r"/schemas/guids/([0-9a-f-]{36})", path):
            numbers = [number for number, each in enumerate(self._schemas, 1) if _guid(each) == found[1]]
            return self._schema(numbers[0] if numbers else 0)
        if path == "/subjects":
            return 200, sorted(self._subjects)
        if found := re.fullmatch(r"/subjects/([^/]+)(/versions)?", path):
            return self._subject(method, unquote(found[1]), body, is_new=bool(found[2]))
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/([^/]+)", path):
            return self._version(unquote(found[1]), found[2])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, number: int) -> tuple[int, Any]:
        if not 1 <= number <= len(self._schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, _described(self._schemas[number - 1])

    def _subject(self, method: str, subject: str, body: dict[str, Any], *, is_new: bool) -> tuple[int, Any]:
        kind, references = body.get("schemaType", "AVRO"), body.get("references") or ()
        if method == "POST" and is_new:
            number = self.register(subject, body.get("schema", ""), kind, references)
            return 200, {"id": number, "guid": _guid(self._schemas[number - 1])}
        entry = {"schema": body.get("schema"), "schemaType": kind, "references": list(references)}
        versions = self._subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if method == "GET":
            return 200, list(range(1, len(versions) + 1))
        for version, number in enumerate(versions, 1):
            if self._schemas[number - 1] == entry:
                return self._version(subject, str(version))
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self._subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        place = len(versions) if version == "latest" else int(version) if version.isdecimal() else 0
        if not 1 <= place <= len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = versions[place - 1]
        return 200, {"subject": subject, "version": place, "id": number, **_described(self._schemas[number - 1])}


class _Handler(BaseHTTPRequestHandler):
    registry: SchemaRegistry
    protocol_version = "HTTP/1.1"

    def read(self) -> None:
        """Answer a GET."""
        self._respond({})

    def write(self) -> None:
        """Answer a POST."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MOST_BYTES:
            self.send_error(413)
            return
        try:
            body = json.loads(self.rfile.read(size))
        except ValueError:
            body = None
        self._respond(body if isinstance(body, dict) else {})

    do_GET, do_POST = read, write  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def _respond(self, body: dict[str, Any]) -> None:
        status, found = self.registry.answer(self.command, urlsplit(self.path).path, body)
        content = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _described(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as registries send it: without the type of Avro, without references where there are none."""
    return {name: value for name, value in entry.items() if value and value != "AVRO"} | {"guid": _guid(entry)}


def _guid(entry: dict[str, Any]) -> str:
    """Return the GUID of a schema, which is the same in every registry."""
    return str(UUID(bytes=hashlib.md5(json.dumps(entry).encode(), usedforsecurity=False).digest()))
