"""The recorded fleet of the demo: its log, and what is true of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.fleet.findings import NAMES
from kohort.fleet.ground_truth import unpack
from kohort.fleet.load_check import segments_of


def test_the_recorded_fleet_has_every_fault_and_what_only_resembles_it(tmp_path: Path) -> None:
    truth = unpack(tmp_path / "log")
    known = truth.groups.values()
    assert {name for each in known for name in each.expected} == set(NAMES)
    assert sum(bool(each.near) for each in known) >= 20
    assert segments_of([tmp_path / "log"])


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        unpack(tmp_path)
