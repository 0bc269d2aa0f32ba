"""One rebalance as HTML: its cause and cost, what avoids it, its steps, and the members that others waited for.

The console's page of a group and the file that `kohort explain --html` writes show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kohort.console.history.rebalance_view import RebalanceView
from kohort.drawing.display_text import display_name, display_sentence, moment
from kohort.drawing.html_page import table
from kohort.drawing.markup import Markup, joined, tag
from kohort.group.explain.remedy import COST_S, Remedy

Commands = Callable[[Remedy], Markup]
"""Writes the command line of a remedy."""


def rebalance_details(view: RebalanceView, commands: Commands, *, is_open: bool = False) -> Markup:
    """Return a rebalance as an element that opens, with an address of its own."""
    kind = "cost alarm" if view.unowned_s >= COST_S else "cost"
    badges = [tag("span", f"running for {view.took}", class_="badge critical")] if view.is_running else []
    badges += [tag("span", "inferred", class_="badge")] if view.is_inferred else []
    heading = tag(
        "summary",
        *(tag("time", moment(view.started_ms)), " ", tag("b", display_sentence(view.cause))),
        *([" ", each] for each in badges),
        *(" ", tag("span", display_sentence(view.cost), class_=kind)),
    )
    inside = tag("div", list(_inside(view, commands)), class_="inside")
    kind = "rebalance moving" if view.is_running else "rebalance"
    return tag("details", heading, inside, class_=kind, id=f"rebalance-{view.number}", open=is_open)


def _inside(view: RebalanceView, commands: Commands) -> Iterator[Markup]:
    if view.awaited:
        yield tag("p", f"It is {display_sentence(view.awaited)}.", class_="alarm")
    if view.is_inferred:
        joins = f" Joined: {display_sentence(view.joined)}." if view.joined else ""
        text = f"This cluster writes no events: cause and times are inferred from two looks at the group.{joins}"
        yield tag("p", text, class_="note")
    if view.remedies:
        ways = [tag("li", display_sentence(each.text), " ", commands(each)) for each in view.remedies]
        yield tag("h3", "What avoids it")
        yield tag("ul", ways, class_="remedies")
    yield tag("h3", "Step by step")
    steps = [
        [tag("span", since, class_="since"), " ", tag("span", display_sentence(text))] for since, text in view.steps
    ]
    yield tag("ol", [tag("li", each) for each in steps], class_="steps")
    if view.took_lines:
        rows = [(tag("bdi", display_name(each.member)), each.step, f"{each.took_ms:,} ms") for each in view.took_lines]
        yield tag("h3", "Which members took longest")
        yield table(("Member", "Step", "Time"), rows, ("Time",), label="Members that took longest")


def rebalances_markup(views: Iterable[Markup], total: int) -> Markup:
    """Return a list of rebalances of `total` that were seen."""
    shown = list(views)
    left = f"Earlier ones are not stored here: {total:,} were seen." if total > len(shown) else ""
    note = left if shown else "None was seen."
    return joined([shown, tag("p", note, class_="note") if note else None])
