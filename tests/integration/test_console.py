"""`kohort console` on real sockets: what its pages show of members that come and go, and which requests it refuses."""

from __future__ import annotations

import asyncio
import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import pytest
from interop.ports import free_port
from tests.integration.running_console import END_S, RunningConsole
from tests.integration.running_gateway import RunningGateway
from tests.integration.test_cli_explain import shared, until

from kohort import Admin, Consumer, Producer
from kohort.broker.broker import Broker
from kohort.broker.embedded import EmbeddedBroker
from kohort.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from kohort.model.ids import EVENT_TOPIC, TopicPartition
from kohort.node.configuration.broker_settings import STANDARD_AUTHORIZER
from kohort.testing import SchemaRegistry

SCRIPT = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture(scope="module")
def console(shared_broker: EmbeddedBroker) -> Iterator[RunningConsole]:
    with RunningConsole(shared_broker.bootstrap_servers) as running:
        yield running


def test_a_group_is_listed_and_explained_while_it_lives(shared_broker: EmbeddedBroker, console: RunningConsole) -> None:
    asyncio.run(shared(shared_broker.bootstrap_servers, "watched", is_left=True))
    row = console.until("/live/groups?q=watched", "list", "alice left", "Empty")
    assert "inferred" not in row
    page = console.get("/group?id=watched")
    assert page.status == 200
    for words in (
        "bob joined",
        "alice joined",
        "partition-seconds",
        "kohort explain watched --verbose",
        "round opened",
    ):
        assert words in page.text
    assert 'id="rebalance-1"' in page.text


def test_members_and_lag_are_those_of_the_cluster(shared_broker: EmbeddedBroker, console: RunningConsole) -> None:
    async def scenario(address: str) -> None:
        async with Admin(address) as admin:
            await admin.create_topic("lagged", partitions=2)
        async with Producer(address) as producer:
            for number in range(10):
                await producer.send("lagged", b"x", partition=number % 2)
        settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": "lagged", "auto_offset_reset": "latest"}
        async with Consumer("lagged", client_id="reader", **settings) as reader:
            await until(lambda: len(reader.assignment()) == 2, reader)
            await reader.commit(dict.fromkeys(reader.assignment(), 5))
            async with Producer(address) as producer:
                for _ in range(7):
                    await producer.send("lagged", b"x", partition=1)
            await asyncio.to_thread(console.until, "/live/group?id=lagged", "partitions", ">7<", "reader")
            await asyncio.to_thread(console.until, "/live/group?id=lagged", "members", "reader", "lagged")
            drawn = await asyncio.to_thread(console.until, "/live/group?id=lagged", "strip", "lagged-1", "reader")
            assert "ownership" in drawn

    asyncio.run(scenario(shared_broker.bootstrap_servers))


@pytest.mark.parametrize("group_id", [SCRIPT, "g" * 249, "a/b?c=d&e#f %2F", "\u202egnp.exe"])
def test_any_name_is_only_a_name(shared_broker: EmbeddedBroker, console: RunningConsole, group_id: str) -> None:
    async def scenario(address: str) -> None:
        async with Admin(address) as admin:
            topics = {topic.name for topic in await admin.list_topics()}
            if "named" not in topics:
                await admin.create_topic("named", partitions=1)
        settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": group_id, "client_id": SCRIPT}
        async with Consumer("named", **settings) as reader:
            await until(lambda: len(reader.assignment()) == 1, reader)

    asyncio.run(scenario(shared_broker.bootstrap_servers))
    path = f"id={quote(group_id, safe='')}"
    console.until(f"/live/group?{path}", "rebalances", "joined")
    for text in (console.get(f"/group?{path}").text, console.get("/?order=recent").text):
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_records_of_a_partition_are_text_json_or_bytes(shared_broker: EmbeddedBroker, console: RunningConsole) -> None:
    values = [b"plain", b'{"a": 1}', b"\xff\x00", b"<script>alert(2)</script>", None]

    async def scenario(address: str) -> None:
        async with Admin(address) as admin:
            await admin.create_topic("mixed", partitions=1)
        async with Producer(address) as producer:
            for value in values:
                await producer.send("mixed", value, key=b"k", headers=[("h", b"v")])

    asyncio.run(scenario(shared_broker.bootstrap_servers))
    page = console.get("/topic?name=mixed&partition=0")
    assert page.status == 200
    for words in ("plain", "&#34;a&#34;: 1", "ff 00", "&lt;script&gt;alert(2)", "offset 4", "key <bdi>k</bdi>"):
        assert words in page.text, words
    later = console.get("/topic?name=mixed&partition=0&offset=3").text
    assert "offset 3" in later
    assert "offset 2 <" not in later
    assert "is no ISO 8601 time" in console.get("/topic?name=mixed&partition=0&time=yesterday").text
    assert "mixed" in console.get("/topics?q=MIX").text


