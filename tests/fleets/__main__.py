"""Write the log of a fleet with known faults, or record the one that `kohort fleet demo` reads.

python -m tests.fleets build/log --groups 2000 --seed 7 && kohort fleet run --tables ./fleet made=build/log
python -m tests.fleets --record
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

from tests.fleets.fleet_log import LEAST_DAYS, generate

from kohort.fleet.ground_truth import ARCHIVE

RECORDED_GROUPS = 100
"""The size of the fleet of the demo."""


def record() -> None:
    """Write the archive of the demo; the same log makes the same bytes."""
    with TemporaryDirectory() as folder, ZipFile(ARCHIVE, "w") as archive:
        home = Path(folder) / "log"
        generate(home, groups=RECORDED_GROUPS, partitions=4, commits_per_day=8)
        for file in sorted(home.rglob("*")):
            if file.suffix in (".log", ".json"):
                name = ZipInfo(str(file.relative_to(home)))
                archive.writestr(name, file.read_bytes(), ZIP_LZMA)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleets", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="a directory that is new or empty")
    parser.add_argument("--groups", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same log (1)")
    parser.add_argument("--days", type=int, default=LEAST_DAYS, help="how long (8)")
    parser.add_argument("--record", action="store_true", help="record the fleet of the demo")
    args = parser.parse_args()
    if args.record:
        record()
    if args.directory is not None:
        truth = generate(args.directory, groups=args.groups, seed=args.seed, days=args.days)
        print(f"{args.directory}: {len(truth.groups):,} groups, {truth.records:,} records")


if __name__ == "__main__":
    main()
