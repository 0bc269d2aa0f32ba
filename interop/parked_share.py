"""For which part of the time a heartbeat of each client is parked at an embedded broker: it is in reach of a round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from kohort.broker.embedded import EmbeddedBroker

SAMPLE_S = 0.02


def parked_shares(embedded: EmbeddedBroker, groups: Sequence[str], duration_s: float) -> dict[str, float]:
    """Look again and again, and return the share by client id."""
    node = embedded.broker.node
    assert node is not None, "the broker runs"
    coordinator = node.coordinator
    members = {name: described.members for name in groups if (described := coordinator.describe(name)) is not None}
    assert members.keys() == set(groups), "each group has members"
    parking = coordinator.runtime.classic_parking
    found: dict[str, list[bool]] = {member.client_id: [] for of_group in members.values() for member in of_group}
    until_s = time.monotonic() + duration_s
    while time.monotonic() < until_s:
        for name, of_group in members.items():
            for member in of_group:
                found[member.client_id].append(parking.is_parked(name, member.member_id))
        time.sleep(SAMPLE_S)
    return {client_id: statistics.fmean(samples) for client_id, samples in found.items()}
