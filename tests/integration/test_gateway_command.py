"""`kohort gateway` as a process of its own: how it starts, ends, and refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.gateway_cluster import gateway_cluster

from kohort.wire.frames import encode_request
from kohort.wire.messages import ApiVersionsRequest

COMMAND = [sys.executable, "-m", "kohort", "gateway"]


def refused(*options: str) -> tuple[int, str]:
    """Run a gateway that must not start; return its exit status and its output."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_the_gateway(number: signal.Signals) -> None:
    with gateway_cluster() as cluster:
        options = ["--bootstrap-servers", cluster.bootstrap_servers, "--mode", "listener"]
        options += ["--advertised", cluster.advertised, "--listen-host", "127.0.0.1", "--json"]
        with subprocess.Popen(
            [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            assert ready == {
                "ready": True,
                "mode": "listener",
                "ports": {str(cluster.gateway_port): {"node": 1, "address": f"{host}:{port}"}},
                "metrics_port": None,
            }
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 0
            assert {json.loads(line)["level"] for line in errors.splitlines()} == {"info"}


def test_a_second_signal_ends_the_gateway_at_once() -> None:
    with gateway_cluster() as cluster:
        options = ["--bootstrap-server", cluster.bootstrap_servers, "--mode", "listener", "--drain-ms", "60000"]
        options += ["--advertised", cluster.advertised, "--listen-host", "127.0.0.1"]
        with subprocess.Popen(
            [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(
                f"kohort gateway ready: port {cluster.gateway_port} for node 1 at"
            )
            with socket.create_connection(("127.0.0.1", cluster.gateway_port)) as client:
                request = encode_request(ApiVersionsRequest(), 0, 1, "client")
                client.sendall(request + request[:3])
                assert client.recv(1)  # so it has read the half request too, which keeps the connection busy
                process.send_signal(signal.SIGINT)
                while "the gateway ends: " not in process.stderr.readline():
                    pass
                process.send_signal(signal.SIGINT)
                assert process.wait(timeout=10) == -signal.SIGINT


def test_a_cluster_that_advertises_no_gateway_is_refused_with_the_setting() -> None:
    with gateway_cluster() as cluster:
        status, errors = refused(
            "--bootstrap-server", cluster.bootstrap_servers, "--mode", "listener", "--advertised", "gateway.example"
        )
    assert status == 1
    assert errors.startswith(
        "kohort gateway: no broker's advertised.listeners names gateway.example: every broker must"
    )


def test_a_wrong_setting_is_refused_before_the_cluster_is_reached(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('mode = "listener"\nadvertised = "g"\n[[policies]]\ngroups = "a"\n')
    assert refused("--config", str(file)) == (
        2,
        f"kohort gateway: {file}, line 3: policies: row 1: it lacks treatment: park, observe or off: "
        "heartbeats are parked, requests are only observed, or not read.\n",
    )
    assert refused("--mode", "listener") == (
        2,
        "kohort gateway: advertised is not set: give --advertised HOST, or write it into the file of --config\n",
    )


def test_a_cluster_that_does_not_answer_is_named() -> None:
    status, errors = refused("--bootstrap-server", "127.0.0.1:1", "--mode", "listener", "--advertised", "g")
    assert status == 1
    assert errors.startswith("kohort gateway: no broker answers at 127.0.0.1:1 (")
