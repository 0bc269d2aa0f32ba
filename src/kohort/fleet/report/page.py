"""The report as one self-contained HTML file: no font, script, image or style is fetched.

Its Content-Security-Policy forbids fetching and all scripts except the one in it, identified by its hash: a group whose
name is a script remains a name. Each section has a heading, a plot or list, and the same figures as a table.
"""

from __future__ import annotations

from importlib.resources import files
from itertools import chain
from typing import Any

from kohort.drawing.display_text import (
    counted,
    display_name,
    display_sentence,
    duration,
    hour,
    listed,
    moment,
    rule_title,
    visible,
)
from kohort.drawing.html_page import document, navigation, note, section, table
from kohort.drawing.markup import Content, Markup, script_json, tag
from kohort.fleet.report import plots
from kohort.fleet.report.fleet_report import (
    WORDS,
    FindingLine,
    FleetReport,
    GroupKey,
    GroupLine,
    Point,
    RuleFindings,
    headline,
    lead,
    points,
)

TITLE = "What your fleet does"

_SECTIONS = (
    ("summary", "Summary"),
    ("findings", "Findings"),
    ("rebalances", "Rebalances"),
    ("unowned", "Without an owner"),
    ("ownership", "Ownership"),
    ("migration", "New protocol"),
    ("groups", "Groups"),
    ("about", "About"),
)


def page(report: FleetReport) -> str:
    """Return the report as HTML."""
    named = PageNames(report)
    values = script_json({**plots.plotted(report), **listed_groups(report)})
    body: list[Content] = [
        tag("a", "To the summary", href="#summary", class_="skip"),
        _head_of_page(report),
        navigation(_SECTIONS, "Parts of the report"),
        tag(
            "main",
            _summary(report, named),
            findings(report, named),
            rebalances(report, named),
            unowned(report, named),
            ownership(report, named),
            migration(report, named),
            groups(report),
            _about(report),
        ),
        tag("footer", f"Written by kohort fleet report, {moment(report.made_at_ms)} UTC."),
        tag("script", values, type="application/json", id="figures"),
    ]
    title = f"{TITLE}: {headline(report)}"
    return document(title, body, style=_resource("page.css"), script=Markup(_resource("page.js")))


def _resource(name: str) -> str:
    return files("kohort.fleet.report").joinpath(name).read_text(encoding="utf-8")


def _head_of_page(report: FleetReport) -> Markup:
    sources = listed([display_name(each) for each in report.read.sources]) or "nothing"
    columns = report.columns
    return tag(
        "header",
        tag("h1", TITLE),
        tag("p", tag("bdi", sources), f", {hour(columns.from_ms)} to {hour(columns.until_ms)} UTC", class_="when"),
    )


def _summary(report: FleetReport, named: PageNames) -> Markup:
    todo, more = points(report)
    rest = f"{counted(more, 'more rule')} found something: see the findings below." if more else None
    return tag(
        "section",
        tag("h2", headline(report), id="summary-heading"),
        tag("p", lead(report), class_="lead"),
        _figures(report),
        tag("ol", [_point(each, named) for each in todo], class_="todo") if todo else None,
        note(rest),
        id="summary",
        aria_labelledby="summary-heading",
    )


def _figures(report: FleetReport) -> Markup:
    totals, ready = report.totals, report.readiness
    kinds = ", ".join(f"{count:,} {visible(kind)}" for kind, count in totals.kinds)
    shown = [
        (f"{totals.groups:,}", "groups", kinds),
        (f"{totals.members:,}", "members", f"of {counted(totals.partitions, 'partition')} in their groups"),
        (f"{totals.rebalances:,}", "rebalances", f"{totals.rebalances_failed:,} failed"),
        (duration(totals.unowned_s), "without an owner", f"{totals.unowned_s:,.0f} partition-seconds"),
        (f"{ready.ready:,} of {ready.classic:,}", "ready to move", "classic groups, to the consumer protocol"),
    ]
    if totals.lag is not None:
        shown.append((f"{totals.lag:,}", "records of lag", "where end offsets are known"))
    return tag(
        "div",
        [tag("div", tag("b", number), tag("span", label), tag("small", rest)) for number, label, rest in shown],
        class_="figures",
    )


