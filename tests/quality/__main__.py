"""`make museum`: looks for every bug of the museum from several seeds on, prints the score, writes docs/museum.md."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.quality.exhibits import EXHIBITS
from tests.quality.museum import STARTS, Hunt, Score, hunt
from tests.quality.page import page, score_line

PAGE = Path(__file__).parents[2] / "docs" / "museum.md"


def main() -> int:
    """Return 0 where every bug was found within its budget from every starting seed."""
    names = [exhibit.name for exhibit in EXHIBITS]
    options = argparse.ArgumentParser(prog="python -m tests.quality", description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(names)}")
    options.add_argument("--jobs", type=int, default=2, help="how many hunts at once (2)")
    options.add_argument("--starts", type=int, default=len(STARTS), help=f"from how many seeds on ({len(STARTS)})")
    chosen = options.parse_args()
    wanted = [name for name in names if not chosen.names or name in chosen.names]
    if unknown := set(chosen.names) - set(names):
        options.error(f"no exhibit is named {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    scores = look_for(wanted, STARTS[: chosen.starts], chosen.jobs)
    for score in scores:
        print(score_line(score))
    missed = [score.exhibit.name for score in scores if score.found < len(score.hunts)]
    if not chosen.names:
        PAGE.write_text(page(scores), encoding="utf-8")
    found = sum(score.found for score in scores)
    print(f"{found} of {sum(len(score.hunts) for score in scores)} hunts found their bug" + _missed(missed))
    return 1 if missed else 0


def _missed(names: list[str]) -> str:
    return f"; not always: {', '.join(names)}" if names else ""


def look_for(names: list[str], starts: tuple[int, ...], jobs: int) -> list[Score]:
    """Return the score of each exhibit; print the progress on stderr."""
    found: dict[str, list[Hunt]] = {name: [] for name in names}
    with ProcessPoolExecutor(jobs) as pool:
        waiting: list[Future[Hunt]] = [pool.submit(hunt, name, start) for start in starts for name in names]
        for done, future in enumerate(as_completed(waiting), 1):
            result = future.result()
            found[result.name].append(result)
            text = f"after {result.seeds} seeds by {result.invariant}" if result.is_found else "NOT FOUND"
            print(f"[{done}/{len(waiting)}] {result.name} from {result.start}: {text}", file=sys.stderr, flush=True)
    return [
        Score(exhibit, tuple(sorted(found[exhibit.name], key=lambda each: each.start)))
        for exhibit in EXHIBITS
        if exhibit.name in found
    ]


if __name__ == "__main__":
    sys.exit(main())
