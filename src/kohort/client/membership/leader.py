"""What a member does for its whole group while it leads: fresh metadata, the assignor, the two-step rule.

An assignor that fails, or breaks the rule of cooperative rebalancing, makes no assignment at all: the members get the
reason where the broker can pass it on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kohort.assign.cooperative import assign_group
from kohort.assign.spec import Assignor, GroupSpec
from kohort.client.cluster.retry import is_worth_a_retry, retry
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.member_messages import specs
from kohort.member import effects, inputs
from kohort.model.errors import KafkaError

log = logging.getLogger(__name__)

OLD_MEMBERS = (
    "group %s is cooperative and these members write an embedded protocol that cannot say what they own: %s."
    " They are given nothing: upgrade them, or take them out of the group"
)


class Leader:
    """The assignments that one member makes. `followed` are the topics whose metadata concerns it."""

    def __init__(self, link: CoordinatorLink, assignors: Iterable[Assignor]) -> None:
        self._link = link
        self._cluster = link.cluster
        self._group_id = link.group_id
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.followed: set[str] = set()

    async def compute(self, effect: effects.Compute, is_wanted: Callable[[], bool] = lambda: True) -> inputs.Input:
        """Run the assignor over the members, with metadata of now that covers all their topics.

        Where `is_wanted` says no by the time the metadata is there, the round is over and no assignor is called.
        """
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        try:
            if topics:
                await self._refresh(topics, is_wanted)
            if not is_wanted():
                return inputs.ComputeFailed(effect.identity, "the round is over")
            snapshot = specs(self._cluster.view, topics)
            if missing := [topic for topic in topics if topic not in snapshot]:
                log.warning("group %s wants topics that do not exist: %s", self._group_id, ", ".join(missing))
            spec = GroupSpec(effect.members, snapshot)
            name = effect.protocol_name
            assignments = {} if effect.skip else assign_group(self._assignors, name, spec, self._warn)
        except Exception as error:
            log.exception("group %s: no assignment by %s", self._group_id, effect.protocol_name)
            text = error.text if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
            # Our brokers pass a leader's failure on to the other members.
            return inputs.ComputeFailed(effect.identity, text, is_passed_on=self._link.has_feature())
        return inputs.Computed(effect.identity, assignments, snapshot)

    def _warn(self, old: tuple[str, ...]) -> None:
        log.warning(OLD_MEMBERS, self._group_id, ", ".join(old))

    async def _refresh(self, topics: Iterable[str], is_wanted: Callable[[], bool]) -> None:
        """Ask for metadata now: a round may have begun because another member saw what this one has not.

        A cluster that cannot be asked is no reason to end: the coordinator ends a round that takes too long.
        """
        self.followed.update(topics)
        self._cluster.track(topics)
        try:
            await self._cluster.force_refresh()
        except KafkaError as error:
            if all(self._cluster.view.spec(topic) is not None for topic in topics):
                log.warning("group %s: assigning with metadata of before: %s", self._group_id, error.text)
                return
            waits = self._cluster.waits()
            while is_wanted():
                try:
                    await retry(self._cluster.force_refresh, waits=waits, timeout_ms=self._cluster.request_timeout_ms)
                except KafkaError as again:
                    if not is_worth_a_retry(again):
                        raise
                    log.warning(
                        "group %s: no assignment yet, the topics cannot be seen: %s", self._group_id, again.text
                    )
                else:
                    return