def _point(point: Point, named: PageNames) -> Markup:
    where: list[Content] = [[", " if place else "", named(key)] for place, key in enumerate(point.groups)]
    if point.more_groups:
        anchor = tag("a", f"{point.more_groups:,} more", href=f"#{rule_id(point.rule)}", data_opens=True)
        where.append([" and ", anchor])
    # With several groups the sentence is about the first one.
    of = [tag("bdi", display_name(point.groups[0].group)), ": "] if len(where) > 1 else None
    return tag(
        "li",
        tag("h3", badge(point.severity), point.title, tag("small", WORDS[point.severity])),
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
        "Groups are known by the records of their coordinators. The log has no heartbeats and no calls of poll: the "
        "death of a member appears when the coordinator evicts it, and costs are computed between assignments.",
        f"This page lists at most {limits.groups:,} groups, {limits.findings_of_a_rule} findings of a rule, "
        f"{limits.heat_groups} groups in the heat map and {limits.timelines} timelines; what is left out is counted "
        "where it is left out, and everything is in the tables.",
    ]
    if read.hours_outside:
        notes.append(
            f"{counted(read.hours_outside, 'hour')} of groups lie outside of the time of this page, because of wrong "
            "clocks or because they are older than its longest time; no figure here includes them."
        )
    if read.quarantined:
        bad = "; ".join(f"{count:,} × {visible(reason)[:200]}" for reason, count in read.quarantined)
        notes.append(f"Records that could not be read, each with its place in the quarantine table: {bad}.")
    shown = table(("record type", "records"), kinds, ("records",)) if kinds else None
    return section("about", "About", tag("ul", [tag("li", each) for each in notes]), shown)


STATIC_GROUPS = 50
"""Groups that the page lists without its script."""

_SEVERITIES = [("", "all"), ("critical", "critical"), ("warning", "warning or worse"), ("any", "any")]
_ORDERS = [
    ("", "worst first"),
    ("name", "name"),
    ("rebalances", "rebalances"),
    ("unowned", "unowned time"),
    ("lag", "lag"),
]


class PageNames:
    """Writes the names of groups: each a link to its line where it has one, with its source where there are several."""

    def __init__(self, report: FleetReport) -> None:
        self.places = {line.key: place for place, line in enumerate(report.groups)}
        self.has_sources = len(report.read.sources) > 1

    def __call__(self, key: GroupKey) -> Markup:
        """Return a group's name as a link."""
        name = tag("bdi", display_name(key.group))
        source = tag("small", tag("bdi", display_name(key.source)), class_="source") if self.has_sources else None
        place = self.places.get(key)
        if place is None:
            return tag("span", name, source)
        return tag("a", name, source, href=f"#group-{place}", data_group=place)


def badge(severity: str) -> Markup:
    """Return a severity as a sign and a word, so that it needs no colour."""
    signs = {"critical": "▲", "warning": "◆", "info": "●"}
    known = severity if severity in signs else "info"
    return tag("span", tag("span", signs[known], aria_hidden="true"), f" {known}", class_=f"badge {known}")


# -- findings


def findings(report: FleetReport, named: PageNames) -> Markup:
    """Return the rules with findings, their worst findings, and the records that prove them."""
    if not report.rules:
        return section("findings", "Findings", note("No rule found anything."))
    intro = (
        f"Each rule shows its {report.limits.findings_of_a_rule} worst findings at most, each with the records of "
        "__consumer_offsets that prove it, by partition:offset there and time (UTC). "
        "All of them are in the table of findings, and `kohort fleet findings` prints them."
    )
    rules = [_rule(rule, named) for rule in report.rules]
    return section("findings", "Findings", note(intro), tag("div", rules, class_="rules"))


def _rule(rule: RuleFindings, named: PageNames) -> Markup:
    heading = tag(
        "summary",
        badge(rule.severity),
        tag("b", rule_title(rule.rule)),
        tag("span", f"{counted(rule.groups, 'group')}", class_="count"),
    )
    shown = [_finding(each, named) for each in rule.shown]
    left = f"{rule.left_out:,} more of this rule are in the table of findings." if rule.left_out else None
    return tag("details", heading, shown, note(left), class_="rule", id=rule_id(rule.rule))


def rule_id(rule: str) -> str:
    """Return the anchor of a rule."""
    return "rule-" + "".join(each if each.isascii() and each.isalnum() else "-" for each in rule[:60])


