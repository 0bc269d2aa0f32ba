"""The report as one HTML file that needs nothing else: no font, script, picture or style comes from anywhere.

Its own Content-Security-Policy forbids the browser to fetch anything and to run any script but the one in it, known
by its hash: a group whose name is a script stays a name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files

from kohort.fleet.report import plots, sections
from kohort.fleet.report.fleet_report import FleetReport
from kohort.fleet.report.markup import Content, Markup, script_json, tag
from kohort.fleet.report.summary import WORDS, Point, headline, lead, points
from kohort.fleet.report.wording import counted, duration, hour, listed, moment, shown_name, visible

TITLE = "What your fleet does"

_SECTIONS = (
    ("summary", "Summary"),
    ("findings", "Findings"),
    ("rebalances", "Rebalances"),
    ("unowned", "Without an owner"),
    ("ownership", "Who owned what"),
    ("migration", "New protocol"),
    ("groups", "Groups"),
    ("about", "About"),
)


def page(report: FleetReport) -> str:
    """Return the report as HTML."""
    named = sections.Names(report)
    script = Markup(_resource("page.js"))
    values = script_json({**plots.plotted(report), **sections.listed_groups(report)})
    body: list[Content] = [
        tag("a", "To the summary", href="#summary", class_="skip"),
        _head_of_page(report),
        tag("nav", [tag("a", text, href=f"#{name}") for name, text in _SECTIONS], aria_label="Parts of the report"),
        tag("main", _parts(report, named)),
        tag("footer", f"Written by kohort fleet report, {moment(report.made_at_ms)} UTC."),
        tag("script", values, type="application/json", id="figures"),
        tag("script", script),
    ]
    return f"<!doctype html>\n{tag('html', _head(report, script), tag('body', body), lang='en')}\n"


def _parts(report: FleetReport, named: sections.Names) -> Iterator[Markup]:
    yield _summary(report, named)
    yield sections.findings(report, named)
    yield sections.rebalances(report, named)
    yield sections.unowned(report, named)
    yield sections.ownership(report, named)
    yield sections.migration(report, named)
    yield sections.groups(report)
    yield _about(report)


def _head(report: FleetReport, script: Markup) -> Markup:
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{TITLE}: {headline(report)}"),
        tag("style", Markup(_resource("page.css"))),
    )


def _resource(name: str) -> str:
    return files("kohort.fleet.report").joinpath(name).read_text(encoding="utf-8")


def _head_of_page(report: FleetReport) -> Markup:
    sources = listed([shown_name(each) for each in report.read.sources]) or "nothing"
    columns = report.columns
    return tag(
        "header",
        tag("h1", TITLE),
        tag("p", tag("bdi", sources), f", {hour(columns.from_ms)} to {hour(columns.until_ms)} UTC", class_="when"),
    )


def _summary(report: FleetReport, named: sections.Names) -> Markup:
    todo, more = points(report)
    rest = f"{counted(more, 'more rule')} found something: see the findings below." if more else None
    return tag(
        "section",
        tag("h2", headline(report), id="summary-heading"),
        tag("p", lead(report), class_="lead"),
        _figures(report),
        tag("ol", [_point(each, named) for each in todo], class_="todo") if todo else None,
        tag("p", rest, class_="note") if rest else None,
        id="summary",
        aria_labelledby="summary-heading",
    )


def _figures(report: FleetReport) -> Markup:
    totals, ready = report.totals, report.readiness
    kinds = ", ".join(f"{count:,} {visible(kind)}" for kind, count in totals.kinds)
    classic = ready.ready + ready.not_ready + ready.unknown
    shown = [
        (f"{totals.groups:,}", "groups", kinds),
        (f"{totals.members:,}", "members", f"of {counted(totals.partitions, 'partition')} in their groups"),
        (f"{totals.rebalances:,}", "rebalances", f"{totals.rebalances_failed:,} failed"),
        (duration(totals.unowned_s), "without an owner", f"{totals.unowned_s:,.0f} partition-seconds"),
        (f"{ready.ready:,} of {classic:,}", "ready to move", "classic groups, to the consumer protocol"),
    ]
    if totals.lag is not None:
        shown.append((f"{totals.lag:,}", "records of lag", "where end offsets are known"))
    return tag(
        "div",
        [tag("div", tag("b", number), tag("span", label), tag("small", rest)) for number, label, rest in shown],
        class_="figures",
    )


def _point(point: Point, named: sections.Names) -> Markup:
    where: list[Content] = [[", " if place else "", named(key)] for place, key in enumerate(point.groups)]
    if point.more_groups:
        anchor = tag("a", f"{point.more_groups:,} more", href=f"#{sections.rule_id(point.rule)}", data_opens=True)
        where.append([" and ", anchor])
    # Where there are several groups the sentence is about the first of them.
    of = [tag("bdi", shown_name(point.groups[0].group)), ": "] if len(where) > 1 else None
    return tag(
        "li",
        tag("h3", sections.badge(point.severity), point.title, tag("small", WORDS[point.severity])),
        tag("p", tag("b", "Where: "), where),
        tag("p", of, tag("bdi", point.sentence, dir="ltr")),
        tag("p", tag("b", "To do: "), point.advice, class_="advice") if point.advice else None,
        class_=point.severity,
    )


def _about(report: FleetReport) -> Markup:
    read, limits = report.read, report.limits
    kinds = [[visible(kind), f"{count:,}"] for kind, count in read.kinds]
    notes = [
        f"{counted(read.records, 'record')} were read, {read.tombstones:,} of them tombstones.",
        "A group is seen by what its coordinator wrote down. The log has no heartbeat and no call of poll: when a "
        "member died is known from when it was missed, and what it cost is reckoned from one assignment to the next.",
        f"This page lists at most {limits.groups:,} groups, {limits.findings_of_a_rule} findings of a rule, "
        f"{limits.heat_groups} groups in the heat map and {limits.timelines} timelines; what is left out is counted "
        "where it is left out, and everything is in the tables.",
    ]
    if read.hours_outside:
        notes.append(
            f"{counted(read.hours_outside, 'hour')} of groups lie outside of the time of this page, by clocks that "
            "were wrong or because they are older than its longest time; they are in no figure here."
        )
    if read.quarantined:
        bad = "; ".join(f"{count:,} × {visible(reason)[:200]}" for reason, count in read.quarantined)
        notes.append(
            f"Put aside because they could not be read, each with its place in the table of quarantine: {bad}."
        )
    shown = plots.table(("record type", "records"), kinds, frozenset({1})) if kinds else None
    return sections.section("about", "About", tag("ul", [tag("li", note) for note in notes]), shown)
