"""Every test that takes `disk` runs on the disk in memory and on the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.os_disk import OsDisk
from kohort.log.disk import Disk
from kohort.log.memory_disk import MemoryDisk


@pytest.fixture(params=["memory", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return MemoryDisk() if request.param == "memory" else OsDisk(tmp_path)
