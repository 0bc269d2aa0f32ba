"""What `kohort doctor` finds of this machine."""

from __future__ import annotations

import socket
import tomllib
from pathlib import Path

from kohort.cli.doctor.findings import Severity
from kohort.cli.doctor.installation import EXTRAS, installation, port_of

ROOT = Path(__file__).parents[4]


def test_every_extra_of_the_package_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert EXTRAS.keys() == project["optional-dependencies"].keys() - {"all"}


def test_a_missing_module_names_its_extra_what_for_and_how_large() -> None:
    findings = {each.about: each for each in installation(lambda module: module != "textual")}
    assert findings["extra top"].severity is Severity.INFO
    assert findings["extra top"].text == "textual missing, for kohort top; about 10 MB"
    assert "[top]" in findings["extra top"].fix
    assert findings["extra keda"].severity is Severity.OK


def test_a_port_is_free_or_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert port_of("127.0.0.1", port)[0]
    listens, finding = port_of("127.0.0.1", port)
    assert not listens
    assert finding.severity is Severity.OK
