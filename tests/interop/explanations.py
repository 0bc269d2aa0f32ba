"""What `kohort explain` says of a group, on a broker that keeps its events."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interop.lanes import Stage


def explains(stage: Stage) -> bool:
    """Whether the broker keeps why groups rebalance."""
    return stage.broker.name == "kohort"


def rebalances(stage: Stage, group_id: str) -> list[dict[str, Any]]:
    """Return what `kohort explain` says of a group's rebalances, the oldest first; none where nothing explains."""
    if not explains(stage):
        return []
    program = str(Path(sys.executable).parent / "kohort")
    command = [program, "explain", group_id, "--json", "--last", "1000", "--bootstrap-server", stage.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["rebalances"]
    return found


def assigned_works(stage: Stage, group_id: str) -> list[dict[str, Any]]:
    """Return what the members of Connect or Streams ran with each assignment, the oldest first."""
    rounds = [each for rebalance in rebalances(stage, group_id) for each in rebalance["rounds"]]
    return [each["work"] for each in rounds if each["work"] is not None]


def runs(work: dict[str, Any]) -> list[str]:
    """Return what all members run with an assignment."""
    return sorted(name for each in work["members"].values() for name in each["runs"])
