"""What a membership shows of its member, whichever protocol that speaks now."""

from __future__ import annotations

from kohort.client.membership.protocol_driver import Side
from kohort.member import ClassicMember, ConsumerMember, ConsumerState, Identity, MemberConfig, PollState, State, inputs
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError


class MembershipView:
    """Reads the member; changes nothing."""

    group_id: str
    failure: KafkaError | None
    """What ended the membership, if anything did."""
    _side: Side
    _config: MemberConfig
    _wanted: inputs.Subscribed

    @property
    def protocol(self) -> str:
        """The group protocol that this member speaks now: classic or consumer."""
        return self._side.name

    @property
    def assignment(self) -> Partitions:
        """The partitions that this member owns; until a revocation's callback has finished, its partitions too."""
        return self._member.owned

    @property
    def generation(self) -> int:
        """The group's generation, in the consumer protocol this member's epoch, or -1."""
        return self._member.identity.generation

    @property
    def member_id(self) -> str:
        """The id that the coordinator knows this member by, or an empty string."""
        return self._member.identity.member_id

    @property
    def config(self) -> MemberConfig:
        """How this member is configured."""
        return self._config

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it wants, as far as it knows their names."""
        return self._wanted.topics

    @property
    def identity(self) -> Identity:
        """The generation or epoch, and the member id, that this member shows now."""
        return self._member.identity

    @property
    def rebalance_protocol(self) -> str:
        """How this member rebalances: eager, cooperative or consumer."""
        member = self._member
        return "consumer" if isinstance(member, ConsumerMember) else member.strategy.protocol.name.lower()

    @property
    def group_instance_id(self) -> str | None:
        """The name that makes this a static member, or None."""
        return self._config.instance_id

    @property
    def state(self) -> State | ConsumerState:
        """Where the member is between two assignments, in the words of its protocol."""
        return self._member.state

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no rebalance is under way for it."""
        return self._member.is_stable

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows this member, as far as it has said."""
        return self._member.is_known

    @property
    def poll_state(self) -> PollState:
        """Where the user is between two polls: here, away, late (two thirds of the interval are over), or missed."""
        return self._member.poll_state

    @property
    def assignment_error(self) -> ErrorCode | None:
        """What the leader said in the last assignment is wrong with the group (a member of an old version), or None."""
        return self._member.assignment_error

    @property
    def is_leader(self) -> bool:
        """Whether this member computes the group's assignments."""
        return self._member.is_leader

    @property
    def rebalances(self) -> int:
        """How many rebalances this member has completed."""
        return self._member.rebalances

    @property
    def _member(self) -> ClassicMember | ConsumerMember:
        return self._side.member
