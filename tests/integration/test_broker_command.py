"""`kohort broker` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.integration.test_broker import Wire
from tests.unit.node.desk import batch, create, fetch, only, produce

from kohort.cli.main import main
from kohort.model.errors import ErrorCode
from kohort.wire.messages import ApiVersionsRequest, DescribeConfigsRequest

COMMAND = [sys.executable, "-m", "kohort", "broker"]


@contextmanager
def running(*options: str, prefix: Sequence[str] = ()) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a broker until the block ends; yield the process and its address."""
    with subprocess.Popen(
        [*prefix, *COMMAND, "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("kohort broker ready on "), process.communicate(timeout=10)[1]
            yield process, line.split()[-1]
        finally:
            if process.poll() is None:
                process.kill()


def is_served(wire: Wire) -> bool:
    """Whether the broker answers on a connection, instead of closing it."""
    try:
        wire.call(ApiVersionsRequest(), 0)
    except (EOFError, ConnectionError):
        return False
    return True


def refused(*options: str) -> tuple[int, str]:
    """Run a broker that must not start; return its exit status and its output."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_clean(tmp_path: Path, number: signal.Signals) -> None:
    with running("--data", str(tmp_path)) as (process, address), Wire(address) as wire:
        assert only(wire.call(produce("orders", batch(b"x")), 9)).error_code == 3
        wire.call(create("orders"), 7)
        assert only(wire.call(produce("orders", batch(b"x")), 9)).error_code == 0
        process.send_signal(number)
        assert process.wait(timeout=10) == 0
    with running("--data", str(tmp_path)) as (_, address), Wire(address) as wire:
        assert only(wire.call(fetch("orders"), 11)).high_watermark == 1


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged = 0
    for round_number in range(3):
        with running("--data", str(tmp_path)) as (process, address), Wire(address) as wire:
            if round_number == 0:
                wire.call(create("orders"), 7)
            for _ in range(100):
                result = only(wire.call(produce("orders", batch(b"x" * 200)), 9))
                assert (result.error_code, result.base_offset) == (0, acknowledged)
                acknowledged += 1
            process.kill()
            process.wait(timeout=10)
    with running("--data", str(tmp_path)) as (_, address), Wire(address) as wire:
        assert only(wire.call(fetch("orders"), 11)).high_watermark == acknowledged


def test_logs_keep_their_descriptors_when_clients_take_all_others(tmp_path: Path) -> None:
    few = ["sh", "-c", 'ulimit -Sn 128 && ulimit -Hn 256 && exec "$0" "$@"']
    with running("--data", str(tmp_path), prefix=few) as (process, address), Wire(address) as wire, ExitStack() as idle:
        wire.call(create("orders", 200), 7)
        taken = [idle.enter_context(Wire(address)) for _ in range(300)]
        for partition in range(200):
            assert only(wire.call(produce("orders", batch(b"x" * 5000), partition=partition), 9)).error_code == 0
        served = [each for each in taken if is_served(each)]
        assert 0 < len(served) < 200, "the others are closed at once"
        for each in taken:
            each.socket.close()
        while not is_served(idle.enter_context(Wire(address))):
            pass  # the broker has not read yet that they are closed
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=20)[1]
    assert log.count("which the limit of 256 open files leaves) is reached: closed the connection from 127.0.0.1") == 1
    assert "connections are taken again" in log
    assert "ERROR" not in log


def test_settings_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("# a comment\nnum.partitions = 4\nlog.retention.hours: 1\n\n")
    toml = tmp_path / "server.toml"
    toml.write_text("num.partitions = 4\n[log.retention]\nhours = 1\n")
    for file in (properties, toml):
        options = ["--data", str(tmp_path / file.suffix), "--config", str(file), "--set", "num.partitions=6"]
        with running(*options) as (_, address), Wire(address) as wire:
            resource = DescribeConfigsRequest.Resource(
                resource_type=4, resource_name="1", configuration_keys=["num.partitions", "log.retention.hours"]
            )
            (result,) = wire.call(DescribeConfigsRequest(resources=[resource]), 4).results
        assert {config.name: config.value for config in result.configs} == {
            "num.partitions": "6",
            "log.retention.hours": "1",
        }


def test_a_second_broker_on_the_same_directory_exits_with_one_sentence(tmp_path: Path) -> None:
    with running("--data", str(tmp_path)):
        status, log = refused("--data", str(tmp_path), "--port", "0")
    assert (status, log) == (1, f"kohort broker: another broker uses this directory ({tmp_path})\n")


def test_a_port_in_use_exits_with_one_sentence(tmp_path: Path) -> None:
    with running("--data", str(tmp_path / "one")) as (_, address):
        port = address.rpartition(":")[2]
        status, log = refused("--data", str(tmp_path / "two"), "--port", port)
    assert (status, log) == (1, f"kohort broker: port {port} on 127.0.0.1 is in use by another process\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "num.partition=3"], "the broker has no setting 'num.partition'; did you mean 'num.partitions'?"),
        (["--set", "num.partitions=many"], "expected a whole number from 1 to 100000"),
        (["--set", "nonsense"], "'nonsense' is not NAME=VALUE"),
        (["--port", "70000"], "'70000' is not a port: expected a whole number from 0 to 65535"),
        (["--advertised", "nowhere"], "advertised.listeners='nowhere': expected NAME://HOST:PORT"),
        (["--config", "/nowhere/x.properties"], "cannot read /nowhere/x.properties: No such file or directory"),
        (["--set", "listeners=SSL://:1"], "listener SSL is SSL and has no certificate: set ssl.keystore.location"),
        (["--set", "listeners=SSL//:1"], "listeners='SSL//:1': expected NAME://HOST:PORT"),
        (["--set", "listener.name.ssl.ssl.client.auth=none"], "there is none: listeners has plaintext"),
    ],
)
def test_a_wrong_option_exits_with_2_and_its_reason(
    tmp_path: Path, options: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["broker", "--data", str(tmp_path), *options])
    except SystemExit as refusal:
        status = int(str(refusal.code))
    printed = capfd.readouterr()
    assert (status, printed.out) == (2, "")
    assert sentence in printed.err
    assert "Traceback" not in printed.err


def test_a_directory_that_cannot_be_made_exits_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, log = refused("--data", str(tmp_path / "file" / "below"), "--port", "0")
    assert status == 1
    assert log.startswith("kohort broker: ")
    assert "Traceback" not in log


AS_ANOTHER_USER = """
import os, sys
from kohort.cli.main import main, parser_for
from kohort.cli.terminal import interruption, output
import kohort.broker.broker, kohort.broker.descriptors, kohort.net.event_loop
if os.geteuid() == 0:  # root may write everywhere
    os.seteuid(65_534)
sys.exit(main(["broker", "--port", "0", "--data", sys.argv[1]]))
"""


def test_a_data_directory_of_another_user_is_named_with_what_to_do_and_no_word_of_ports() -> None:
    us = os.geteuid()
    user = us or 65_534
    with TemporaryDirectory() as above:
        data = Path(above) / "data"
        data.mkdir(mode=0o555)
        Path(above).chmod(0o755)
        command = [sys.executable, "-c", AS_ANOTHER_USER, str(data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"kohort broker: no permission to write {data} as user {user}: {data} belongs to user {us}. "
        f"Run `chown -R {user} {data}` and `chmod -R u+rwX {data}`, or give --data a directory of this user\n",
    )


def test_an_assignor_of_ones_own_is_found_in_the_folder_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_assignors.py").write_text("def by_hand(spec):\n    return {}\n")
    monkeypatch.chdir(tmp_path)
    with running("--data", str(tmp_path / "data"), "--assignor", "own_assignors:by_hand") as (_, address):
        assert address
    status, log = refused("--data", str(tmp_path / "data"), "--assignor", "own_assignors:by_had")
    assert status == 2
    assert log == (
        "kohort broker: cannot load the assignor own_assignors:by_had: there is no 'by_had' in it; it has by_hand\n"
    )


def test_compatible_broker_offers_what_that_kafka_does(tmp_path: Path) -> None:
    with running("--data", str(tmp_path), "--compatible", "kafka-4.3") as (_, address), Wire(address) as wire:
        answer = wire.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        assert {each.api_key: each.max_version for each in answer.api_keys}[18] == 4
        assert "kohort.group" not in {each.name for each in answer.supported_features}


def test_unknown_version_to_be_compatible_with_is_refused(tmp_path: Path) -> None:
    command = [*COMMAND, "--data", str(tmp_path), "--port", "0", "--compatible", "kafka-3.9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "kohort.compatible='kafka-3.9': expected kafka-4.3" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if not sys.platform.startswith("linux") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk is a tmpfs of its own, which only root may mount, and only on Linux")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_reported_by_broker_and_producer_and_writes_resume_when_there_is_space(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with running("--data", str(small_disk / "data")) as (process, address), Wire(address) as wire:
        wire.call(create("orders"), 7)
        assert only(wire.call(produce("orders", batch(b"first")), 9)).error_code == 0
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        large = batch(b"x" * 100_000)
        assert only(wire.call(produce("orders", large), 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert only(wire.call(fetch("orders"), 11)).high_watermark == 1
        words = ["-m", "kohort", "produce", "orders", "--bootstrap-server", address]
        with subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as producer:
            assert producer.stdin is not None
            assert producer.stderr is not None
            producer.stdin.write("y" * 50_000 + "\n")
            producer.stdin.close()
            line = producer.stderr.readline()
            assert line.startswith("kohort: orders-0 refuses records: "), line
            assert line.endswith("they are sent again for 120 s (delivery_timeout_ms)\n")
            ballast.unlink()
            assert producer.wait(timeout=30) == 0
        assert only(wire.call(produce("orders", large), 9)).error_code == 0
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=20)[1]
    full = [line for line in log.splitlines() if "no space left" in line]
    assert len(full) == 1, "one line, however many clients are refused"
    assert f"no space left in {small_disk / 'data'}: " in full[0]
    assert f"more bytes are needed to append {len(large)} to orders-0/00000000000000000000.log" in full[0]
    assert log.count("there is space again") == 1