def test_topics_have_their_bytes_and_the_groups_that_read_them(
    shared_broker: EmbeddedBroker, console: RunningConsole
) -> None:
    """A thousand records of which 900 are read: bytes as the broker's disk has them, and a rate while more come."""

    async def scenario(address: str) -> None:
        async with Admin(address) as admin:
            await admin.create_topic("measured", partitions=2)
            async with Producer(address) as producer:
                for number in range(1000):
                    await producer.send("measured", b"x" * 100, partition=number % 2)
            await admin.reset_offsets("measurers", {TopicPartition("measured", each): 450 for each in (0, 1)})
            page = asyncio.to_thread(console.until, "/live/topics?q=measured", "list", ">1,000<", "lag 100<", "KiB")
            listed = await page
            assert "measurers" in listed
            more = asyncio.create_task(write_more(address))
            try:
                rate = r'data-label="Written a second">([1-9][0-9,.]*)<small>about [0-9.,]+ (KiB|bytes)'
                await asyncio.to_thread(console.until_match, "/live/topic?name=measured", "partitions", rate)
            finally:
                more.cancel()

    async def write_more(address: str) -> None:
        async with Producer(address) as producer:
            while True:
                await (await producer.send("measured", b"x" * 100, partition=0))

    asyncio.run(scenario(shared_broker.bootstrap_servers))
    assert "There is no such topic" in console.get("/topic?name=no-such").text


def test_records_are_read_by_the_schemas_of_a_registry(shared_broker: EmbeddedBroker) -> None:
    """What fastavro wrote is shown as JSON; what cannot be read has its reason, beside its bytes."""
    order: dict[str, Any] = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        ],
    }
    written = io.BytesIO()
    fastavro.schemaless_writer(written, order, {"id": SCRIPT, "price": Decimal("-12.50"), "at": 1_700_000_000_000})
    with SchemaRegistry() as registry:
        avro, text = registry.register("orders-value", order), registry.register("texts-value", {}, "JSON")
        header = {number: b"\0" + number.to_bytes(4, "big") for number in (avro, text, 999)}
        values = [header[avro] + written.getvalue(), header[text] + b'{"a": 1}', header[avro] + b"\x01", header[999]]
        asyncio.run(send_described(shared_broker.bootstrap_servers, values))
        with RunningConsole(shared_broker.bootstrap_servers, "--schema-registry", registry.url) as running:
            page = described(running)
    for words in (
        f"Avro, schema {avro}", "&#34;price&#34;: &#34;-12.50&#34;", "2023-11-14T22:13:20+00:00",
        f"JSON, schema {text}",
        "&lt;script&gt;alert(1)", f"it is not read by schema {avro}, which is Avro", "has no schema with the id 999",
    ):  # fmt: skip
        assert words in page, words
    assert "<script>alert" not in page
    with RunningConsole(shared_broker.bootstrap_servers, "--schema-registry", registry.url) as running:
        page = described(running)
    assert "the schema registry cannot be read" in page
    assert f"bytes, perhaps of schema {avro}" in page


async def send_described(address: str, values: list[bytes]) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("described", partitions=1)
    async with Producer(address) as producer:
        for value in values:
            await producer.send("described", value)


def described(running: RunningConsole) -> str:
    while (page := running.get("/topic?name=described&partition=0")).status == 404:
        pass  # metadata that is a moment older than the topic
    return page.text


