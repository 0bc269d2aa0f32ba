"""The screens of `kohort top`, by Textual: all groups, a group, a rebalance. Their lines are those of `group_lines`.

A screen is drawn anew each second from what the console's poller knows, and at once after a key. Colours are those of
the terminal's own theme; without them bold and reversed characters show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from kohort.console.cluster_poller import ClusterPoller
from kohort.console.history.watched_cluster import FILTERS, ORDERS, GroupQuery
from kohort.console.top.group_lines import (
    ALARM,
    BOLD,
    DIM,
    TopLine,
    detail_text,
    feed_lines,
    group_columns,
    group_lines,
    heading,
    parsed_key,
    rebalance_lines,
    row_line,
    wrapped,
)
from kohort.drawing.display_text import clock, counted, display_name, display_sentence, fitted
from kohort.model.extras import install_command

try:
    from textual.app import App
    from textual.binding import Binding
    from textual.content import Content
    from textual.message import Message
    from textual.screen import Screen
    from textual.widget import Widget
    from textual.widgets import Input
except ImportError as cause:
    raise ImportError(
        f"the screen of kohort top needs Textual, the extra kohort[top]: {install_command('top')}; "
        "kohort top --once prints a table without it"
    ) from cause

DRAWN_S = 1.0
"""Between two drawings of a screen."""

MINUTES = (5, 15, 60, 360, 1440)
"""How much of the past the strip may show."""

STYLES = {ALARM: "bold ansi_red", BOLD: "bold", DIM: "dim"}
CURSOR = "reverse"

HELP = """\
kohort top shows the groups of a cluster as they move, and why they did.

Keys, everywhere
  j k, arrows, page keys, g G     move
  Enter                           open what is under the cursor
  Esc                             back; in the list of groups: drop the search
  Tab                             the other list, or the next part of a screen
  ?                               this page
  q, F10, Ctrl-C                  quit

The list of groups
  /                               search: words in the name, the state or the last cause
  s, F6                           order
  f, F4                           only some groups

A group
  + -                             more or less of the past
A rebalance
  c                               copy the command under the cursor

Columns
  LAG        records that are not committed; ≥ and ?: of some or all partitions that is unknown
  OLDEST     for how long the oldest of them has been there
  UNOWNED    seconds that partitions had no owner in the last hour, of all partitions together
  COMMITS/S  offsets committed a second
"""


def styled(line: TopLine, is_under_cursor: bool, width: int) -> Content:
    """Return a line as Textual shows it: a character that means something to Textual is only a character."""
    content = Content.assemble(*((text, STYLES.get(style, "")) for text, style in line.pieces))
    if is_under_cursor:
        content = content.pad_right(max(0, width - content.cell_length)).stylize(CURSOR)
    return content


class Lines(Widget):  # type: ignore[misc]  # Textual's types are not read
    """A list of rows with a cursor, which stays at its row while rows come and go. Only what is seen is drawn."""

    can_focus = True
    BINDINGS = [  # noqa: RUF012  # Textual's own way
        ("up,k", "move(-1)"),
        ("down,j", "move(1)"),
        ("pageup,ctrl+b", "page(-1)"),
        ("pagedown,ctrl+f,space", "page(1)"),
        ("home,g", "move(-1000000000)"),
        ("end,G", "move(1000000000)"),
        ("enter", "open"),
    ]

    class Opened(Message):  # type: ignore[misc]
        """Enter was pressed on a row with a key; `is_feed`: in the feed, where keys are those of rebalances."""

        def __init__(self, key: str, is_feed: bool) -> None:
            super().__init__()
            self.key = key
            self.is_feed = is_feed

    class Moved(Message):  # type: ignore[misc]
        """The cursor is on another row."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._rows: Sequence[Any] = ()
        self._head: TopLine | None = None
        self.cursor = self._first = 0

    def show(
        self,
        rows: Sequence[Any],
        key_of: Callable[[Any], str] = lambda row: row.key,
        line_of: Callable[[Any], TopLine] = lambda row: row,
        head: TopLine | None = None,
    ) -> None:
        """Show rows; `line_of` is called for those that are seen."""
        key = self.key if self._rows else ""
        self._rows, self._key_of, self._line_of, self._head = rows, key_of, line_of, head
        if key and key != self.key:
            self.cursor = next((place for place, row in enumerate(rows) if key_of(row) == key), self.cursor)
        self._keep_in_sight()

    @property
    def key(self) -> str:
        """The key of the row under the cursor, empty where it has none."""
        return self._key_of(self._rows[self.cursor]) if self.cursor < len(self._rows) else ""

    @property
    def seen(self) -> Sequence[Any]:
        """The rows that are seen."""
        return self._rows[self._first : self._first + self._room]

    @property
    def _room(self) -> int:
        return max(1, int(self.size.height) - (self._head is not None))

    def render(self) -> Content:
        """Return what is seen."""
        self._keep_in_sight()
        width = int(self.size.width)
        lines = [] if self._head is None else [styled(self._head, False, width)]
        lines += [
            styled(self._line_of(row), self.has_focus and place == self.cursor, width)
            for place, row in enumerate(self.seen, self._first)
        ]
        return Content("\n").join(lines)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor += by
        self._keep_in_sight()
        self.post_message(self.Moved())

    def action_page(self, by: int) -> None:
        """Move the cursor by what is seen."""
        self.action_move(by * max(1, self._room - 1))

    def action_open(self) -> None:
        """Open what the row under the cursor names."""
        if self.key:
            self.post_message(self.Opened(self.key, is_feed=self.id == "feed"))

    def next_heading(self) -> None:
        """Move the cursor to the next line that is a heading, from the last one to the first."""
        headings = [place for place, row in enumerate(self._rows) if row.is_heading]
        if headings:
            self.cursor = next((place for place in headings if place > self.cursor), headings[0])
            self._first = self.cursor
            self._keep_in_sight()

    def _keep_in_sight(self) -> None:
        self.cursor = max(0, min(self.cursor, len(self._rows) - 1))
        last = max(0, len(self._rows) - self._room)
        self._first = min(max(self._first, self.cursor - self._room + 1), self.cursor, last)
        self.refresh()


