"""What a member does for its whole group while it leads: fresh metadata, the assignor, the two-step rule.

It also follows the metadata of the topics that concern the member, whether it leads or not. An assignor that fails, or
breaks the rule of cooperative rebalancing, makes no assignment at all: the group is told where the broker can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from kohort.assign.cooperative import members_of_old_versions, refuse_broken_rules, with_errors
from kohort.assign.spec import Assignor, GroupSpec, RebalanceProtocol, TopicSpec
from kohort.client.cluster import Cluster
from kohort.client.group_requests import GroupRequests
from kohort.client.retry import retry
from kohort.member import effects, inputs
from kohort.model.assignment import Assignment
from kohort.model.errors import KafkaError

log = logging.getLogger(__name__)

_TRUSTED = "cooperative-sticky"
"""Kafka's own cooperative assignor: it withholds what changes hands, and settles claims that clash."""

OLD_MEMBERS = (
    "group %s is cooperative and these members write an embedded protocol that cannot say what they own: %s."
    " They are given nothing: upgrade them, or take them out of the group"
)


class Leading:
    """One member's view of the group's topics, and the assignments it makes."""

    def __init__(
        self, cluster: Cluster, group_id: str, assignors: Mapping[str, Assignor], requests: GroupRequests
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._assignors = assignors
        self._requests = requests
        self._followed: frozenset[str] = frozenset()

    def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics' metadata too."""
        topics = frozenset(topics)
        self._followed |= topics
        if self._cluster.track(topics):
            # A follower never computes an assignment, and still has to find the leaders of what it is given.
            self._cluster.want_refresh()

    def seen(self) -> inputs.MetadataChanged:
        """Return the topics as the cluster shows them now."""
        view = self._cluster.view
        gone = frozenset(topic for topic in self._followed if view.is_gone(topic))
        return inputs.MetadataChanged(self._specs(self._followed), gone)

    async def compute(self, effect: effects.Compute, is_wanted: Callable[[], bool] = lambda: True) -> inputs.Input:
        """Run the assignor over the members, with metadata of now that covers all their topics.

        Where `is_wanted` says no by the time the metadata is there, the round is over and no assignor is called.
        """
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        try:
            await self._refresh(topics)
            if not is_wanted():
                return inputs.ComputeFailed(effect.identity, "the round is over")
            snapshot = self._specs(topics)
            if missing := [topic for topic in topics if topic not in snapshot]:
                log.warning("group %s wants topics that do not exist: %s", self._group_id, ", ".join(missing))
            assignments = {} if effect.skip else self._assign(effect.protocol_name, GroupSpec(effect.members, snapshot))
        except Exception as error:
            log.exception("group %s: no assignment by %s", self._group_id, effect.protocol_name)
            text = error.text if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
            return inputs.ComputeFailed(effect.identity, text, is_told=self._requests.is_failure_passed_on)
        return inputs.Computed(effect.identity, assignments, snapshot)

    def _assign(self, name: str, spec: GroupSpec) -> dict[str, Assignment]:
        assignor = self._assignors.get(name)
        if assignor is None:
            raise LookupError(f"the group chose the assignor {name!r}, which its leader does not have")
        # Members of both protocols may sit in the group, so what the leader itself speaks does not matter.
        if RebalanceProtocol.COOPERATIVE not in assignor.protocols:
            return assignor.assign(spec)
        old = members_of_old_versions(spec)
        if not old or len(old) == len(spec.members):
            return self._assign_cooperatively(assignor, spec)
        log.warning(OLD_MEMBERS, self._group_id, ", ".join(old))
        others = {member: each for member, each in spec.members.items() if member not in old}
        assignments = self._assign_cooperatively(assignor, GroupSpec(others, spec.topics))
        return with_errors(spec, assignments | {member: Assignment() for member in old})

    def _assign_cooperatively(self, assignor: Assignor, spec: GroupSpec) -> dict[str, Assignment]:
        assignments = assignor.assign(spec)
        if assignor.name != _TRUSTED:
            refuse_broken_rules(spec, assignments, assignor.name)
        return assignments

    async def _refresh(self, topics: Iterable[str]) -> None:
        """Ask for metadata now: a round may have begun because another member saw what this one has not."""
        self._followed |= frozenset(topics)
        self._cluster.track(topics)
        try:
            await self._cluster.refresh()
        except KafkaError as error:
            if all(self._cluster.view.spec(topic) is not None for topic in topics):
                log.warning("group %s: assigning with metadata of before: %s", self._group_id, error.text)
                return
            waits = self._cluster.waits()
            await retry(self._cluster.refresh, waits=waits, timeout_ms=self._cluster.request_timeout_ms)

    def _specs(self, topics: Iterable[str]) -> dict[str, TopicSpec]:
        view = self._cluster.view
        return {topic: spec for topic in topics if (spec := view.spec(topic)) is not None}