def test_the_cluster_has_what_its_brokers_and_gateways_measure(tmp_path: Path) -> None:
    def opened(broker: Broker) -> str:
        address, metrics = f"127.0.0.1:{broker.address[1]}", free_port()
        assert broker.metrics is not None
        ports = broker.metrics.endpoint.port, metrics, 1
        options = [word for port in ports for word in ("--metrics-from", f"http://127.0.0.1:{port}")]
        gateway = RunningGateway(address, metrics=("127.0.0.1", metrics))
        with ExitStack() as gateways:
            gateways.enter_context(gateway)
            with RunningConsole(address, *options) as running:
                page = running.get("/cluster").text
                gateways.close()
                feed = running.until("/live/groups", "feed", f"127.0.0.1:{metrics}")
            assert "its metrics cannot be read any more" in feed
            return page

    async def scenario() -> str:
        broker = Broker(tmp_path, "127.0.0.1", 0, {}, metrics=("127.0.0.1", 0))
        await broker.start()
        try:
            return await asyncio.to_thread(opened, broker)
        finally:
            await broker.stop()

    page = asyncio.run(scenario())
    for words in (
        "heartbeats parked now", "times that a group fell back", "latency added", "<small>gateway</small>",
        "open logs", "event loop late", "free on its disk", "<small>broker</small>", "cannot be read: ",
    ):  # fmt: skip
        assert words in page, words