class Text(Widget):  # type: ignore[misc]
    """Lines without a cursor."""

    lines: Sequence[TopLine] = ()

    def show(self, lines: Sequence[TopLine]) -> None:
        """Show lines."""
        self.lines = lines
        self.refresh()

    def render(self) -> Content:
        """Return them."""
        return Content("\n").join([styled(each, False, 0) for each in self.lines])


class TopScreen(Screen[Any]):  # type: ignore[misc]
    """A screen: what is seen of the cluster, a list, and its keys below it. The first list has the focus."""

    BINDINGS = [("escape,backspace", "back"), ("tab", "next")]  # noqa: RUF012
    AUTO_FOCUS = "#body"
    KEYS = "Esc back  Tab next part  ? help  q quit"
    """Shown in the last line."""

    def compose(self) -> Any:
        """Yield the parts, from above to below."""
        yield Text(id="head")
        yield Lines(id="body")
        yield from self.more()
        yield Text(id="keys")

    def more(self) -> Any:
        """Yield what is between the list and the keys."""
        return ()

    @property
    def body(self) -> Lines:
        """The list."""
        found: Lines = self.query_one("#body", Lines)
        return found

    @property
    def width(self) -> int:
        """Columns of the screen."""
        return int(self.size.width) or 80

    def on_mount(self) -> None:
        """Draw it; also in a new size, and when another screen was before it."""
        self.draw()

    on_resize = on_screen_resume = on_mount

    def draw(self) -> None:
        """Draw all parts as they are now."""
        app = self.app
        watched, now_ms = app.watched, app.now_ms()
        begin, end = f"kohort top  {display_name(app.bootstrap)}  {self.title_text(now_ms)}", clock(now_ms)
        head = [TopLine(((fitted(begin, max(1, self.width - len(end) - 1)) + " ", BOLD), (end, DIM)))]
        if watched.problem is not None:
            since = f" (since {clock(watched.problem.since_ms)}; shown is what was before)" if watched.is_seen else ""
            head += wrapped(display_sentence(watched.problem.sentence) + since, self.width, ALARM)
        for remark in watched.remarks[:2]:
            head += wrapped(display_sentence(remark), self.width, DIM)
        self.query_one("#head", Text).show(head)
        self.query_one("#head").styles.height = len(head)
        self.query_one("#keys", Text).show([TopLine(((fitted(self.KEYS, self.width), ""),))])
        self.draw_body(now_ms)

    def title_text(self, now_ms: int) -> str:
        """Return what the first line shows beside the cluster."""
        raise NotImplementedError

    def draw_body(self, now_ms: int) -> None:
        """Give the list its rows."""
        raise NotImplementedError

    def action_back(self) -> None:
        """Return to the screen before."""
        self.app.pop_screen()

    def action_next(self) -> None:
        """Move to the next part of the screen."""
        self.body.next_heading()


