"""The English text of `explain`: one sentence for a rebalance, one line for each link of its chain.

Members are called by their instance or client id, with as much of the rest of their id as it takes to distinguish them;
a thread of Kafka Streams by its process and its number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kohort.group.explain.rebalance_report import (
    CONVERTED,
    Conversion,
    Departure,
    EpochStep,
    EventFields,
    GroupEpoch,
    Identity,
    Outcome,
    Rebalance,
    Refused,
    ReportedCause,
    Round,
    Slowest,
    WarmUp,
    is_eviction,
)
from kohort.model.assignment import by_topic
from kohort.model.printable import printable

NAMED = 3
"""How many members are named before the others are only counted."""

_TAIL = 36
"""Length of a UUID: a member id is a name, a hyphen and a UUID."""

_THREAD = re.compile(r"(?:^|-)([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f-]{22}-(StreamThread-\d+)-consumer$")
"""The client id of a thread of Kafka Streams: the application, the process, the thread."""

_SHORTEST = 4
_NOTED_MS = 10
"""Being the slowest is worth a word from here on."""


CHANGES = ("subscription_changed", "protocol_changed", "topic_metadata_changed")
"""Causes of a round that are named whatever set the rebalance off."""


class Names:
    """Short names for member ids, unambiguous among all that were ever seen in the group."""

    def __init__(self, identities: Mapping[str, Identity]) -> None:
        self._identities = identities
        self._bearers: dict[str, list[str]] = {}
        for member_id in identities:
            self._bearers.setdefault(self._base(member_id), []).append(member_id)

    def __call__(self, member_id: str | None) -> str:
        """Return what to call a member, in printable characters."""
        return printable(self._name(member_id)) if member_id else "a member"

    def _name(self, member_id: str) -> str:
        base = self._base(member_id)
        others = [
            each for each in self._bearers.get(base, ()) if each != member_id and not self._is_same(each, member_id)
        ]
        if not others or base == member_id:
            return base
        tail = _tail(member_id, self._known(member_id) or base)
        for length in range(_SHORTEST, len(tail)):
            if not any(_tail(each, self._known(each) or base).startswith(tail[:length]) for each in others):
                return f"{base}-{tail[:length]}"
        return member_id

    def _is_same(self, one_id: str, other_id: str) -> bool:
        """Whether two ids were those of one instance, one after the other."""
        one, other = self._identities.get(one_id), self._identities.get(other_id)
        return (
            one is not None
            and other is not None
            and one.instance_id is not None
            and one.instance_id == other.instance_id
        )

    def _known(self, member_id: str) -> str:
        identity = self._identities.get(member_id)
        return (identity.instance_id or identity.client_id) if identity else ""

    def _base(self, member_id: str) -> str:
        if known := self._known(member_id):
            thread = _THREAD.search(known)
            return f"{thread[1]}-{thread[2]}" if thread else known
        head, hyphen = member_id[: -_TAIL - 1], member_id[-_TAIL - 1 : -_TAIL]
        return head if head and hyphen == "-" else member_id

    def listed(self, member_ids: Iterable[str]) -> str:
        """Return several members in words, the first few by name."""
        names = [self(member_id) for member_id in member_ids]
        if len(names) > NAMED + 1:
            names = [*names[:NAMED], f"{len(names) - NAMED} others"]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "no member"


def _tail(member_id: str, base: str) -> str:
    return member_id[len(base) :].lstrip("-") if member_id.startswith(base) else member_id


def duration(took_ms: float) -> str:
    """Return a duration as people write it: 40 ms, 4.2 s, 3 min 20 s."""
    if took_ms < 1000:
        return f"{took_ms:.0f} ms"
    if took_ms < 120_000:
        return f"{took_ms / 1000:.1f} s"
    minutes, seconds = divmod(round(took_ms / 1000), 60)
    if minutes < 120:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def sentence(rebalance: Rebalance, names: Names, now_ms: int | None = None) -> str:
    """Return a rebalance in one sentence: from where to where, why, at what cost, and who was slowest."""
    parts = [title(rebalance, names)]
    if len(rebalance.rounds) > 1:
        parts.append(f"{len(rebalance.rounds)} rounds")
    if len(rebalance.epochs) > 1:
        parts.append(f"{len(rebalance.epochs)} group epochs")
    parts += [conversion(each, names) for each in rebalance.conversions]
    if rebalance.outcome is Outcome.EMPTY:
        parts.append("no member is left")
    elif rebalance.outcome is Outcome.DELETED:
        parts.append("the group was deleted")
    parts.append(cost(rebalance, names))
    if rebalance.epochs and rebalance.outcome is not Outcome.EMPTY:
        parts += [warm_up(each, names) for each in rebalance.epochs[-1].warmups]
    if slow := _slow(rebalance, names):
        parts.append(slow)
    if rebalance.outcome is Outcome.RUNNING:
        parts.append(f"still running after {duration(rebalance.duration_ms(now_ms))}{waits(rebalance, names)}")
    if rebalance.is_partial:
        parts.append("some of its events are missing")
    return "; ".join(parts)


def refusal(refused: Refused, names: Names, until: Callable[[int], str]) -> str:
    """Return refused joins of one client in one sentence: with what, how often, why; `until` writes a time."""
    who = refused.instance_id or refused.client_id or "a client without a client id"
    times = f", {refused.times} times until {until(refused.last_ms)}" if refused.times > 1 else ""
    protocol = "consumer" if refused.is_native else "classic"
    text = refused.text
    for member_id in refused.in_the_way:
        text = text.replace(member_id, names(member_id))
    return printable(f"{who} ({protocol} protocol, {refused.host}) was refused with {refused.error}{times}: {text}")


def title(rebalance: Rebalance, names: Names) -> str:
    """Return from where to where a rebalance led, and why."""
    return f"{generations(rebalance)}: {why(rebalance, names)}"


def generations(rebalance: Rebalance) -> str:
    """Return from which generation, or group epoch, a rebalance led to which."""
    start, end = rebalance.from_generation, rebalance.to_generation
    words = {"classic": "generation"}
    clock, later = (words.get(kind, "group epoch") for kind in (rebalance.from_type, rebalance.to_type))
    if rebalance.outcome is Outcome.RUNNING:
        return f"{clock} {start}→…"
    if clock != later:
        return f"{clock} {start}→{later} {end}"
    return f"{clock} {start}" if start == end else f"{clock} {start}→{end}"


def why(rebalance: Rebalance, names: Names) -> str:
    """Return what set a rebalance off, and what came on top of it before it was over."""
    root = rebalance.cause
    clauses = [clause_of(root, names)]
    mentioned = {root.member_id}
    joined = set(rebalance.joined)
    # Who joined after a member was out may be that one again, so it is named after it.
    out_ms = min((each.at_ms for each in rebalance.departures), default=None)
    first = [each for each in rebalance.joined if out_ms is None or rebalance.joined_ms.get(each, 0) < out_ms]
    if root.kind == "member_joined" and len(first) > 1:
        clauses = [f"{names.listed(first)} joined"]
        mentioned |= set(first)
    if root.kind in ("member_left", "member_removed"):
        same = [each.member_id for each in rebalance.departures if each.cause.kind == root.kind]
        if len(same) > 1:
            clauses = [f"{names.listed(same)} {'left' if root.kind == 'member_left' else 'were removed'}"]
            mentioned |= set(same)
    for departure in rebalance.departures:
        if departure.member_id not in mentioned or departure.member_id in joined:
            clauses.append(clause_of(departure.cause._replace(member_id=departure.member_id), names))
            mentioned.add(departure.member_id)
    if others := [member_id for member_id in rebalance.joined if member_id not in mentioned]:
        clauses.append(f"{names.listed(others)} joined")
        mentioned |= set(others)
    changes = [each.cause for each in rebalance.rounds if each.cause.kind in CHANGES and each.cause != root]
    clauses += [clause_of(each, names) for each in dict.fromkeys(changes)]
    if root.kind != "assignment_failed":
        failures = [each.failure for each in rebalance.rounds if each.failure is not None]
        clauses += [clause_of(each, names) for each in failures if each.kind in ("assignment_failed", "append_failed")]
    if rebalance.restarts:
        clauses.append("the coordinator was started anew")
    # The chain lists all of them.
    return ", then ".join(some_of(clauses, NAMED, "more changes"))


def clause_of(cause: ReportedCause, names: Names) -> str:
    """Return a cause as a clause; what a client wrote into its reason is printable in it."""
    return printable(_cause(cause, names))


_EVICTED = "{who} evicted{reason}"
CLAUSES = {
    "member_joined": "{who} joined",
    "member_rejoined": "{who} rejoined{also}",
    "leader_rejoined": "leader {who} rejoined{also}",
    "topics_of_member_changed": "{who} joined again because its topics changed{also}",
    "topic_metadata_changed": "topics changed{also}",
    "acls_changed": "members may describe other topics now",
    "topic_deleted": "a topic was deleted{also}",
    "subscription_changed": "{who} joined again with another subscription{also}",
    "protocol_changed": "{who} offers other assignors{also}",
    "partitions_to_revoke": "{who} gave up what others are to get",
    "static_member_replaced": "{who} came back under a new member id",
    "static_member_left": "static member {who} left for a while{also}",
    "member_left": "{who} left{also}",
    "member_gone": "{who} is gone: it left or was evicted{also}",
    "member_removed": "{who} was removed by an administrator{also}",
    "member_changed": "{who} sent other settings of its own{also}",
    "group_settings_changed": "settings of the group were changed{also}",
    "session_timeout": _EVICTED,
    "rebalance_timeout": _EVICTED,
    "sync_timeout": _EVICTED,
    "new_member_timeout": _EVICTED,
    "group_too_large": _EVICTED,
    "revocation_timeout": "{who} evicted, it did not give up in time what it was asked for{also}",
    "assignment_failed": "leader {who} could not assign{also}",
    "append_failed": "the assignment could not be stored",
    "target_failed": "no target could be computed{also}",
    "regex_resolved": "{who}'s expression matches other topics now{also}",
    "assignor_changed": "another assignor was voted for by {who}{also}",
    "classic_members_called": "classic members were called to join again{also}",
    "standby_lag": "{who} sent new lags of its standby copies{also}",
    "standby_caught_up": "{who}'s standby copies have caught up",
    "standby_falling_behind": "{who}'s standby copies fall behind",
    CONVERTED: "the group was converted by {who}",
    "untold": "what set it off was not recorded",
}
"""Clauses for causes by their kind; `{also}` is the detail in brackets, `{reason}` the detail behind a comma."""

LAG_REASONS = ("standby_caught_up", "standby_falling_behind")


def _cause(cause: ReportedCause, names: Names) -> str:
    kind, detail = cause.kind, cause.detail
    if kind == "append_failed" and detail:
        return detail
    if kind == "standby_lag" and detail in LAG_REASONS:
        kind = detail
    elif kind == "topic_metadata_changed" and cause.member_id is not None:
        kind = "topics_of_member_changed"
    clause = CLAUSES.get(kind)
    if clause is None:
        return kind.replace("_", " ") + (f": {detail}" if detail else "")
    also, reason = (f" ({detail})", f", {detail}") if detail else ("", "")
    return clause.format(who=names(cause.member_id), also=also, reason=reason)


def cost(rebalance: Rebalance, names: Names) -> str:
    """Return what a rebalance cost, in partitions and partition-seconds."""
    if not rebalance.is_readable:
        work = rebalance.rounds[-1].work if rebalance.rounds else None
        return "what it assigns cannot be read" if work is None else _work_count(work)
    took: dict[object, int] = {}
    for gap in rebalance.gaps:
        took[gap.partition] = took.get(gap.partition, 0) + gap.duration_ms
    if not took:
        text = f"no {_unit(rebalance)} was unowned"
    else:
        total = max(rebalance.partitions, rebalance.partitions_before, len(took))
        longest, shortest = max(took.values()), min(took.values())
        for_how_long = "for" if duration(longest) == duration(shortest) else "for up to"
        text = (
            f"{len(took)} of {total} {_unit(rebalance)}{'s' * (total != 1)} unowned {for_how_long} {duration(longest)} "
            f"({partition_seconds(rebalance.unowned_partition_s)})"
        )
    if rebalance.silences:
        silent = sorted({str(gap.before) for gap in rebalance.silences})
        text += f", after {partition_seconds(rebalance.silent_partition_s)} with {names.listed(silent)} silent"
    return text


def _unit(rebalance: Rebalance) -> str:
    return unit(rebalance.to_type)


def unit(group_type: str) -> str:
    """Return what members of such a group own."""
    return "task" if group_type == "streams" else "partition"


def partition_seconds(amount: float) -> str:
    """Return an amount of partition-seconds in words."""
    return f"{amount:.3f} partition-seconds" if amount < 1 else f"{amount:.1f} partition-seconds"


def _slow(rebalance: Rebalance, names: Names) -> str:
    for what, took in (("give up", rebalance.slowest_revoke), ("reconcile", rebalance.slowest_reconcile)):
        if took is not None and took.took_ms >= _NOTED_MS:
            return _slowest(what, took, names)
    rejoin, sync, missed = rebalance.slowest_rejoin, rebalance.slowest_sync, rebalance.longest_missed
    others_ms = max((each.took_ms for each in (rejoin, sync) if each is not None), default=0)
    if missed is not None and missed.took_ms >= max(_NOTED_MS, others_ms):
        return f"waited {duration(missed.took_ms)} for {names(missed.member_id)}, which did not join"
    if sync is not None and sync.took_ms >= _NOTED_MS and (rejoin is None or sync.took_ms > rejoin.took_ms):
        return _slowest("sync", sync, names)
    if rejoin is not None and rejoin.took_ms >= _NOTED_MS:
        return _slowest("rejoin", rejoin, names)
    return ""


def _slowest(what: str, slowest: Slowest, names: Names) -> str:
    return f"slowest to {what} {names(slowest.member_id)} ({duration(slowest.took_ms)})"


def waits(rebalance: Rebalance, names: Names) -> str:
    """Return what a running rebalance waits for: a clause that begins with a comma, or nothing."""
    wait = rebalance.waits_for
    if wait is None:
        return ""
    if not wait.member_ids:
        return f", waiting for {wait.what}"
    clause = _WAITS.get(wait.what, f"{wait.what} from {{who}}")
    its = "its" if len(wait.member_ids) == 1 else "their"
    return ", waiting for " + clause.format(who=names.listed(wait.member_ids), its=its)


_WAITS = {
    "JoinGroup": "{who} to join again",
    "JoinGroup of issued ids": "{who} to join, some for the first time with the id that they were sent",
    "SyncGroup": "{who} to ask for {its} assignment",
    "revocation": "{who} to give up what others are to get",
    "heartbeat": "heartbeats of {who}",
}


class Link(NamedTuple):
    """One line of a chain: when it was, and what."""

    at_ms: int
    text: str


def chain(rebalance: Rebalance, names: Names) -> list[Link]:
    """Return a rebalance step by step: who came and went, each round, what moved."""
    reasons = {(each.opened_ms, each.cause) for each in rebalance.rounds}
    reasons |= {(each.bumped_ms, each.cause) for each in rebalance.epochs}
    links = [
        Link(each.at_ms, _departed(each, names))
        for each in rebalance.departures
        # Else the round that it set off has it.
        if (each.at_ms, each.cause) not in reasons
    ]
    links += [
        Link(
            each.at_ms,
            f"{names(each.new_id)} is {each.new_id} now; its old id {each.old_id} is fenced",
        )
        for each in rebalance.replacements
    ]
    parts = _clock_links(rebalance, names)
    if any(each.to == "classic" for each in rebalance.conversions):
        parts.reverse()  # the rounds come after what made it a classic group
    for part in parts:
        links += part
    # Stable: what happened in one millisecond stays in the order of the events.
    links.sort(key=lambda link: link.at_ms)
    if rebalance.ended_ms is not None and rebalance.is_readable:
        links.append(Link(rebalance.ended_ms, _moved(rebalance, names)))
    return links


def _clock_links(rebalance: Rebalance, names: Names) -> list[list[Link]]:
    """Return the lines of the rounds, of the conversions, and of the group epochs."""
    rounds = [
        link for number, each in enumerate(rebalance.rounds, 1) for link in _round_links(rebalance, number, each, names)
    ]
    conversions = [Link(each.at_ms, conversion(each, names)) for each in rebalance.conversions]
    epochs = [link for each in rebalance.epochs for link in _epoch_links(each, names)]
    return [rounds, conversions, epochs]


def _departed(departure: Departure, names: Names) -> str:
    text = clause_of(departure.cause._replace(member_id=departure.member_id), names)
    if is_eviction(departure) and departure.silent_ms >= 0 and "heartbeat" not in text:
        text += f", no request for {duration(departure.silent_ms)}"
    return text


def _round_links(rebalance: Rebalance, number: int, each: Round, names: Names) -> Iterator[Link]:
    which = f"round {number}" if len(rebalance.rounds) > 1 else "round"
    expected = f"{each.expected} member{'s' * (each.expected != 1)}"
    yield Link(each.opened_ms, f"{which} opened for {expected}: {clause_of(each.cause, names)}")
    if each.formed_ms is not None and each.generation is not None:
        ended_by = each.ended_by.kind if each.ended_by is not None else ""
        how = {
            "all_members_joined": "all others have joined" if each.missed_ms else "all members have joined",
            "initial_delay_over": "the initial delay is over",
            "joins_stopped": "no other member joined",
            "rebalance_timeout": "the join timer fired",
        }.get(ended_by, ended_by.replace("_", " "))
        last = max(each.rejoin_ms.items(), key=lambda entry: (entry[1], entry[0]), default=None)
        by = f", {names(last[0])} last after {duration(last[1])}" if last and last[1] >= _NOTED_MS else ""
        if each.missed_ms:
            by += f", after {duration(max(each.missed_ms.values()))} of waiting for {names.listed(each.missed_ms)}"
        missing = f", without {names.listed(each.missing)}" if each.missing else ""
        leads = f" with {each.protocol}, led by {names(each.leader)}" if each.protocol else ""
        yield Link(each.formed_ms, f"generation {each.generation} formed{leads}: {how}{by}{missing}")
    if each.setback is not None:
        yield Link(each.opened_ms, f"{which} had to be joined twice: {clause_of(each.setback, names)}")
    if each.failure is not None:
        yield Link(each.formed_ms or each.opened_ms, f"{which} came to no assignment: {clause_of(each.failure, names)}")
    elif each.stored_ms is not None:
        remark = f", {printable(each.stored_remark)}" if each.stored_remark else ""
        runs = f": {_work(each.work, names)}" if each.work else ""
        yield Link(each.stored_ms, f"assignment stored{remark}{runs}")


def _workers(work: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return what each member of Connect or Streams runs, by its id."""
    return {str(member_id): each for member_id, each in sorted((work.get("members") or {}).items())}