def test_a_cluster_with_tls_and_a_login_is_reached_by_a_file(tmp_path: Path) -> None:
    """The file is that of --command-config; commands that the page runs get it too."""
    pytest.importorskip("cryptography")
    with EmbeddedBroker(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256") as broker:
        file = tmp_path / "admin.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in broker.java_properties.items()))

        async def scenario() -> None:
            async with Admin(**broker.client_settings) as admin:
                await admin.create_topic("secured", partitions=1)
                await admin.reset_offsets("secured", {TopicPartition("secured", 0): 0})

        asyncio.run(scenario())
        with RunningConsole(broker.bootstrap_servers, "--command-config", str(file)) as running:
            running.until("/live/groups", "list", "secured")
            running.until("/live/topics", "list", "secured", "0 bytes")
            form = running.get("/action/reset-offsets?id=secured&aim=to-latest").text
            assert f"--command-config {file}" in form
            assert "secured-0" in form
        file.write_text(file.read_text().replace("password=", "password=not-"))
        with RunningConsole(broker.bootstrap_servers, "--command-config", str(file)) as running:
            running.until("/live/groups", "problem", "The groups cannot be read since")


def test_read_only_it_shows_the_command_and_runs_none(console: RunningConsole) -> None:
    page = console.get("/action/delete?id=watched")
    assert "kohort groups delete watched" in page.text
    assert "read-only" in page.text
    assert '<form method="post"' not in page.text
    assert console.post("/action/delete", {"id": "watched"}).status == 403


def test_a_change_is_previewed_asked_for_and_made_once_confirmed(shared_broker: EmbeddedBroker) -> None:
    address = shared_broker.bootstrap_servers
    asyncio.run(shared(address, "changed"))

    async def commit() -> None:
        async with Admin(address) as admin:
            await admin.reset_offsets("changed", {TopicPartition("changed", 0): 0})

    async def groups() -> set[str]:
        async with Admin(address) as admin:
            return {group.group_id for group in await admin.list_groups()}

    asyncio.run(commit())
    with RunningConsole(address, "--allow-changes") as running:
        running.until("/live/groups?q=changed", "list", "changed")
        form = running.get("/action/reset-offsets?id=changed&aim=to-latest")
        assert "kohort groups reset-offsets changed --all-topics --to-latest --execute" in form.text
        [token] = re.findall(r'name="form_token" value="([0-9a-f]+)"', form.text)
        fields = {"id": "changed", "aim": "to-latest", "form_token": token}
        done = running.post("/action/reset-offsets", fields)
        assert (done.status, "Done" in done.text) == (200, True)
        delete = {"id": "changed", "form_token": token}
        for refused in (
            running.post("/action/delete", delete, {"Origin": "http://evil.example"}),
            running.post("/action/delete", delete, {"Sec-Fetch-Site": "cross-site"}),
            running.post("/action/delete", {**delete, "form_token": "0" * 64}),
            running.request("POST", "/action/delete", body="id=changed", cookie=""),
        ):
            assert refused.status in (401, 403)
        assert "changed" in asyncio.run(groups())
        assert running.post("/action/delete", delete).status == 200
        assert "changed" not in asyncio.run(groups())
        failed = running.post("/action/delete", delete)
        assert failed.status == 409
        assert "there is no group" in failed.text


def test_a_plan_has_today_beside_the_forecast(shared_broker: EmbeddedBroker, console: RunningConsole) -> None:
    async def scenario(address: str) -> None:
        async with Admin(address) as admin:
            await admin.create_topic("planned", partitions=4)
        settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": "planned"}
        async with Consumer("planned", client_id="only", **settings) as only:
            await until(lambda: len(only.assignment()) == 4, only)
            page = asyncio.create_task(asyncio.to_thread(console.get, "/plan?id=planned&change=add&value=1"))
            await until(page.done, only)
            text = page.result().text
            assert "kohort what-if planned --add=1" in text
            assert "1 member joins" in text
            assert "1 → 2" in text

    asyncio.run(scenario(shared_broker.bootstrap_servers))
    assert "there is no group" in console.get("/plan?id=no-such&change=rolling").text


def test_only_the_address_that_was_printed_logs_in(console: RunningConsole) -> None:
    assert console.get("/", cookie="").status == 401
    assert console.get("/?token=wrong", cookie="").status == 403
    assert console.get("/", cookie="kohort-console=x").status == 401
    page = console.log_in()
    assert (page.status, page.headers["location"]) == (303, "/")
    cookie = page.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert console.get("/").status == 200


def test_an_address_with_two_slashes_leads_to_no_other_site(console: RunningConsole) -> None:
    page = console.get(f"//evil.example/{console.path.removeprefix('/')}", cookie="")
    assert page.status == 303
    assert page.headers["location"].startswith("/evil.example")


def test_a_name_of_another_site_that_resolves_to_this_machine_gets_nothing(console: RunningConsole) -> None:
    for path in ("/", "/group?id=watched", "/live/groups", "/static/x/console.css", console.path):
        page = console.get(path, headers={"Host": f"evil.example:{console.port}"})
        assert page.status == 421, path
        assert "set-cookie" not in page.headers


def test_nothing_that_is_written_into_a_page_can_run(console: RunningConsole) -> None:
    for path in ("/", "/group?id=x", "/no/such/page", "/live/none"):
        page = console.get(path)
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy, path
        assert "unsafe-inline" not in policy
        assert "<style" not in page.text
        assert " style=" not in page.text
        assert " onclick=" not in page.text


def test_an_address_that_names_nothing_is_a_sentence(console: RunningConsole) -> None:
    assert (console.get("/no/such/page").status, console.get("/static/x/secret").status) == (404, 404)
    page = console.get("/group?id=no-such-group")
    assert page.status == 404
    assert "There is no such group" in page.text
    assert console.get("/?page=999999999999&order=%00&state=x&q=" + "x" * 5000).status == 200


def test_a_reader_that_takes_no_updates_stops_no_other(console: RunningConsole) -> None:
    deaf = []
    for _ in range(50):
        stream = socket.create_connection(("127.0.0.1", console.port))
        stream.sendall(
            f"GET /live/groups HTTP/1.1\r\nHost: 127.0.0.1:{console.port}\r\nCookie: {console.cookie}\r\n\r\n".encode()
        )
        deaf.append(stream)
    assert console.get("/").status == 200
    console.until("/live/groups", "summary", "groups")
    for stream in deaf:
        stream.close()


def test_a_signal_ends_it_with_a_page_open(shared_broker: EmbeddedBroker) -> None:
    with RunningConsole(shared_broker.bootstrap_servers) as running, running.updates("/live/groups") as changes:
        next(changes)
        assert running.stop() == 0


def test_behind_a_proxy_it_has_a_prefix_another_name_and_the_proxys_login(shared_broker: EmbeddedBroker) -> None:
    options = ("--path-prefix", "/kohort/", "--allowed-host", "ops.example.org", "--login-header", "X-User")
    with RunningConsole(shared_broker.bootstrap_servers, *options) as running:
        headers = {"Host": "ops.example.org", "X-User": "ann"}
        page = running.get("/kohort/", headers=headers, cookie="")
        assert page.status == 200
        assert 'href="/kohort/static/' in page.text
        assert running.get("/kohort/", headers={"Host": "ops.example.org"}, cookie="").status == 401
        assert running.get("/", headers=headers).status == 404


def test_a_cluster_that_is_gone_is_a_sentence_on_the_page() -> None:
    with EmbeddedBroker() as broker, RunningConsole(broker.bootstrap_servers) as running:
        running.until("/live/groups", "summary", "There are no groups yet")
        broker.stop()
        running.until("/live/groups", "problem", "The groups cannot be read since", "no broker answers")
        assert running.get("/").status == 200


def test_what_the_cluster_forbids_is_a_sentence_where_it_would_stand(tmp_path: Path) -> None:
    """One group may not be described, and the topic of events not be read; everything else is shown."""
    authorizer: dict[str, Any] = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}
    with EmbeddedBroker(tmp_path, group_initial_rebalance_delay_ms=0, **authorizer) as broker:
        asyncio.run(shared(broker.bootstrap_servers, "open"))
        asyncio.run(shared(broker.bootstrap_servers, "secret"))

        async def forbid() -> None:
            async with Admin(broker.bootstrap_servers) as admin:
                topic, group, literal = ResourceType.TOPIC, ResourceType.GROUP, PatternType.LITERAL
                describe, read = AclOperation.DESCRIBE, AclOperation.READ
                bindings = [
                    AclBinding(kind, name, literal, "User:ANONYMOUS", "*", operation, permission)
                    for kind, name, operation, permission in (
                        (group, "secret", describe, AclPermission.DENY),
                        (topic, EVENT_TOPIC, describe, AclPermission.ALLOW),
                        (topic, EVENT_TOPIC, read, AclPermission.DENY),
                    )
                ]
                await admin.create_acls(bindings)

        asyncio.run(forbid())
        with RunningConsole(broker.bootstrap_servers) as running:
            summary = running.until("/live/groups", "summary", f"{EVENT_TOPIC} cannot be read", "&#39;secret&#39;")
            assert "GROUP_AUTHORIZATION_FAILED" in summary
            running.until("/live/group?id=secret", "members", "cannot be described", "GROUP_AUTHORIZATION_FAILED")
            running.until("/live/group?id=open", "members", "The group has no members")


