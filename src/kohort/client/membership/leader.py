"""What a member does for its whole group while it leads: fresh metadata, the assignor, the two-step rule.

An assignor that fails, or breaks the rule of cooperative rebalancing, makes no assignment at all: the members get the
reason where the broker can pass it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kohort.assign.cooperative import assign_group
from kohort.assign.spec import Assignor, GroupSpec
from kohort.client.membership.member_link import MemberLink
from kohort.client.membership.member_messages import specs
from kohort.member import effects, inputs
from kohort.model.errors import KafkaError

OLD_MEMBERS = (
    "group %s is cooperative and these members write an embedded protocol without the partitions they own: %s."
    " They are assigned nothing: upgrade them, or take them out of the group"
)


class Leader:
    """The assignments that one member makes."""

    def __init__(self, link: MemberLink, assignors: Iterable[Assignor]) -> None:
        self._link = link
        self._assignors = {assignor.name: assignor for assignor in assignors}

    async def compute(self, effect: effects.Compute, is_wanted: Callable[[], bool] = lambda: True) -> inputs.Input:
        """Run the assignor over the members, with metadata of now that covers all their topics.

        Where `is_wanted` returns False once the metadata is there, the round is over and no assignor is called.
        """
        group_id, name = self._link.group_id, effect.protocol_name
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        try:
            await self._link.refresh(topics, is_wanted)
        except KafkaError as error:
            return self._failed(effect, error.text)
        if not is_wanted():
            return inputs.ComputeFailed(effect.identity, "the round is over")
        snapshot = specs(self._link.view, topics)
        if missing := [topic for topic in topics if topic not in snapshot]:
            self._link.log.warning("group %s wants topics that do not exist: %s", group_id, ", ".join(missing))
        try:
            spec = GroupSpec(effect.members, snapshot)
            assignments = {} if effect.skip else assign_group(self._assignors, name, spec, self._warn)
        except Exception as error:  # an assignor may be a user's code
            return self._failed(effect, f"{type(error).__name__}: {error}")
        return inputs.Computed(effect.identity, assignments, snapshot)

    def _failed(self, effect: effects.Compute, text: str) -> inputs.Input:
        self._link.log.exception("group %s: no assignment by %s", self._link.group_id, effect.protocol_name)
        # Our brokers pass a leader's failure on to the other members.
        return inputs.ComputeFailed(effect.identity, text, is_passed_on=self._link.has_feature())

    def _warn(self, old: tuple[str, ...]) -> None:
        self._link.log.warning(OLD_MEMBERS, self._link.group_id, ", ".join(old))
