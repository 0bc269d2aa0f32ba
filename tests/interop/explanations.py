"""What `kohort explain` says of a group, on a broker that keeps its events, and `kohort what-if` predicts."""

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
    found: list[dict[str, Any]] = document(stage, "explain", group_id, "--last", "1000")["rebalances"]
    return found


def forecast(stage: Stage, group_id: str, *change: str) -> list[dict[str, Any]]:
    """Return the steps that `kohort what-if` predicts for a streams group."""
    found: list[dict[str, Any]] = document(stage, "what-if", group_id, *change)["steps"]
    return found


def document(stage: Stage, *words: str) -> dict[str, Any]:
    """Return the JSON that a command prints."""
    program = str(Path(sys.executable).parent / "kohort")
    command = [program, *words, "--json", "--bootstrap-server", stage.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assigned_works(stage: Stage, group_id: str) -> list[dict[str, Any]]:
    """Return what the members of Connect or Streams ran with each assignment, the oldest first."""
    rounds = [each for rebalance in rebalances(stage, group_id) for each in rebalance["rounds"]]
    return [each["work"] for each in rounds if each["work"] is not None]


def runs(work: dict[str, Any]) -> list[str]:
    """Return what all members run with an assignment."""
    return sorted(name for each in work["members"].values() for name in each["runs"])
