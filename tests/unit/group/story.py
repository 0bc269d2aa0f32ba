"""Events of a group as its coordinator would write them, one line each: what `explain` is tested with.

Every method is one event at the story's time; `after` lets time pass. Partitions are numbers of the topic `t`.
"""

from __future__ import annotations

from typing import Any

from kohort.group.explain.explain import explain
from kohort.group.explain.rebalance_report import GroupReport, Rebalance

START = 1_000_000


class Story:
    """The events of the group `g`."""

    def __init__(self) -> None:
        self.at_ms = START
        self.events: list[dict[str, Any]] = []
        self.generation = 0
        self.members: set[str] = set()
        self.held: dict[str, set[int]] = {}

    # -- events

    def put(self, name: str, kind: str, by: str | None = None, detail: str = "", /, **fields: Any) -> Story:
        cause = {"kind": kind, "member": by, "detail": detail, "at_ms": self.at_ms}
        event = {"at_ms": self.at_ms, "group": "g", "event": name, "generation": self.generation, **fields}
        self.events.append({**event, "cause": cause})
        return self

    def after(self, ms: int) -> Story:
        self.at_ms += ms
        return self

    def created(self) -> Story:
        return self.put("group_created", "group_created")

    def deleted(self) -> Story:
        self.generation, self.members, self.held = 0, set(), {}
        return self.put("group_deleted", "admin_request")

    def joined(self, member: str, instance: str | None = None, owned: set[int] | None = None) -> Story:
        self.members.add(member)
        owned_by = {"t": sorted(owned)} if owned else {}
        return self.put(
            "member_joined", "member_joined", member, member=member, client=member, instance=instance, owned=owned_by
        )

    def rejoined(
        self, member: str, owned: set[int] | None = None, kind: str = "member_rejoined", detail: str = ""
    ) -> Story:
        """Join again claiming `owned`: nothing, as an eager member does."""
        owned_by = {"t": sorted(owned)} if owned else {}
        return self.put("member_rejoined", kind, member, detail, member=member, owned=owned_by)

    def kept(self, member: str) -> Story:
        """Join again claiming everything that was assigned, as a cooperative member does."""
        return self.rejoined(member, self.held.get(member, set()))

    def left(self, member: str, detail: str = "") -> Story:
        self.members.discard(member)
        return self.put("member_left", "member_left", member, detail, member=member)

    def evicted(self, member: str, silent_ms: int = 10_000) -> Story:
        self.members.discard(member)
        detail = f"no heartbeat for {silent_ms / 1000:.1f} s"
        return self.put("member_evicted", "session_timeout", member, detail, member=member, silent_ms=silent_ms)

    def replaced(self, old: str, new: str, instance: str, *, awaits_join: bool = False) -> Story:
        self.members.discard(old)
        self.members.add(new)
        self.held[new] = self.held.pop(old, set())
        fields = {"instance": instance, "replaced": old, "awaits_join": awaits_join}
        return self.put("member_replaced", "static_member_replaced", new, member=new, client=new, **fields)

    def opened(self, kind: str, member: str | None = None, detail: str = "", *, is_initial: bool = False) -> Story:
        return self.put("round_opened", kind, member, detail, is_initial=is_initial, members=sorted(self.members))

    def formed(self, kind: str = "all_members_joined", leader: str | None = None) -> Story:
        self.generation += 1
        leader = leader or min(self.members)
        return self.put("generation_formed", kind, protocol="range", leader=leader, members=sorted(self.members))

    def stored(self, kind: str = "leader_synced", awaiting: tuple[str, ...] = (), **held: set[int]) -> Story:
        """Store an assignment; who is not named gets nothing. All have asked for it but those `awaiting`."""
        self.held = {member: set(held.get(member, ())) for member in self.members}
        return self.put(
            "assignment_stored",
            kind,
            min(self.members),
            members=sorted(self.members),
            assignments={member: {"t": sorted(numbers)} for member, numbers in self.held.items()},
            synced={member: self.at_ms for member in self.members if member not in awaiting},
            awaiting=sorted(awaiting),
        )

    def synced(self, member: str, *, is_held: bool = False) -> Story:
        return self.put("member_synced", "member_synced", member, member=member, is_held=is_held)

    def emptied(self) -> Story:
        self.generation += 1
        self.members, self.held = set(), {}
        return self.put("group_emptied", "all_members_joined")

    def loaded(self, state: str = "Stable", kind: str = "coordinator_loaded") -> Story:
        assignments = {member: {"t": sorted(numbers)} for member, numbers in self.held.items()}
        return self.put("group_loaded", kind, members=sorted(self.members), assignments=assignments, state=state)

    # -- longer passages

    def stable(self, **held: set[int]) -> Story:
        """Begin with a new group of these members, stable after an initial delay of 3 s."""
        first = min(held)
        self.created()
        for member in sorted(held):
            self.joined(member)
            if member == first:
                self.opened("member_joined", member, is_initial=True)
        return self.after(3_000).formed("initial_delay_over").stored(**held).after(60_000)

    # -- asking

    def report(self, now_ms: int | None = None) -> GroupReport:
        return explain(self.events, "g", self.at_ms if now_ms is None else now_ms)

    def last(self) -> Rebalance:
        return self.report().rebalances[-1]
