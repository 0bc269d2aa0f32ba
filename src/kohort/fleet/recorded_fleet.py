"""The log of the demo: a recorded fleet whose faults are known, as segment files of `__consumer_offsets`.

`python -m tests.fleets --record` in a clone of the repository wrote it, from groups that were simulated.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from kohort.fleet.ground_truth import Truth, read_truth

ARCHIVE = Path(__file__).with_suffix(".zip")


def unpack(directory: Path) -> Truth:
    """Write the log into a new or empty directory, and return its known faults. Raises ValueError."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ValueError(f"{directory} is not empty: a fleet is written into a directory of its own")
    with ZipFile(ARCHIVE) as archive:
        archive.extractall(directory)
    return read_truth(directory)
