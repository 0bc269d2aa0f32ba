"""What `explain` says of a consumer group's epochs and of conversions: causes as clauses, steps as lines of a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kohort.group.explain.because import CONVERTED, Because
from kohort.group.explain.explained_epochs import Conversion, GroupEpoch, Step

Say = Callable[[str | None], str]
"""Names a member."""
Listed = Callable[[Iterable[str]], str]
Duration = Callable[[float], str]

STEPS = 12
"""How many steps of one epoch are told one by one."""
FLOWS = 6

CAUSES = {
    "regex_resolved": "{who}'s expression matches other topics now",
    "assignor_changed": "another assignor was voted for by {who}",
    "member_fenced": "{who} was fenced",
    "revocation_timeout": "{who} evicted, it did not give up in time what it was asked for",
    "static_member_left": "static member {who} left for a while",
    "member_changed": "{who} sent other settings of its own",
    "topic_metadata_changed": "topics changed",
    "topic_deleted": "a topic was deleted",
    "classic_members_called": "classic members were called to join again",
    "target_failed": "no target could be computed",
}
"""Clauses for causes of consumer groups; whatever detail there is follows."""

LAG_REASONS = {
    "standby_caught_up": "{who}'s standby copies have caught up",
    "standby_falling_behind": "{who}'s standby copies fall behind",
}


def consumer_cause(because: Because, say: Say) -> str | None:
    """Return a cause of a consumer group as a clause, or None for one that classic groups have too."""
    who, detail = say(because.member_id), because.detail
    if because.kind == "standby_lag":
        clause = LAG_REASONS.get(detail)
        return clause.format(who=who) if clause else f"{who} sent new lags of its standby copies" + also(detail)
    if because.kind == CONVERTED:
        return f"the group was converted by {who}"
    if because.kind == "topic_metadata_changed" and because.member_id is not None:
        return None
    clause = CAUSES.get(because.kind)
    return None if clause is None else clause.format(who=who) + also(detail)


def also(detail: str) -> str:
    """Return a detail in brackets, or nothing."""
    return f" ({detail})" if detail else ""


def some_of(said: list[str], most: int, others: str) -> list[str]:
    """Return the first `most` of some phrases and how many others there are: never one alone, which is shown."""
    return said if len(said) <= most + 1 else [*said[:most], f"{len(said) - most} {others}"]


def conversion(each: Conversion, say: Say) -> str:
    """Return what a conversion did, in a clause."""
    taken = "the conversion itself revoked " + (partitions(each.taken) if each.taken else "nothing")
    by = f" by {say(each.because.member_id)}" if each.because.member_id else ""
    how = by if each.to == "consumer" else f", {say(each.because.member_id)} was its last member" if by else ""
    return f"converted to the {each.to} protocol{how}; {taken}"


def partitions(count: int) -> str:
    """Return a number of partitions."""
    return f"{count} partition{'s' * (count != 1)}"


def epoch_links(epoch: GroupEpoch, say: Say, cause: str, listed: Listed, lasted: Duration) -> Iterator[tuple[int, str]]:
    """Yield the lines of one group epoch: why it began, its target, and each step of a member."""
    yield epoch.bumped_ms, f"group epoch {epoch.epoch}: {cause}"
    if epoch.failure is not None:
        yield epoch.bumped_ms, f"no target for epoch {epoch.epoch}, the old one stands: {epoch.failure.detail}"
    if epoch.computed_ms is None:
        return
    waited_ms = epoch.computed_ms - epoch.bumped_ms
    after = f" after {lasted(waited_ms)}" if waited_ms else ""
    yield epoch.computed_ms, f"target computed{after}: {_flows(epoch, say)}"
    shown = epoch.steps if len(epoch.steps) <= STEPS + 1 else epoch.steps[:STEPS]
    for step in shown:
        yield step.at_ms, _step(step, say, listed)
    if len(epoch.steps) > len(shown):
        yield epoch.steps[-1].at_ms, f"{len(epoch.steps) - len(shown)} more steps of members"


def _flows(epoch: GroupEpoch, say: Say) -> str:
    flows = [
        f"{count} from {'nobody' if giver is None else say(giver)} to {'nobody' if taker is None else say(taker)}"
        for giver, taker, count in epoch.flows
    ]
    return ", ".join(some_of(flows, FLOWS, "more such moves")) or "nothing moves"


def _step(step: Step, say: Say, listed: Listed) -> str:
    said = []
    if step.gave:
        said.append(f"gave up {step.gave}")
    if step.got:
        said.append(f"got {step.got}")
    if step.asked:
        said.append(f"is to give up {step.asked}")
    if step.owners:
        said.append(f"waits for {step.awaited} of {listed(step.owners)}")
    return f"{say(step.member_id)} {', '.join(said)}"
