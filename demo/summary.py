"""The demo's figures, worked out once, for the terminal, the report and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from demo.flights import NOTHING, Flight, Totals, add_up, read_flights
from demo.journal import Entry
from demo.ownership import Gap, Tenure, gaps, tenures
from demo.proof import Proof, count_deliveries, prove
from demo.result import Result, read_result
from demo.story import GROUP, VICTIM, Story
from kohort.group.explain.explain import explain
from kohort.group.explain.explain_text import Names, sentence
from kohort.group.explain.rebalance_report import GroupReport


@dataclass(frozen=True, slots=True)
class Summary:
    """All figures of one run."""

    story: Story
    proof: Proof
    result: Result
    report: GroupReport
    """The group's rebalances, as `kohort explain` prints them."""
    owned: tuple[Tenure, ...]
    unowned: tuple[Gap, ...]

    @property
    def started_ms(self) -> int:
        """When the first rebalance began."""
        rebalances = self.report.rebalances
        return rebalances[0].started_ms if rebalances else self.story.samples[0].at_ms

    @property
    def unowned_partition_s(self) -> float:
        """What all rebalances cost."""
        return sum(each.unowned_partition_s for each in self.report.rebalances)

    @property
    def silent_partition_s(self) -> float:
        """How long, in partition-seconds, the dead worker was believed to own its partitions."""
        return sum(each.silent_partition_s for each in self.report.rebalances)

    @property
    def takeover_s(self) -> float:
        """Seconds from the kill until the survivor owned a partition of the dead worker."""
        died_ms = min(self.story.deaths.values())
        after = [gap.until_ms for gap in self.unowned if gap.from_ms == died_ms]
        return (min(after) - died_ms) / 1000 if after else float("nan")

    @property
    def narrative(self) -> str:
        """The course of events in three sentences."""
        story, deliveries = self.story, self.proof.deliveries
        died_s = (min(story.deaths.values()) - self.started_ms) / 1000
        return (
            f"{story.preloaded:,} flights were in the topic when two PySpark applications joined the group "
            f"{GROUP!r}; the others arrived while they ran. After {died_s:.1f} s worker {VICTIM} was killed in the "
            f"middle of a round. The other took its partitions over {self.takeover_s:.1f} s later, when the session "
            f"had timed out, and was handed {deliveries.repeated_rows:,} rows again; then worker {VICTIM} was started "
            "anew and got its share back."
        )

    def rebalance_rows(self) -> list[tuple[Any, ...]]:
        """Number, when it was over, the sentence, partitions, duration, unowned and silent partition-seconds."""
        names = Names(self.report.identities)
        return [
            (
                number,
                f"{((each.ended_ms or 0) - self.started_ms) / 1000:.1f} s",
                sentence(each, names),
                ", ".join(f"{names(worker)} {count}" for worker, count in each.shares.items()),
                f"{each.duration_ms():,} ms",
                f"{each.unowned_partition_s:.1f}",
                f"{each.silent_partition_s:.1f}",
            )
            for number, each in enumerate(self.report.rebalances, 1)
        ]

    def delivery_rows(self) -> list[tuple[Any, ...]]:
        """Per run of a worker: rounds and rows committed, rounds and rows that others read again."""
        found = []
        for worker, run in sorted({(entry.worker, entry.run) for entry in self.story.entries}):
            mine = [entry for entry in self.story.entries if (entry.worker, entry.run) == (worker, run)]
            done = [entry for entry in mine if entry.kind == "committed"]
            closed = {entry.round_number for entry in done}
            lost = [entry for entry in mine if entry.kind == "began" and entry.round_number not in closed]
            name = f"{worker}, run {run}"
            found.append((name, len(done), f"{_rows(done):,}", len(lost), f"{_rows(lost):,}"))
        return found

    def delay_rows(self) -> list[tuple[Any, ...]]:
        """Per origin: flights, cancelled ones, mean delays."""
        origins: dict[str, Totals] = {}
        for group, totals in self.result.totals.items():
            origins[group.origin] = origins.get(group.origin, NOTHING).plus(totals)
        return [
            (
                origin,
                f"{each.flights:,}",
                f"{each.cancelled:,}",
                f"{each.departure_delay_min / max(each.departed, 1):.2f} min",
                f"{each.arrival_delay_min / max(each.arrived, 1):.2f} min",
            )
            for origin, each in sorted(origins.items())
        ]

    def speed_rows(self) -> list[tuple[str, str]]:
        """What was fast and how fast."""
        rounds = self.round_ms()
        return [
            ("loading, with acks=all and idempotence", f"{self.story.preloaded / self.story.load_s:,.0f} flights/s"),
            ("rounds committed", f"{len(rounds):,}"),
            ("median round, from first row to commit", f"{median(rounds):,.0f} ms" if rounds else "-"),
        ]

    def round_ms(self) -> list[int]:
        """Milliseconds of every committed round."""
        began: dict[tuple[str, int, int], int] = {}
        took: list[int] = []
        for entry in self.story.entries:
            key = entry.worker, entry.run, entry.round_number
            if entry.kind == "began":
                began[key] = entry.at_ms
            elif entry.kind == "committed":
                took.append(entry.at_ms - began[key])
        return took

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON can say them."""
        proof, deliveries = self.proof, self.proof.deliveries
        return {
            "holds": proof.holds,
            "rows_sent": proof.sent_rows,
            "rows_delivered": deliveries.rows,
            "rows_read_again": deliveries.repeated_rows,
            "rows_lost": proof.lost_rows,
            "rows_counted_twice": proof.doubled_rows,
            "rows_of_rounds_cut_off": deliveries.open_rows,
            "rows_of_rounds_refused": deliveries.refused_rows,
            "rounds": deliveries.rounds,
            "groups": proof.groups,
            "table": str(self.story.table_directory),
            "table_rows": self.result.rows,
            "table_commits": self.result.commits,
            "table_files": self.result.files,
            "files_of_lost_rounds": self.result.unnamed_files,
            "takeover_s": round(self.takeover_s, 3),
            "unowned_partition_s": round(self.unowned_partition_s, 3),
            "silent_partition_s": round(self.silent_partition_s, 3),
            "rebalances": [
                {"sentence": sentence(each, Names(self.report.identities)), **each.to_json()}
                for each in self.report.rebalances
            ],
            "differences": list(proof.differences),
        }


def _counted(flights: Iterator[Flight], counted: Callable[[int], object]) -> Iterator[Flight]:
    for number, flight in enumerate(flights, 1):
        if number % 1000 == 0:
            counted(1000)
        yield flight


def _rows(entries: list[Entry]) -> int:
    return sum(entry.rows for entry in entries)


def summarize(story: Story, counted: Callable[[int], object] = lambda _: None) -> Summary:
    """Read the table, compute the same totals from the source file, and hold everything against each other.

    `counted` is called for every thousand flights of the source file.
    """
    result = read_result(story.table_directory)
    proof = prove(
        placed=story.placed,
        ends=story.ends,
        deliveries=count_deliveries(story.entries, story.ends),
        result=result,
        expected=add_up(_counted(read_flights(story.script.rows), counted)),
    )
    owned = tenures(story.entries, story.deaths)
    return Summary(story, proof, result, explain(story.events, GROUP, 0), tuple(owned), tuple(gaps(owned)))