def _finding(finding: FindingLine, named: PageNames) -> Markup:
    advice = (
        tag("p", tag("b", "To do: "), display_sentence(finding.advice), class_="advice") if finding.advice else None
    )
    return tag(
        "article",
        tag("h4", badge(finding.severity), named(finding.key), tag("small", _lasted(finding))),
        tag("p", tag("bdi", display_sentence(finding.sentence), dir="ltr")),
        advice,
        _evidence(finding),
        class_="finding",
    )


def _lasted(finding: FindingLine) -> str:
    if finding.from_ms is None:
        return "" if finding.until_ms is None else f"until {moment(finding.until_ms)}"
    if finding.until_ms is None or finding.until_ms == finding.from_ms:
        return f"since {moment(finding.from_ms)}" if finding.until_ms is None else moment(finding.from_ms)
    return f"{hour(finding.from_ms)} to {hour(finding.until_ms)}"


def _evidence(finding: FindingLine) -> Markup | None:
    if not finding.evidence:
        return None
    rows = [
        [f"{each.partition}:{each.offset}", moment(each.at_ms), tag("bdi", display_sentence(each.what), dir="ltr")]
        for each in finding.evidence
    ]
    shown = table(("place", "time", "event"), rows, ("place",))
    left = f"and {finding.evidence_left_out:,} more" if finding.evidence_left_out else None
    count = len(finding.evidence) + finding.evidence_left_out
    return tag("details", tag("summary", f"Evidence: {counted(count, 'record')}"), shown, note(left))


# -- plots


def rebalances(report: FleetReport, named: PageNames) -> Markup:
    """Return the heat map."""
    if not report.heat:
        return section("rebalances", "Rebalances", note("There was no rebalance."))
    groups, count = report.heat_left_out
    left = f" {counted(groups, 'more group')} had {counted(count, 'rebalance')} together." if groups else ""
    intro = f"The {counted(len(report.heat), 'group')} with most rebalances, over time (UTC).{left}"
    how = "Point at a cell, or go along a line with the arrow keys."
    return section("rebalances", "Rebalances", note(intro, " ", how), plots.heat_map(report, named))


def unowned(report: FleetReport, named: PageNames) -> Markup:
    """Return the ranking by unowned partition-seconds."""
    if not report.ranking:
        return section("unowned", "Without an owner", note("No partition was ever without one."))
    groups, seconds = report.ranking_left_out
    left = f" {counted(groups, 'more group')} add {duration(seconds)}." if groups else ""
    intro = (
        "A partition without an owner is not read while its group has members: ten partitions for six seconds are a "
        f"minute of partition time.{left}"
    )
    return section("unowned", "Without an owner", note(intro), plots.ranking(report, named))


def ownership(report: FleetReport, named: PageNames) -> Markup:
    """Return the timelines."""
    if not report.timelines:
        return section("ownership", "Ownership", note("No partition changed its owner."))
    intro = (
        f"The worst hour of {counted(len(report.timelines), 'group')}: a line for each partition, a colour for each "
        "member, red without an owner; a very short gap is drawn a little longer than it was."
    )
    drawn = [plots.timeline(place, each, named) for place, each in enumerate(report.timelines)]
    return section("ownership", "Ownership", note(intro), tag("div", drawn, class_="timelines"))


def migration(report: FleetReport, named: PageNames) -> Markup:
    """Return how far the fleet is from leaving the classic protocol, and what is in the way."""
    ready = report.readiness
    intro = (
        "Apache Kafka 6.0 drops the classic group protocol. "
        f"{counted(ready.classic, 'group')} still {'uses' if ready.classic == 1 else 'use'} it."
    )
    rows: list[list[Content]] = []
    for reason in ready.reasons:
        more = reason.groups - len(reason.shown)
        names: list[Content] = [[", " if place else "", named(key)] for place, key in enumerate(reason.shown)]
        which: list[Content] = [names, f" and {more:,} more" if more else None]
        rows.append([display_sentence(reason.example), display_sentence(reason.advice), f"{reason.groups:,}", which])
    left = f"{counted(ready.reasons_left_out, 'rarer reason')} left out." if ready.reasons_left_out else None
    headings = ("for example", "what to do", "groups", "which")
    shown = [tag("h3", "What is in the way"), table(headings, rows, ("groups",))] if rows else []
    return section(
        "migration",
        "Ready for the new protocol?",
        note(intro),
        plots.readiness_bar(ready),
        shown,
        note(left),
    )