def _work_count(work: Mapping[str, Any]) -> str:
    counts = [len(each.get("runs") or ()) for each in _workers(work).values()]
    total = sum(counts)
    return f"connectors and tasks: {total}, on {sum(map(bool, counts))} of {len(counts)} workers"


def _work(work: Mapping[str, Any], names: Names) -> str:
    """Return what the first members of Connect or Streams run, and what is to follow."""

    def some(each: Mapping[str, Any], field: str) -> str:
        return ", ".join(some_of([printable(str(name)) for name in each.get(field) or ()], 2 * NAMED, "more"))

    clauses = []
    for member_id, each in _workers(work).items():
        parts = [f"{names(member_id)} runs {some(each, 'runs') or 'nothing'}"]
        parts += [f"has copies of {some(each, 'copies')}"] if each.get("copies") else []
        parts += [f"gives up {some(each, 'gives_up')}"] if each.get("gives_up") else []
        clauses.append(" and ".join(parts))
    clauses = some_of(clauses, 2 * NAMED, "more members")
    if delay_ms := work.get("delay_ms"):
        clauses.append(f"what a worker that is gone ran waits {duration(delay_ms)} for its return")
    if (next_ms := work.get("next_rebalance_ms")) is not None:
        clauses.append("a probing rebalance follows" + ("" if next_ms else " at once"))
    return "; ".join(clauses)


