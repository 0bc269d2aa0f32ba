"""The screens by keys: the way from the list of groups to the command that avoids what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.unit.console.looks import listed, look, member
from tests.unit.console.top.test_group_lines import HOSTILE, stood_still
from textual.widgets import Input

from kohort.client import Consumer
from kohort.client.settings import ClientConfig
from kohort.console.cluster_poller import ClusterPoller
from kohort.console.command_runs import command_line
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.top.top_app import Lines, Text, TopApp

SMALL = (80, 24)


def played(
    watched: WatchedCluster, play: Callable[[TopApp, Any], Awaitable[None]], size: tuple[int, int] = SMALL
) -> None:
    """Open the screens over what is known of a cluster, and press keys."""

    async def run() -> None:
        poller = ClusterPoller(
            ClientConfig(bootstrap_servers="h:9092").cluster(), watched, Consumer, lambda: 20_000, str
        )
        app = TopApp(
            poller, "h:9092", lambda: 20_000, lambda words: command_line(words, ("--bootstrap-server", "h:9092"))
        )
        async with app.run_test(size=size) as pilot:
            await play(app, pilot)

    asyncio.run(run())


def shown(app: TopApp) -> str:
    """Return what is on the screen, its words separated by single blanks."""
    app.draw()
    widgets = app.screen.query("Lines, Text")
    return " ".join(" ".join(each.render().plain for each in widgets if isinstance(each, Lines | Text)).split())


def under_cursor(app: TopApp) -> str:
    body = app.screen.body
    return body._line_of(body._rows[body.cursor]).text


def test_by_keys_from_the_groups_to_the_command_that_avoids_a_standstill() -> None:
    watched = stood_still()
    watched.fold_listing([listed("billing"), listed("calm")])
    copied = []

    async def play(app: TopApp, pilot: Any) -> None:
        assert under_cursor(app).startswith("billing "), "the most unwell one comes first"
        assert "range. 1 Jan 1970 00:00:14: b is gone: it left or was evicted (inferred from two looks)" in shown(app)
        await pilot.press("j", "k", "enter", "tab", "tab", "j")
        assert "OWNERSHIP, last 15 min" in shown(app)
        assert "b is gone: it left or was evicted" in under_cursor(app)
        await pilot.press("enter")
        assert "cost: 4 of 4 partitions unowned for 4.0 s" in shown(app)
        app.copy_to_clipboard = copied.append
        await pilot.press("tab", "tab", "j", "c")
        assert copied == ["kohort migrate plan billing --to consumer --bootstrap-server h:9092"]
        await pilot.press("escape", "minus")
        assert "OWNERSHIP, last 5 min" in shown(app)
        await pilot.press("escape", "question_mark", "G")
        assert "partitions had no owner in the last hour" in shown(app)
        await pilot.press("escape", "tab", "enter")
        assert "cost: 4 of 4 partitions" in shown(app), "by the feed"
        await pilot.press("q")
        assert app.return_code == 0

    played(watched, play)


def test_search_order_and_filter_select_groups_and_the_cursor_stays_at_its_group() -> None:
    watched = stood_still()
    watched.fold_listing([listed("billing"), *(listed(f"team-{number:02}", "Empty") for number in range(60))])

    async def play(app: TopApp, pilot: Any) -> None:
        await pilot.press("G")
        assert under_cursor(app).startswith("team-59")
        await pilot.press("f6", "j", "enter")
        assert ", by name" in shown(app)
        assert under_cursor(app).startswith("team-59")
        await pilot.press("slash")
        app.screen.query_one(Input).value = "team-1"
        await pilot.press("enter")
        assert len(app.screen.body._rows) == 10
        await pilot.press("g")
        assert under_cursor(app).startswith("team-10")
        await pilot.press("slash", *"q", "enter")
        assert "No group is selected" in shown(app)
        await pilot.press("escape", "f", "down", "down", "enter")
        assert "only: unowned partitions" in shown(app)
        assert len(app.screen.body._rows) == 1
        await pilot.press("escape", "ctrl+c")
        assert app.return_code == 0

    played(watched, play)


def test_a_cluster_that_is_gone_is_a_sentence_above_what_was_known() -> None:
    watched = stood_still()
    watched.fail(15_000, "no broker answers at h:9092")

    async def play(app: TopApp, pilot: Any) -> None:
        assert "no broker answers at h:9092 (since 00:00:15; shown is what was before)" in shown(app)
        assert "billing" in shown(app)
        await pilot.press("enter")
        watched.fold_listing([])
        watched.fold_description(16_000, "billing", None)
        watched.succeed([])
        assert "This group does not exist any more" in shown(app)
        await pilot.press("escape")
        assert "There are no groups yet" in shown(app)

    played(watched, play)


def test_the_clock_does_not_draw_a_screen_whose_parts_are_taken_away_at_the_end() -> None:
    async def play(app: TopApp, _: Any) -> None:
        await app.screen.query("*").remove()
        app._running = False  # what textual does before it takes the screens away
        app.draw()
        app._running = True

    played(WatchedCluster(), play)


def test_hostile_names_are_only_names_on_every_screen_of_any_size() -> None:
    watched = WatchedCluster()
    names = HOSTILE[:2]
    for name in names:
        watched.groups |= stood_still(name).groups
        watched.feed.extend(stood_still(name).feed)

    async def play(app: TopApp, pilot: Any) -> None:
        for _ in names:
            await pilot.press("enter")
            assert shown(app).isprintable()
            await pilot.press("escape", "j")
        await pilot.resize_terminal(5, 2)
        await pilot.press("tab", "enter")
        assert shown(app).isprintable()

    played(watched, play, (33, 8))


def test_a_rebalance_that_runs_is_seen_in_the_list_while_it_runs() -> None:
    watched = stood_still()

    async def play(app: TopApp, pilot: Any) -> None:
        watched.fold_description(18_000, "billing", look("PreparingRebalance", member("a-1")))
        await pilot.pause()
        assert "1 rebalancing" in shown(app)
        assert "rebalancing for 2.0 s" in shown(app)

    played(watched, play)