class GroupsScreen(TopScreen):
    """All groups, and the last rebalances of all of them."""

    BINDINGS = [  # noqa: RUF012
        ("slash", "search"),
        ("s,f6", "choose('order')"),
        ("f,f4", "choose('state')"),
    ]
    KEYS = "Enter open  / search  s order  f only  Tab feed  ? help  q quit"

    def __init__(self) -> None:
        super().__init__()
        self.query_of = GroupQuery()

    def more(self) -> Any:
        """Yield what is known of the row under the cursor, the feed, and the search."""
        yield Text(id="detail")
        yield Lines(id="feed")
        yield Input(id="search", placeholder="words in the name, the state or the last cause", max_length=200)

    def title_text(self, now_ms: int) -> str:
        """Return the figures of all groups, and what is selected of them."""
        groups, running, members, *_ = self.app.watched.figures(now_ms)
        query = self.query_of
        only = "" if not query.state else f", only: {FILTERS[query.state][0]}"
        order = "" if query.order == "unwell" else f", {ORDERS[query.order][0]}"
        figures = "" if only or order else f", {counted(members, 'member')}, {running} rebalancing"
        return f"{counted(groups, 'group')}{only}{order}{figures}"

    def draw_body(self, now_ms: int) -> None:
        """Show the groups, what is known of one of them, and the feed."""
        watched = self.app.watched
        rows = watched.selected(self.query_of, now_ms)
        columns = group_columns(rows, self.width)
        if rows:
            self.body.show(rows, lambda row: f"={row.group_id}", lambda row: row_line(columns, row), heading(columns))
        elif not watched.is_seen:
            self.body.show([] if watched.problem else [TopLine((("Reading the cluster…", DIM),))])
        else:
            none = "There are no groups yet: a group begins when its first member joins."
            self.body.show(wrapped("No group is selected: Esc shows all." if watched.groups else none, self.width))
        feed = self.query_one("#feed", Lines)
        feed.show(feed_lines(watched), head=TopLine(((fitted("LAST REBALANCES OF ALL GROUPS", self.width), BOLD),)))
        feed.styles.height = min(7, max(0, int(self.size.height) - 14))
        self.show_detail()
        self.app.look_at([row.group_id for row in self.body.seen] if rows else [])

    def show_detail(self) -> None:
        """Show what the row under the cursor has no room for."""
        group = self.app.watched.groups.get(self.body.key[1:]) if self.body.key else None
        text = "" if group is None else detail_text(group.summary(self.app.now_ms()))
        self.query_one("#detail", Text).show(wrapped(text, self.width)[:2])

    def on_lines_moved(self) -> None:
        """The cursor is on another group."""
        self.show_detail()

    def on_lines_opened(self, event: Lines.Opened) -> None:
        """Open a group, or a rebalance of the feed."""
        if event.is_feed:
            self.app.push_screen(RebalanceScreen(*parsed_key(event.key)))
        else:
            self.app.push_screen(GroupScreen(event.key[1:]))

    def action_next(self) -> None:
        """Go to the other list."""
        feed = self.query_one("#feed", Lines)
        (self.body if feed.has_focus else feed).focus()

    def action_back(self) -> None:
        """Show all groups again."""
        self.query_of = GroupQuery(order=self.query_of.order)
        search = self.query_one("#search", Input)
        search.value = ""
        search.display = False
        self.body.focus()
        self.draw()

    def action_search(self) -> None:
        """Ask for words."""
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what has these words."""
        self.query_of = self.query_of._replace(words=event.value)
        self.draw()

    def on_input_submitted(self) -> None:
        """Go back to the list; the words stay in force, and in sight."""
        self.query_one("#search").display = bool(self.query_of.words)
        self.body.focus()

    def action_choose(self, what: str) -> None:
        """Ask for the order, or for which groups."""
        choices = ORDERS if what == "order" else FILTERS

        def chosen(name: str | None) -> None:
            if name is not None:
                query = self.query_of
                self.query_of = query._replace(order=name) if what == "order" else query._replace(state=name)
                self.draw()

        lines = [TopLine(((text, ""),), f"={name}") for name, (text, _) in choices.items()]
        self.app.push_screen(ListScreen("order" if what == "order" else "only", lines), chosen)


class ListScreen(TopScreen):
    """A list of choices, or of lines to read; closes with the key of the chosen one, or None."""

    KEYS = "Enter choose  Esc back"

    def __init__(self, title: str, lines: list[TopLine]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def title_text(self, now_ms: int) -> str:  # noqa: ARG002
        """Return what is chosen."""
        return self._title

    def draw_body(self, now_ms: int) -> None:  # noqa: ARG002
        """Show the lines."""
        self.body.show(self._lines)

    def on_lines_opened(self, event: Lines.Opened) -> None:
        """Close with the choice."""
        self.dismiss(event.key[1:])

    def action_back(self) -> None:
        """Close without one."""
        self.dismiss(None)


class GroupScreen(TopScreen):
    """One group."""

    BINDINGS = [("plus,equals_sign", "span(1)"), ("minus", "span(-1)")]  # noqa: RUF012
    KEYS = "Enter open rebalance  Tab next part  + - time  Esc back  ? help  q quit"

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self._group_id = group_id
        self._span = 1

    def title_text(self, now_ms: int) -> str:  # noqa: ARG002
        """Return the name of the group, and its state."""
        group = self.app.watched.groups.get(self._group_id)
        return f"{'gone' if group is None else display_name(group.listed.state or '?')}  {display_name(self._group_id)}"

    def draw_body(self, now_ms: int) -> None:
        """Show all of it."""
        self.app.look_at([self._group_id])
        group = self.app.watched.groups.get(self._group_id)
        gone = wrapped("This group does not exist any more, or is not listed yet.", self.width)
        self.body.show(
            gone if group is None else group_lines(self.app.watched, group, MINUTES[self._span], now_ms, self.width)
        )

    def action_span(self, by: int) -> None:
        """Show more of the past, or less."""
        self._span = max(0, min(self._span + by, len(MINUTES) - 1))
        self.draw()

    def on_lines_opened(self, event: Lines.Opened) -> None:
        """Open a rebalance."""
        self.app.push_screen(RebalanceScreen(*parsed_key(event.key)))


class RebalanceScreen(TopScreen):
    """One rebalance of a group."""

    BINDINGS = [("c", "copy")]  # noqa: RUF012
    KEYS = "c copy command  Tab next part  Esc back  ? help  q quit"

    def __init__(self, group_id: str, number: int) -> None:
        super().__init__()
        self._group_id, self._number = group_id, number

    def title_text(self, now_ms: int) -> str:  # noqa: ARG002
        """Return of which group it is."""
        return f"{display_name(self._group_id)}  rebalance {self._number}"

    def draw_body(self, now_ms: int) -> None:
        """Show all of it."""
        self.app.look_at([self._group_id])
        group = self.app.watched.groups.get(self._group_id)
        self.body.show(
            wrapped("The group of this rebalance does not exist any more.", self.width)
            if group is None
            else rebalance_lines(group, self._number, self.app.command, now_ms, self.width)
        )

    def action_copy(self) -> None:
        """Copy the command under the cursor, by the terminal's own clipboard: over ssh too."""
        if self.body.key:
            self.app.copy_to_clipboard(self.body.key)
            self.query_one("#keys", Text).show([TopLine((("copied, if this terminal allows it (OSC 52)", BOLD),))])

    on_lines_opened = action_copy