def _moved(rebalance: Rebalance, names: Names) -> str:
    counts = Counter((_owner(move.giver, names), _owner(move.taker, names)) for move in rebalance.moves)
    flows = _flows(((*pair, count) for pair, count in sorted(counts.items())), 2 * NAMED)
    took = duration(rebalance.duration_ms())
    clauses = ["no member is left"] if rebalance.outcome is Outcome.EMPTY else []
    if rebalance.partitions and rebalance.partitions_before:
        clauses = [f"{rebalance.stayed()} of {rebalance.partitions} {_unit(rebalance)}s stayed"]
    clauses += flows
    return f"over after {took}: {', '.join(clauses) or 'nothing is assigned'}"


def event_text(event: EventFields, names: Names) -> str:
    """Return one event in a line: its name, the member, the cause's detail and whatever else it has in a word."""
    cause = event.get("cause") or {}
    clauses = [str(event.get("event"))]
    if event.get("member"):
        clauses.append(names(str(event["member"])))
    clauses += [f"{name}={event[name]}" for name in _SHOWN_FIELDS if event.get(name) not in (None, "", {}, [])]
    clauses.append(f"cause={cause.get('kind')}")
    if cause.get("detail"):
        clauses.append(f"({printable(str(cause['detail']))})")
    return " ".join(clauses)


