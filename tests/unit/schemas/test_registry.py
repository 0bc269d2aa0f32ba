"""The client of a schema registry: what is kept, what is unknown, and what is an outage."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("urllib3")

from kohort.schemas.registry import Registry, RegistrySettings, RegistryUnavailable, SchemaUnknown
from kohort.testing import SchemaRegistry


class Waits:
    """Time that passes only while the client waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.between: Any = lambda: None

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.between()

    def clock(self) -> float:
        return self.now


def client(waits: Waits | None = None, **settings: Any) -> Registry:
    waits = waits or Waits()
    return Registry(
        RegistrySettings.parse({f"schema.registry.{k}": v for k, v in settings.items()}), waits.wait, waits.clock
    )


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def test_a_schema_is_requested_once(served: SchemaRegistry) -> None:
    number = served.register("a-value", "string")
    registry = client(url=served.url)
    assert registry.schema(number).text == "string"
    assert registry.schema(number) == registry.version("a-value")
    assert served.requests == [f"/schemas/ids/{number}", "/subjects/a-value/versions/latest"]


def test_an_unknown_id_is_not_requested_again_for_a_minute(served: SchemaRegistry) -> None:
    waits = Waits()
    registry = client(waits, url=served.url)
    for _ in range(3):
        with pytest.raises(SchemaUnknown, match="has no schema with the id 7"):
            registry.schema(7)
    assert len(served.requests) == 1
    waits.now += 61
    with pytest.raises(SchemaUnknown):
        registry.schema(7)
    assert len(served.requests) == 2


def test_an_outage_is_waited_for(served: SchemaRegistry) -> None:
    number = served.register("a-value", "string")
    served.failing = 503
    waits = Waits()

    def heal_later() -> None:
        if waits.now > 20:
            served.failing = None

    waits.between = heal_later
    assert client(waits, url=served.url).schema(number).text == "string"
    assert waits.now > 20


def test_an_outage_that_lasts_is_no_unknown_schema(served: SchemaRegistry) -> None:
    served.failing = 500
    with pytest.raises(RegistryUnavailable, match=r"cannot be read: .* answered 500 .* No record was dropped"):
        client(url=served.url).schema(1)


def test_an_id_is_unknown_only_if_every_node_says_so(served: SchemaRegistry) -> None:
    with SchemaRegistry() as behind:
        number = served.register("a-value", "string")
        both = f"{behind.url},{served.url}"
        assert client(url=both).schema(number).text == "string"
        served.failing = 502
        with pytest.raises(RegistryUnavailable):
            client(url=both).schema(number)


def test_a_node_that_is_gone_is_an_outage() -> None:
    with SchemaRegistry() as served:
        url = served.url
    with pytest.raises(RegistryUnavailable, match=r"the schema registry cannot be read: .*refused"):
        client(url=url).schema(1)


@pytest.mark.parametrize(("status", "why"), [(401, "refuses access"), (404, "is no answer of a schema registry")])
def test_a_refusal_and_a_wrong_address_are_not_tried_again(served: SchemaRegistry, status: int, why: str) -> None:
    served.failing = status
    with pytest.raises(RegistryUnavailable, match=why):
        client(url=served.url).schema(1)
    assert len(served.requests) == 1


def test_references_come_before_the_schema_that_uses_them(served: SchemaRegistry) -> None:
    served.register("c", "C")
    served.register("b", "B", references=[{"name": "C", "subject": "c", "version": 1}])
    both = [{"name": "B", "subject": "b", "version": 1}, {"name": "C", "subject": "c", "version": 1}]
    number = served.register("a", "A", references=both)
    assert client(url=served.url).schema(number).references == ("C", "B")


def test_credentials_are_sent_and_never_shown() -> None:
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            """Keep what was sent."""
            seen.append(self.headers.get("Authorization"))
            self.send_error(500)

        do_GET = refuse  # noqa: N815

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    try:
        for settings in (
            {"url": f"http://{address}", "basic.auth.user.info": "me:secret"},
            {"url": f"http://me:secret@{address}"},
            {"url": f"http://{address}", "bearer.auth.token": "secret"},
        ):
            registry = client(**settings, **{"retry.ms": 1})
            with pytest.raises(RegistryUnavailable) as failed:
                registry.schema(1)
            assert "secret" not in f"{failed.value} {registry} {registry._settings!r}"
    finally:
        server.shutdown()
        server.server_close()
    assert seen == ["Basic bWU6c2VjcmV0", "Basic bWU6c2VjcmV0", "Bearer secret"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("localhost:8081", "schema.registry.url='localhost:8081': expected http://host:port"),
        ("", "schema.registry.url=''"),
        (
            {"schema.registry.url": "http://a", "schema.registry.user": "b"},
            "has no setting 'schema.registry.user'; did you mean",
        ),
        (
            {"schema.registry.url": "http://a", "schema.registry.timeout.ms": "1s"},
            "timeout.ms='1s': expected a whole number of milli",
        ),
        ({"schema.registry.url": "http://a", "schema.registry.basic.auth.user.info": "me"}, "takes user:password"),
    ],
)
def test_a_wrong_setting_is_named(settings: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RegistrySettings.parse(settings)