class TopApp(App[None]):  # type: ignore[misc]
    """The screens over what a poller knows; `command` returns the whole line of a command's words."""

    CSS = """
    Screen, #head, #keys, #detail, #body, #feed { background: ansi_default; color: ansi_default; text-wrap: nowrap;
        text-overflow: ellipsis; }
    #head, #keys, #detail { height: 1; }
    #detail { height: 2; }
    #body { height: 1fr; }
    Input { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; display: none; }
    Input:focus { border: none; }
    Input > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    Input > .input--placeholder { color: ansi_default; text-style: dim; }
    """
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+c,f10", "quit", show=False, priority=True),
        Binding("q", "quit", show=False),
        Binding("question_mark,f1,h", "help", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False

    def __init__(
        self, poller: ClusterPoller, bootstrap: str, now_ms: Callable[[], int], command: Callable[[Sequence[str]], str]
    ) -> None:
        super().__init__(ansi_color=True)
        self.watched, self.bootstrap, self.now_ms, self.command = poller.watched, bootstrap, now_ms, command
        self._open = ExitStack()
        self.look_at = self._open.enter_context(poller.page_open())

    def on_mount(self) -> None:
        """Show all groups, and draw what is shown each second."""
        self.push_screen(GroupsScreen())
        self.set_interval(DRAWN_S, self.draw)

    def on_unmount(self) -> None:
        """Nothing is shown any more."""
        self._open.close()

    def draw(self) -> None:
        """Draw what is shown; not while the program ends, which takes the parts of a screen away before the screen."""
        if self.is_running and isinstance(self.screen, TopScreen) and self.screen.is_mounted:
            self.screen.draw()

    def action_help(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, ListScreen):
            self.push_screen(ListScreen("help", [TopLine(((each, ""),)) for each in HELP.splitlines()]))