_SHOWN_FIELDS = (
    "generation", "epoch", "target_epoch", "member_epoch", "member_state", "phase", "to", "message", "size",
    "silent_ms", "session_timeout_ms", "initial_delay_ms", "delay_ms", "protocol", "replaced",
)  # fmt: skip


STEPS = 12
"""How many steps of one epoch are named one by one."""
FLOWS = 6


def some_of(clauses: list[str], most: int, others: str) -> list[str]:
    """Return the first `most` of some phrases and how many others there are: never one alone, which is shown."""
    return clauses if len(clauses) <= most + 1 else [*clauses[:most], f"{len(clauses) - most} {others}"]


def conversion(each: Conversion, names: Names) -> str:
    """Return what a conversion did, in a clause."""
    taken = "the conversion itself revoked " + (partitions(each.taken) if each.taken else "nothing")
    how = ""
    if each.cause.member_id:
        who = names(each.cause.member_id)
        how = f" by {who}" if each.to == "consumer" else f", {who} was its last member"
    return f"converted to the {each.to} protocol{how}; {taken}"


def partitions(count: int) -> str:
    """Return a number of partitions."""
    return f"{count} partition{'s' * (count != 1)}"


def _epoch_links(epoch: GroupEpoch, names: Names) -> Iterator[Link]:
    """Yield the lines of one group epoch: why it began, its target, and each step of a member."""
    yield Link(epoch.bumped_ms, f"group epoch {epoch.epoch}: {clause_of(epoch.cause, names)}")
    if epoch.failure is not None:
        text = f"no target for epoch {epoch.epoch}, the old one stands: {epoch.failure.detail}"
        yield Link(epoch.bumped_ms, text)
    if epoch.computed_ms is None:
        return
    waited_ms = epoch.computed_ms - epoch.bumped_ms
    after = f" after {duration(waited_ms)}" if waited_ms else ""
    flows = ((_owner(giver, names), _owner(taker, names), count) for giver, taker, count in epoch.flows)
    moves = ", ".join(_flows(flows, FLOWS)) or "nothing moves"
    yield Link(epoch.computed_ms, f"target computed{after}: {moves}")
    for warming in epoch.warmups:
        yield Link(epoch.computed_ms, f"{warm_up(warming, names)}: {_task_list(warming)}")
    steps = epoch.steps if len(epoch.steps) <= STEPS + 1 else epoch.steps[:STEPS]
    for step in steps:
        yield Link(step.at_ms, _step(step, names))
    if len(epoch.steps) > len(steps):
        yield Link(epoch.steps[-1].at_ms, f"{len(epoch.steps) - len(steps)} more steps of members")


