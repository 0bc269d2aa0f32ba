"""What a gateway derives from the traffic, compared with the coordinator's own groups once a world has converged.

One gateway sees all requests of all members; several see all together, and exchange it, so each is compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.shard import Group
from kohort.group.streams.group import StreamsGroup
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import Ledgers, active_in
from kohort.sim.checks.invariants import OBSERVED_EQUALS_SERVED
from kohort.sim.kernel.world_observer import SeenGateway, SeenMember
from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.primitives import MalformedMessage

Shown = Mapping[str, object]


class GatewayChecker(Checker):
    """ObservedEqualsServed."""

    invariants = (OBSERVED_EQUALS_SERVED,)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._gateways: dict[str, SeenGateway] = {}
        self._is_healed = False
        self._served: set[str] = set()
        """Ids of members that got an answer without an error since the world healed.

        Of others a gateway cannot know: their last answers were lost, or passed before it started.
        """

    def gateway_started(self, gateway: SeenGateway) -> None:
        self._gateways[gateway.name] = gateway

    def healed(self) -> None:
        """From here on members are served."""
        self._is_healed = True

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """Note who is served."""
        if self._is_healed and error is ErrorCode.NONE:
            self._served.add(member.identity.member_id)

    def ended(self) -> None:
        """Compare every group that the gateway knows and that is stable with the coordinator's."""
        for _, seen in sorted(self._gateways.items()):
            self._compare(seen)

    def _compare(self, seen: SeenGateway) -> None:
        assert seen.gateway is not None, "a healed world has its gateways"
        observed = seen.gateway.groups.shard.groups
        for node in self._ledgers.nodes:
            for hosted in active_in(node.node):
                for group_id, group in sorted(hosted.shard.groups.items()):
                    known = observed.get(group_id)
                    served = group.members.keys() & self._served
                    if known is not None and served and _is_stable(group):
                        self.count(OBSERVED_EQUALS_SERVED)
                        theirs = _shown(group, served)
                        ours = _shown(known, served)
                        text = f"{seen.name} takes {group_id} for {ours}, and its coordinator has {theirs}"
                        self.require(ours == theirs, OBSERVED_EQUALS_SERVED, text)


def _is_stable(group: Group) -> bool:
    return not isinstance(group, ClassicGroup) or group.phase is Phase.STABLE


def _assigned(assignment: bytes) -> str:
    """Return an assignment as text; that of a member which has not asked for it yet is as one without partitions."""
    try:
        is_empty = not assignment or (decode_assignment(assignment) == Assignment())
    except MalformedMessage:
        is_empty = False
    return "" if is_empty else assignment.hex()


def _shown(group: Group, among: Collection[str]) -> Shown:
    """Return what of a group is in the traffic, of these members only.

    To a gateway that does not know why heartbeats are missing a member is one until the group's next change.
    """
    if isinstance(group, ConsumerGroup):
        members = {
            member_id: (member.epoch, ids_of(member.assigned))
            for member_id, member in sorted(group.members.items())
            if member_id in among
        }
        return {"members": members}
    if isinstance(group, StreamsGroup):
        threads = {
            member_id: (member.epoch, *map(sorted, member.assigned.tasks))
            for member_id, member in sorted(group.members.items())
            if member_id in among
        }
        return {"members": threads}
    assignments = {
        member_id: _assigned(member.assignment)
        for member_id, member in sorted(group.members.items())
        if member_id in among
    }
    return {"generation": group.generation, "state": group.phase.value, "members": assignments}
