"""The pages of all groups and of one group, in parts: an open page gets those that have changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from kohort.console.command_runs import command_words
from kohort.console.history.inferred_history import unowned_since
from kohort.console.history.lag_samples import LagSample
from kohort.console.history.ownership_strip import ownership_drawing
from kohort.console.history.rebalance_markup import rebalance_details, rebalances_markup
from kohort.console.history.rebalance_view import latest, rebalance_view
from kohort.console.history.watched_cluster import FILTERS, ORDERS, ROWS, GroupQuery
from kohort.console.history.watched_group import task_words
from kohort.console.web.site import OpenPage, Site
from kohort.drawing.display_text import display_name, moment
from kohort.drawing.markup import Markup, tag
from kohort.drawing.ownership_drawing import inline_svg
from kohort.group.explain.explain_text import Names, refusal
from kohort.group.explain.rebalance_report import GroupReport
from kohort.group.explain.remedy import Remedy
from kohort.model.setting import HOUR_MS

MINUTES = (5, 15, 60, 360, 1440)
"""How much of the past the strip may show."""

MEMBERS = 200
PARTITIONS = 500
"""Rows of a table; what is left out is counted."""


def groups_page(site: Site, values: Mapping[str, str]) -> OpenPage:
    """Return the page of all groups."""
    asked = values.get("page", "")
    wanted = GroupQuery(
        values.get("q", "")[:200],
        values.get("state", ""),
        values.get("order", "unwell"),
        int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 0,
    )
    now_ms = site.now_ms()
    page = site.watched.page(wanted, now_ms)
    shown = [(row, sparkline(site.watched.groups[row.group_id].samples)) for row in page.rows]
    query = {"q": wanted.words, "state": wanted.state, "order": wanted.order}
    parts = {
        "summary": site.render("groups_summary.html", figures=site.watched.figures(now_ms)),
        "list": site.render("groups_list.html", page=page, shown=shown, query=query, wanted=wanted, per_page=ROWS),
        "feed": site.render("groups_feed.html", feed=list(site.watched.feed)[-1:-9:-1]),
    }
    live = site.address("/live/groups", **query, page=wanted.page)
    return OpenPage("groups.html", "Groups", parts, tuple(row.group_id for row in page.rows), live)


def groups_form(values: Mapping[str, str]) -> dict[str, object]:
    """Return what the form above the list shows."""
    return {
        "words": values.get("q", "")[:200],
        "state": values.get("state", ""),
        "order": values.get("order", "unwell"),
        "states": [(name, text) for name, (text, _) in FILTERS.items()],
        "orders": [(name, text) for name, (text, _) in ORDERS.items()],
    }


def group_page(site: Site, values: Mapping[str, str]) -> OpenPage | None:
    """Return the page of one group, None where there is none."""
    group_id = values.get("id", "")
    group = site.watched.groups.get(group_id)
    if group is None:
        return None
    asked = values.get("minutes", "")
    minutes = int(asked) if asked in map(str, MINUTES) else MINUTES[1]
    now_ms = site.now_ms()
    report, names = group.known(now_ms)
    row = group.summary(now_ms)
    views = [rebalance_view(each, names, now_ms, is_inferred=group.is_inferred) for each in latest(report)]
    details = [rebalance_details(view, partial(_remedy_command, site, group_id)) for view in views]
    drawing = ownership_drawing(report, names, now_ms - minutes * 60_000, now_ms)
    drawn = sum(len(each.lanes) for each in drawing.groups)
    lines = group.partitions(now_ms)
    members = () if group.described is None else group.described.members
    recent = [gap for each in latest(report) for gap in each.gaps]
    figures = {
        "partitions": len(lines),
        "rate": group.samples.commit_rate(),
        "unowned_s": unowned_since(recent, now_ms - HOUR_MS, now_ms),
    }
    parts = {
        "head": site.render("group_head.html", row=row, report=report, figures=figures, group=group),
        "strip": inline_svg(drawing) if drawn else site.render("group_no_strip.html", group=group),
        "rebalances": rebalances_markup(details, report.total),
        "members": site.render(
            "group_members.html",
            group=group,
            refusals=[each for each in site.watched.remarks if repr(group_id) in each],
            members=members[:MEMBERS],
            names=names,
            task_words=task_words,
            left=max(0, len(members) - MEMBERS),
            drained=site.watched.drained(group_id),
        ),
        "partitions": site.render(
            "group_partitions.html",
            group=group,
            lines=lines[:PARTITIONS],
            names=names,
            left=max(0, len(lines) - PARTITIONS),
        ),
        "refused": site.render("group_refused.html", lines=_refusals(report, names)),
    }
    live = site.address("/live/group", id=group_id, minutes=minutes)
    return OpenPage("group.html", display_name(group_id), parts, (group_id,), live)


def _remedy_command(site: Site, group_id: str, remedy: Remedy) -> Markup:
    words = site.command(*command_words(remedy.verb, [group_id], remedy.options))
    button = tag("button", "Copy", type="button", class_="copy", data_copy=words)
    return tag("span", tag("code", words), button, class_="command")


def _refusals(report: GroupReport, names: Names) -> list[str]:
    return [f"{moment(each.first_ms)}: {refusal(each, names, moment)}" for each in reversed(report.refused)]


def sparkline(samples: Iterable[LagSample]) -> Markup | None:
    """Return the course of a group's lag as a small picture, None where it is the same all the time."""
    points = list(samples)
    highest, lowest = (found((point.lag for point in points), default=0) for found in (max, min))
    if highest == lowest or points[-1].at_ms <= points[0].at_ms:
        return None
    width_ms = points[-1].at_ms - points[0].at_ms
    places = [
        f"{100 * (point.at_ms - points[0].at_ms) / width_ms:.1f} {19 - 18 * point.lag / highest:.1f}"
        for point in points
    ]
    text = f"lag from {points[0].lag:,} to {points[-1].lag:,} records, at most {highest:,}"
    return tag(
        "svg",
        tag("title", text),
        tag("path", d=f"M{' L'.join(places)}", vector_effect="non-scaling-stroke"),
        class_="spark",
        viewBox="0 0 100 20",
        preserveAspectRatio="none",
        role="img",
    )