def test_a_broker_that_comes_back_is_read_on_and_no_rebalance_counts_twice(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(shared(broker.bootstrap_servers, "twice"))
        with RunningConsole(broker.bootstrap_servers) as running:
            running.until("/live/group?id=twice", "rebalances", "alice left")
            [total] = re.findall(r"<b>(\d+)</b><span>rebalances seen", running.get("/group?id=twice").text)
            broker.stop()
            running.until("/live/groups", "problem", "The groups cannot be read since")
            broker.start()
            asyncio.run(shared(broker.bootstrap_servers, "after"))
            running.until("/live/group?id=after", "rebalances", "alice left")
            assert f"<b>{total}</b><span>rebalances seen" in running.get("/group?id=twice").text


def test_without_the_extra_it_names_what_to_install(shared_broker: EmbeddedBroker) -> None:
    script = "import sys; sys.modules['uvicorn'] = None; from kohort.cli.main import main; sys.exit(main(['console']))"
    environment = {**os.environ, "KOHORT_BOOTSTRAP": shared_broker.bootstrap_servers}
    outcome = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=END_S, check=False
    )
    assert outcome.returncode == 1
    assert "pip install '.[console]'" in outcome.stderr


def test_a_port_that_is_taken_is_a_sentence(shared_broker: EmbeddedBroker, console: RunningConsole) -> None:
    environment = {**os.environ, "KOHORT_BOOTSTRAP": shared_broker.bootstrap_servers}
    command = [sys.executable, "-m", "kohort", "console", "--port", str(console.port)]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=END_S, check=False)
    assert outcome.returncode == 2
    assert "--port 0 takes a free one" in outcome.stderr
    assert console.process.poll() is None
