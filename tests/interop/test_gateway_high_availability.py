"""Two gateways before one Apache Kafka, and one fails: clients of every kind read every record, however they find them.

`python -m interop.high_availability` prints what each client did meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from interop.gateway_lab import WAYS
from interop.high_availability import FAULTS


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", WAYS)
def test_no_record_is_lost_when_one_of_two_gateways_fails(way: str, fault: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    command = [sys.executable, "-m", "interop.high_availability", "--way", way]
    command += ["--fault", fault, "--json", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert not done.returncode, done.stdout + done.stderr[-4000:]
    found = json.loads(rows.read_text())
    if way != "dns" or fault in ("kill", "drain"):  # else clients wait for their own timeouts
        assert not [row for row in found if not row["is_over"]]
