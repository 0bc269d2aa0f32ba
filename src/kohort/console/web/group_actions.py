"""Actions that change a group: each is a command of kohort, is shown as that, and is asked for before it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.console.command_runs import CommandRuns, command_words
from kohort.console.web.site import Shown, Site

log = logging.getLogger(__name__)

AIMS = (
    ("to-earliest", "to the first record", False),
    ("to-latest", "to the end", False),
    ("to-offset", "to an offset", True),
    ("to-datetime", "to a time (ISO 8601, UTC)", True),
    ("shift-by", "by a number of records", True),
)

Values = Mapping[str, str]


class Field(NamedTuple):
    """A field of an action's form."""

    name: str
    label: str
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """An action. `words` returns its command, None where the form lacks something; `preview` adds no change."""

    title: str
    warning: str
    fields: tuple[Field, ...]
    words: Callable[[str, Values], list[str] | None]
    preview: tuple[str, ...] = ()


def _reset(group_id: str, values: Values) -> list[str] | None:
    aims = {name: needs for name, _, needs in AIMS}
    aim, value, topic = values.get("aim", ""), values.get("value", "").strip(), values.get("topic", "").strip()
    if aim not in aims or (aims[aim] and not value):
        return None
    which = f"--topic={topic}" if topic else "--all-topics"
    return command_words(
        ["groups", "reset-offsets"], [group_id], [which, f"--{aim}={value}" if aims[aim] else f"--{aim}"]
    )


def _reason(values: Values) -> list[str]:
    return [f"--reason={reason}"] if (reason := values.get("reason", "").strip()) else []


def _of_member(verb: str, *options: str) -> Callable[[str, Values], list[str] | None]:
    def words(group_id: str, values: Values) -> list[str] | None:
        member = values.get("member", "").strip()
        return command_words(["groups", verb], [group_id, member], [*options, *_reason(values)]) if member else None

    return words


_MEMBER = Field("member", "Member id, group.instance.id or host", is_needed=True)
_REASON = Field("reason", "Why (for kohort explain)")

ACTIONS: dict[str, Action] = {
    "reset-offsets": Action(
        "Reset offsets",
        "The group's next members begin at the new offsets: records in between are read again, or never.",
        (Field("topic", "TOPIC or TOPIC:0,1; empty for all topics"),),
        _reset,
        ("--dry-run",),
    ),
    "delete": Action(
        "Delete the group",
        "Its committed offsets are lost: a member that joins later begins where auto.offset.reset says.",
        (),
        lambda group_id, _: command_words(["groups", "delete"], [group_id], ["--yes"]),
    ),
    "drain": Action(
        "Drain a member",
        "It stays in the group and gets no partitions until it is undrained. Needs kohort gateway.",
        (_MEMBER, _REASON),
        _of_member("drain", "--yes"),
    ),
    "undrain": Action(
        "Undrain a member", "It gets partitions again. Needs kohort gateway.", (_MEMBER, _REASON), _of_member("undrain")
    ),
    "rebalance": Action(
        "Rebalance now",
        "All members join again: with an eager assignor no partition has an owner meanwhile. Needs kohort gateway.",
        (_REASON,),
        lambda group_id, values: command_words(["groups", "rebalance"], [group_id], _reason(values)),
    ),
}


async def action_page(site: Site, runs: CommandRuns, name: str, values: Values, form_token: str) -> Shown:
    """Return the page that asks: the command, what it would do, and a button where changes are allowed."""
    action, group_id = ACTIONS[name], values.get("id", "")
    words = action.words(group_id, values)
    plan, failure = None, ""
    if words is not None and action.preview:
        end = words.index("--") if "--" in words else len(words)
        outcome = await runs.run([*words[:end], *action.preview, "--json", *words[end:]])
        plan = outcome.json if outcome.status == 0 else None
        failure = "" if plan is not None else outcome.sentence
    return Shown(
        "action.html",
        {
            "name": name,
            "action": action,
            "group_id": group_id,
            "values": values,
            "aims": AIMS,
            "command_line": "" if words is None else site.command(*_executed(words, action)),
            "plan": plan,
            "failure": failure,
            "form_token": form_token,
            "outcome": None,
        },
    )


async def run_action(site: Site, runs: CommandRuns, name: str, values: Values, user: str) -> Shown:
    """Run an action that was asked for and confirmed; return the page with its outcome."""
    action, group_id = ACTIONS[name], values.get("id", "")
    words = action.words(group_id, values)
    if words is None:
        return Shown("message.html", {"title": action.title, "sentence": "The form lacks a value."}, 400)
    words = _executed(words, action)
    command_line = site.command(*words)
    log.warning("%s runs: %s", user or "the owner of the token", command_line)
    outcome = await runs.run(words)
    log.warning("it ended with status %d", outcome.status)
    shown = {"action": action, "group_id": group_id, "command_line": command_line, "outcome": outcome}
    return Shown("action_done.html", shown, 200 if outcome.status == 0 else 409)


def _executed(words: list[str], action: Action) -> list[str]:
    """Return a command with what makes it change something."""
    if not action.preview:
        return words
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], "--execute", *words[end:]]