# -- groups


def groups(report: FleetReport) -> Markup:
    """Return the list of groups with its search; the script replaces the list by one that answers it."""
    left = report.totals.groups - len(report.groups)
    intro = f"{counted(len(report.groups), 'group')}, those with the worst findings first."
    if left:
        intro += f" {counted(left, 'group')} without anything remarkable left out; they are in the tables."
    kinds = sorted({line.kind for line in report.groups})
    form = tag(
        "form",
        tag("label", "Search ", tag("input", type="search", id="group-search", autocomplete="off", spellcheck="false")),
        _choice("group-severity", "Findings", _SEVERITIES),
        _choice("group-kind", "Type", [("", "all"), *((kind, visible(kind)) for kind in kinds)]),
        _choice("group-order", "Order", _ORDERS),
        class_="filters",
        role="search",
        hidden=True,
    )
    listed = [_group(place, line) for place, line in enumerate(report.groups[:STATIC_GROUPS])]
    return section(
        "groups",
        "Groups",
        note(intro),
        form,
        tag("p", id="group-count", class_="note", aria_live="polite"),
        tag("div", listed, id="group-list", class_="groups"),
        tag("button", "Show more", type="button", id="group-more", hidden=True),
    )


def _choice(name: str, label: str, options: list[tuple[str, str]]) -> Markup:
    shown = [tag("option", text, value=value) for value, text in options]
    return tag("label", f"{label} ", tag("select", shown, id=name))


def _group(place: int, line: GroupLine) -> Markup:
    description = (
        f"{line.kind}, {line.state}, {counted(line.members, 'member')}, {counted(line.partitions, 'partition')}"
    )
    figures = f"{counted(line.rebalances, 'rebalance')}, {duration(line.unowned_s)} without an owner"
    name = tag("b", tag("bdi", display_name(line.key.group)))
    return tag(
        "p",
        badge(line.severity) if line.severity else None,
        name,
        f" {visible(description)}; {figures}",
        id=f"group-{place}",
    )


def listed_groups(report: FleetReport) -> dict[str, Any]:
    """Return the groups and what was found of them, for the page's script."""
    by_key: dict[GroupKey, list[list[str]]] = {}
    for finding in chain(*(rule.shown for rule in report.rules), report.further):
        sentence, advice = display_sentence(finding.sentence), display_sentence(finding.advice)
        row = [finding.severity, rule_title(finding.rule), sentence, advice]
        by_key.setdefault(finding.key, []).append(row)
    drawn = {of.key: place for place, of in enumerate(report.timelines)}
    has_sources = len(report.read.sources) > 1
    rows = [_row(line, has_sources, drawn.get(line.key)) for line in report.groups]
    return {
        "fields": list(rows[0]) if rows else [],
        "groups": [list(row.values()) for row in rows],
        "findings": {place: by_key[line.key] for place, line in enumerate(report.groups) if line.key in by_key},
    }


def _row(line: GroupLine, has_sources: bool, timeline: int | None) -> dict[str, Any]:
    topics = [display_name(each) for each in line.topics[:5]]
    if len(line.topics) > 5:
        topics.append(f"and {len(line.topics) - 5:,} more")
    return {
        "name": display_name(line.key.group),
        "source": display_name(line.key.source) if has_sources else "",
        "kind": visible(line.kind),
        "state": visible(line.state),
        "members": line.members,
        "partitions": line.partitions,
        "topics": ", ".join(topics),
        "assignor": display_name(line.assignor) if line.assignor else "",
        "protocols": ", ".join(display_name(each) for each in line.protocols[:5]),
        "rebalances": line.rebalances,
        "failed": line.rebalances_failed,
        "longest": round(line.rebalance_ms_max / 1000, 1),
        "unowned": round(line.unowned_s, 1),
        "moved": line.moved,
        "commits": line.commits,
        "lag": line.lag,
        "static": None if line.static_share is None else round(100 * line.static_share),
        "first": moment(line.first_seen_ms),
        "last": moment(line.last_seen_ms),
        "commit": moment(line.last_commit_ms),
        "severity": line.severity or "",
        "findings": line.findings,
        "activity": [part for cell in line.activity for part in cell],
        "timeline": timeline,
    }