def warm_up(each: WarmUp, names: Names) -> str:
    """Return in a clause who warms up tasks, and who runs them until its copies have caught up."""
    count = len(each.tasks)
    runs = f"{names(each.owner_id)} runs" if each.owner_id else "no member runs yet"
    return f"{names(each.member_id)} warms up {count} task{'s' * (count != 1)} that {runs}"


def _task_list(warming: WarmUp) -> str:
    named = [printable(f"{name} {', '.join(map(str, numbers))}") for name, numbers in by_topic(warming.tasks).items()]
    return "; ".join(some_of(named, NAMED, "more"))


def _owner(member_id: str | None, names: Names) -> str:
    return "no member" if member_id is None else names(member_id)


def _flows(flows: Iterable[tuple[str, str, int]], most: int) -> list[str]:
    clauses = [f"{count} from {giver} to {taker}" for giver, taker, count in flows]
    return some_of(clauses, most, "more such moves")


def _step(step: EpochStep, names: Names) -> str:
    clauses = []
    if step.gave:
        clauses.append(f"gave up {step.gave}")
    if step.got:
        clauses.append(f"got {step.got}")
    if step.asked:
        clauses.append(f"is to give up {step.asked}")
    if step.owners:
        clauses.append(f"waits for {step.awaited} of {names.listed(step.owners)}")
    return f"{names(step.member_id)} {', '.join(clauses)}"
