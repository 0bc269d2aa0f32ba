"""`python -m demo`: real flights through our broker and group into two Spark workers, one of them killed on the way.

Exit status 1 when a row is lost, counted twice or added up wrongly, or when a process fails.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.main import run_verb
from kohort.cli.terminal import interruption, output
from kohort.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandFailed
from kohort.cli.terminal.options import Parser, add_json, number
from kohort.model.errors import KafkaError

if TYPE_CHECKING:
    from demo.story import Meter
    from demo.summary import Summary

QUICK_ROWS = 60_000

EXAMPLES = """examples:
  python -m demo
  python -m demo --quick --out build/quick
  python -m demo --rows 100000 --json"""


def main() -> int:
    """Run the demo and return its exit status."""
    summary = "Send real flights through a group of Spark workers, kill one, and account for every row."
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m demo", description=summary, epilog=EXAMPLES, formatter_class=formatter)
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("build/demo"), help="default: build/demo")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--rows", metavar="N", type=number(20_000, "a number of flights"), help="default: all 336,776")
    size.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} flights, the same story")
    add_json(parser)
    parser.set_defaults(run=run)
    return run_verb(parser.parse_args())


def run(args: argparse.Namespace) -> int:
    """Run the workers, check the result, write the report, and return the exit status."""
    try:
        from demo.flights import ALL_FLIGHTS, FlightsMissing, source_file
        from demo.plots import timeline
        from demo.report import page
        from demo.story import ChildFailed, Play, Script, Stalled
        from demo.summary import summarize
        from kohort.spark.spark_session import require_spark

        require_spark()
    except ImportError as missing:
        raise CommandFailed(f"the demo needs more packages ({missing}): make demo installs them", USAGE) from None
    try:
        source_file()
        script = Script(args.out.resolve(), **sizes(args, ALL_FLIGHTS))
        terminal = Terminal(is_quiet=args.json)
        story = interruption.run(Play(script, terminal).perform())
        with terminal.meter("adding up the source file", script.rows, "flights") as meter:
            summary = summarize(story, meter.advance)
    except FlightsMissing as missing:
        raise CommandFailed(str(missing), USAGE) from None
    except (ChildFailed, Stalled, KafkaError, OSError) as failure:
        raise CommandFailed(str(failure)) from failure
    except (interruption.Interrupted, KeyboardInterrupt):
        output.remark("stopped; every process of the demo has ended")
        return INTERRUPTED
    report = args.out / "report.html"
    picture = timeline(story, summary.owned, summary.unowned, summary.report.rebalances)
    report.write_text(page(summary, picture), encoding="utf-8")
    if args.json:
        output.put_json({**summary.to_json(), "report": str(report)})
    else:
        put_summary(summary, report)
    return 0 if summary.proof.holds else FAILED


def sizes(args: argparse.Namespace, everything: int) -> dict[str, int]:
    """Return the fields of `Script` that the options choose; smaller demos have smaller rounds."""
    rows = QUICK_ROWS if args.quick else min(args.rows or everything, everything)
    script: dict[str, int] = {"rows": rows}
    if rows < everything:
        script["max_rows_per_round"] = max(500, 8_000 * rows // everything)
        script["rows_per_s"] = max(1_000, 6_000 * rows // everything)
    return script


def put_summary(summary: Summary, report: Path) -> None:
    """Print the rebalances, the figures, and what is wrong."""
    proof, deliveries = summary.proof, summary.proof.deliveries
    output.put("")
    for place, at, sentence, *_ in summary.rebalance_rows():
        output.put(f"rebalance {place}, over at {at}: {sentence}")
    output.put("")
    facts = [
        ("flights sent", f"{proof.sent_rows:,}"),
        ("rows delivered", f"{deliveries.rows:,}"),
        ("rows read again after the kill", f"{deliveries.repeated_rows:,}"),
        ("rows lost", f"{proof.lost_rows:,}"),
        ("rows counted twice", f"{proof.doubled_rows:,}"),
        ("unowned partition-seconds", f"{summary.unowned_partition_s:.1f}"),
        ("partition-seconds of the dead worker", f"{summary.silent_partition_s:.1f}"),
        ("totals equal to the source file's", f"{proof.groups} of {proof.groups}" if proof.holds else "no"),
        ("table, in Delta Lake's format", str(summary.story.table_directory)),
        ("report", str(report)),
    ]
    for label, value in facts:
        output.put(f"{label:34} {value}")
    for difference in proof.differences[:50]:
        output.remark(difference)


@dataclass
class Terminal:
    """Shows the demo's progress; sentences go to stderr when stdout is for JSON."""

    is_quiet: bool

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        if self.is_quiet:
            output.remark(sentence)
        else:
            output.put(f"· {sentence}")
            output.flush()

    def meter(self, title: str, total: int | None, unit: str) -> AbstractContextManager[Meter]:
        """Show a bar once the step has taken two seconds."""
        return output.Meter(title, total=total, unit=unit)


if __name__ == "__main__":
    sys.exit(main())
