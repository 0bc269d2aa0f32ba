"""`kohort keda-scaler` as a process, called as KEDA calls it: by grpc with messages of the protobuf library."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.integration.running_gateway import RunningGateway

from kohort import CooperativeStickyAssignor, sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.broker.secured_listener import Authority
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment

pytestmark = pytest.mark.timeout(240)

PACKAGE = "externalscaler"
PAUSE = threading.Event()
"""Is never set."""

STRING, BOOL, INT64, DOUBLE, MESSAGE = 9, 8, 3, 1, 11
FIELDS: dict[str, list[tuple[str, int, str, bool]]] = {
    "ScaledObjectRef": [
        ("name", STRING, "", False),
        ("namespace", STRING, "", False),
        ("scalerMetadata", MESSAGE, "ScaledObjectRef.ScalerMetadataEntry", True),
    ],
    "IsActiveResponse": [("result", BOOL, "", False)],
    "MetricSpec": [
        ("metricName", STRING, "", False),
        ("targetSize", INT64, "", False),
        ("targetSizeFloat", DOUBLE, "", False),
    ],
    "GetMetricSpecResponse": [("metricSpecs", MESSAGE, "MetricSpec", True)],
    "GetMetricsRequest": [("scaledObjectRef", MESSAGE, "ScaledObjectRef", False), ("metricName", STRING, "", False)],
    "MetricValue": [
        ("metricName", STRING, "", False),
        ("metricValue", INT64, "", False),
        ("metricValueFloat", DOUBLE, "", False),
    ],
    "GetMetricsResponse": [("metricValues", MESSAGE, "MetricValue", True)],
}
"""The messages of KEDA's interface: name, type, and whether it is repeated of each field, by their numbers."""


def messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="scaler.proto", package=PACKAGE, syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, of, is_repeated) in enumerate(fields, 1):
            type_name = f".{PACKAGE}.{of}" if of else None
            message.field.add(name=field, number=number, type=kind, label=3 if is_repeated else 1, type_name=type_name)
    entry = file.message_type[0].nested_type.add(name="ScalerMetadataEntry")
    entry.options.map_entry = True
    for number, field in enumerate(("key", "value"), 1):
        entry.field.add(name=field, number=number, type=STRING, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in FIELDS}


MESSAGES = messages()


class Keda:
    """What KEDA calls for one ScaledObject."""

    def __init__(self, channel: Any, **metadata: str) -> None:
        self.channel = channel
        self.ref = MESSAGES["ScaledObjectRef"](name="so", namespace="ns", scalerMetadata=metadata)

    def call(self, method: str, request: Any, answer: str) -> Any:
        found = self.channel.unary_unary(
            f"/{PACKAGE}.ExternalScaler/{method}",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=MESSAGES[answer].FromString,
        )
        return found(request, timeout=10)

    def is_active(self) -> bool:
        return bool(self.call("IsActive", self.ref, "IsActiveResponse").result)

    def stream(self) -> Any:
        return self.channel.unary_stream(
            f"/{PACKAGE}.ExternalScaler/StreamIsActive",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=MESSAGES["IsActiveResponse"].FromString,
        )(self.ref, timeout=200)

    def spec(self) -> Any:
        return self.call("GetMetricSpec", self.ref, "GetMetricSpecResponse").metricSpecs

    def replicas(self) -> float:
        request = MESSAGES["GetMetricsRequest"](scaledObjectRef=self.ref, metricName="kohort-replicas")
        [value] = self.call("GetMetrics", request, "GetMetricsResponse").metricValues
        assert value.metricName == "kohort-replicas"
        assert value.metricValue == value.metricValueFloat
        return float(value.metricValueFloat)

    def refused(self, call: Callable[[], Any]) -> tuple[str, str]:
        with pytest.raises(grpc.RpcError) as failed:
            call()
        return failed.value.code().name, failed.value.details()

    def failure(self) -> str:
        """Why there is no number; empty where there is one."""
        try:
            self.replicas()
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
        return ""

    def until(self, is_so: Callable[[], bool], timeout_s: float = 90) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            with suppress(grpc.RpcError):
                if is_so():
                    return
            assert time.monotonic() < deadline_s
            PAUSE.wait(0.1)


class Scaler:
    """A scaler as a process, and its log."""

    def __init__(self, bootstrap_servers: str, *options: str) -> None:
        command = [sys.executable, "-m", "kohort", "keda-scaler", "--bootstrap-server", bootstrap_servers]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        assert ready["ready"] is True
        self.address: str = ready["address"]

    def stop(self) -> list[str]:
        """End it, and return its log."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, errors
        return [json.loads(line)["message"] for line in errors.splitlines() if line.startswith("{")]


class Members:
    """Consumers in threads, by the names of their pods."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._ended: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}

    def start(self, name: str) -> None:
        ended = self._ended[name] = threading.Event()
        self._threads[name] = threading.Thread(target=self._run, args=(name, ended), daemon=True)
        self._threads[name].start()

    def _run(self, name: str, ended: threading.Event) -> None:
        with sync.Consumer(
            "t",
            bootstrap_servers=self.bootstrap_servers,
            group_id="billing",
            client_id=name,
            auto_offset_reset="earliest",
            assignors=[CooperativeStickyAssignor()],
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=500,
        ) as consumer:
            while not ended.is_set():
                consumer.poll(timeout_ms=50)

    def stop(self, *names: str) -> None:
        for name in names or list(self._threads):
            self._ended.pop(name).set()
            self._threads.pop(name).join()

    def abandon(self) -> None:
        """Let members end by themselves whose broker is gone."""
        for ended in self._ended.values():
            ended.set()
        self._threads.clear()

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def scaler_of(bootstrap_servers: str, *options: str) -> Iterator[tuple[Scaler, Any]]:
    with ExitStack() as stack:
        scaler = Scaler(bootstrap_servers, *options)
        stack.callback(scaler.process.kill)
        yield scaler, stack.enter_context(grpc.insecure_channel(scaler.address))


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 6)
        yield broker


