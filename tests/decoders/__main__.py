"""Feeds every decoder bytes that coverage guides, until the time is over or one of them fails.

    python -m tests.decoders [--minutes 5] [--target NAME]… [--keep]

Each target runs in a process of its own for so many minutes. A failure is an exception that is no documented refusal,
an input that takes longer than a minute, or more than 1,500 MB: its input stands in build/decoders/TARGET/found, and
`python -m tests.decoders --input FILE --target NAME` runs it again. Exit code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from tests.decoders.corpus import keep, kept
from tests.decoders.targets import TARGETS

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "decoders"
LIMITS = ("-timeout=60", "-rss_limit_mb=1500", "-malloc_limit_mb=1500")


def main(arguments: list[str]) -> int:
    """Run the targets that are asked for, all by default."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.decoders", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5, help="for each target (default: 5)")
    parser.add_argument("--target", action="append", choices=TARGETS, metavar="NAME", help=f"{', '.join(TARGETS)}")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0 draws one and prints it")
    parser.add_argument("--keep", action="store_true", help="write what reaches new code into the kept corpus")
    parser.add_argument("--input", type=Path, metavar="FILE", help="run one target once, on the bytes of a file")
    given = parser.parse_args(arguments)
    chosen = given.target or list(TARGETS)
    if given.input is not None:
        if len(chosen) != 1:
            parser.error("--input needs one --target")
        TARGETS[chosen[0]].run(given.input.read_bytes())
        return 0
    failed = [name for name in chosen if not _run(name, given.minutes, given.seed)]
    if given.keep:
        for name in chosen:
            print(f"{name}: {keep(name, _merged(name))} inputs are kept", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else f"{len(chosen)} targets, no finding")
    return 1 if failed else 0


def _run(name: str, minutes: float, seed: int) -> bool:
    """Run one target; return whether nothing was found."""
    inputs, found = BUILD / name / "inputs", BUILD / name / "found"
    for folder in (inputs, found):
        folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate([*TARGETS[name].examples(), *kept(name)]):
        (inputs / f"kept-{number}").write_bytes(content)
    done = _guided(
        name,
        str(inputs),
        f"-max_total_time={int(60 * minutes)}",
        f"-seed={seed}",
        f"-artifact_prefix={found}/",
        *LIMITS,
    )
    output = done.stdout
    for line in re.findall(r"INFO: Seed: \d+|DONE .*", output):
        print(f"{name}: {line}", flush=True)
    if done.returncode:
        shown = "\n".join(line for line in output.splitlines() if not line.startswith("INFO"))
        print(f"{name} failed:\n{shown[-4000:]}", flush=True)
    return not done.returncode


def _merged(name: str) -> list[bytes]:
    """Return the inputs of a target without those that reach nothing more. Exits where libFuzzer cannot say which."""
    target = BUILD / name / "merged"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    done = _guided(name, "-merge=1", str(target), *(str(BUILD / name / each) for each in ("inputs", "found")), *LIMITS)
    merged = [path.read_bytes() for path in target.iterdir()]
    if done.returncode or not merged:
        sys.exit(f"{name}: the inputs could not be merged, so the kept ones stay as they are:\n{done.stdout[-4000:]}")
    return merged


def _guided(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.decoders.guided", name, *options]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