def owned(bootstrap_servers: str) -> dict[str, int]:
    with sync.Admin(bootstrap_servers) as admin:
        if "billing" not in [group.group_id for group in admin.list_groups()]:
            return {}
        [group] = admin.describe_groups(["billing"]).values()
    return {member.client_id: len(member.assignment) for member in group.members}


def settle(bootstrap_servers: str, expected: dict[str, int]) -> None:
    deadline_s = time.monotonic() + 60
    while (found := owned(bootstrap_servers)) != expected:
        assert time.monotonic() < deadline_s, (found, expected)
        PAUSE.wait(0.1)


def test_group_is_scaled_out_by_what_is_written_and_its_cluster_may_end(broker: EmbeddedBroker) -> None:
    with Members(broker.bootstrap_servers) as members, scaler_of(broker.bootstrap_servers) as (scaler, channel):
        members.start("billing-0")
        settle(broker.bootstrap_servers, {"billing-0": 6})
        keda = Keda(channel, scalerAddress=scaler.address, consumerGroup="billing", recordsPerSecond="50")
        [spec] = keda.spec()
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("kohort-replicas", 1, 1.0)
        keda.until(lambda: keda.replicas() == 1)
        stream = keda.stream()
        assert next(stream).result is False
        with sync.Producer(broker.bootstrap_servers) as producer:

            def written() -> bool:
                for number in range(60):
                    producer.send("t", b"x", partition=number % 6)
                return keda.replicas() == 6

            keda.until(written)
        assert next(stream).result is True
        stream.cancel()
        broker.stop()
        keda.until(lambda: keda.failure() != "")
        assert keda.failure().startswith("UNAVAILABLE: no broker answers at ")
        lines = scaler.stop()
        members.abandon()
    assert any(line.startswith("group billing: 1 → 6 members: ") for line in lines), lines


def test_calls_that_have_no_answer_end_with_a_sentence(broker: EmbeddedBroker) -> None:
    with scaler_of(broker.bootstrap_servers) as (scaler, channel):
        absent, missing = Keda(channel, consumerGroup="biling"), Keda(channel)
        sentence = "there is no group 'biling': a group begins when its first member joins"
        assert absent.refused(absent.is_active) == ("NOT_FOUND", sentence)
        for call in (missing.spec, missing.is_active, missing.replicas):
            assert missing.refused(call) == (
                "INVALID_ARGUMENT",
                "the trigger has no metadata key consumerGroup: set it to the id of the group",
            )
        many = [Keda(channel, consumerGroup=f"g-{number}") for number in range(300)]
        for each in many:
            assert each.refused(each.is_active)[0] in ("NOT_FOUND", "UNAVAILABLE")
        assert scaler.stop()


def test_members_of_the_last_pods_are_drained_before_they_leave(broker: EmbeddedBroker) -> None:
    parking = PolicyTable((Policy(groups="*", treatment=Treatment.PARK),))
    with ExitStack() as stack:
        gateway = stack.enter_context(RunningGateway(broker.bootstrap_servers, policies=parking))
        members = stack.enter_context(Members(gateway.bootstrap_servers))
        names = [f"billing-{number}" for number in range(3)]
        for name in names:
            members.start(name)
        settle(broker.bootstrap_servers, dict.fromkeys(names, 2))
        scaler, channel = stack.enter_context(scaler_of(broker.bootstrap_servers))
        keda = Keda(channel, consumerGroup="billing", recordsPerSecond="1000", cooldownSeconds="0", drain="statefulset")
        keda.until(lambda: keda.replicas() == 1)
        assert owned(broker.bootstrap_servers) == {"billing-0": 6, "billing-1": 0, "billing-2": 0}
        members.stop("billing-1", "billing-2")
        settle(broker.bootstrap_servers, {"billing-0": 6})
        lines = scaler.stop()
        assert any("they are drained first" in line for line in lines), lines
        assert "group billing: 3 → 1 members: those that leave own nothing" in lines


def test_certificate_of_a_client_is_demanded(broker: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("scaler", ["localhost"])
    options = ["--tls-certificate", str(files), "--tls-client-authority", str(authority.certificate)]
    scaler = Scaler(broker.bootstrap_servers, "--host", "localhost", *options)
    roots, client = authority.certificate.read_bytes(), authority.sign("keda").read_bytes()
    with grpc.secure_channel(scaler.address, grpc.ssl_channel_credentials(roots, client, client)) as channel:
        keda = Keda(channel, consumerGroup="g")
        assert [spec.targetSize for spec in keda.spec()] == [1]
    with grpc.secure_channel(scaler.address, grpc.ssl_channel_credentials(roots)) as channel:
        keda = Keda(channel, consumerGroup="g")
        assert keda.refused(keda.spec)[0] == "UNAVAILABLE"
    scaler.stop()
