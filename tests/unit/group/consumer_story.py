"""Events of a consumer group as its coordinator would write them, one line each. See `story.py`.

`targets` moves the group epoch's target; `step` stores what a member has, was asked back, and where it is.
"""

from __future__ import annotations

from tests.unit.group.story import Story

Numbers = set[int]


def by_topic(numbers: Numbers) -> dict[str, list[int]]:
    return {"t": sorted(numbers)} if numbers else {}


class ConsumerStory(Story):
    """The events of the consumer group `g`."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 1
        self.target_epoch = 1

    def say(self, name: str, kind: str, by: str | None = None, detail: str = "", /, **fields: object) -> ConsumerStory:
        cause = {"kind": kind, "member": by, "detail": detail, "at_ms": self.at_ms}
        event = {
            "at_ms": self.at_ms,
            "group": "g",
            "event": name,
            "epoch": self.epoch,
            "size": len(self.members),
            **fields,
        }
        self.events.append({**event, "cause": cause})
        return self

    def wait(self, ms: int) -> ConsumerStory:
        self.at_ms += ms
        return self

    def bump(self, kind: str, by: str | None = None, detail: str = "") -> ConsumerStory:
        self.epoch += 1
        return self.say("group_epoch_bumped", kind, by, detail)

    def subscribe(
        self,
        member: str,
        kind: str = "member_joined",
        *,
        instance: str | None = None,
        claims: Numbers | None = None,
    ) -> ConsumerStory:
        """Store a member; one with `claims` is a classic one that says it owns these."""
        self.members.add(member)
        classic = {"is_classic": True, "owned": by_topic(claims), "protocols": ["range"]} if claims is not None else {}
        return self.say(
            "member_subscribed", kind, member, member=member, client=member, instance=instance, topics=["t"], **classic
        )

    def target(self, **targets: Numbers) -> ConsumerStory:
        self.target_epoch = self.epoch
        by_member = {member: by_topic(numbers) for member, numbers in targets.items()}
        return self.say("target_computed", "member_joined", None, target_epoch=self.epoch, targets=by_member)

    def step(
        self,
        member: str,
        assigned: Numbers,
        state: str = "STABLE",
        *,
        asked: Numbers | None = None,
        epoch: int | None = None,
        phase: str | None = None,
        kind: str = "member_reconciled",
    ) -> ConsumerStory:
        fields = {"phase": phase} if phase else {}
        return self.say(
            "member_reconciled",
            kind,
            member,
            member=member,
            member_epoch=self.epoch if epoch is None else epoch,
            member_state=state,
            assigned=by_topic(assigned),
            pending=by_topic(asked or set()),
            **fields,
        )

    def leave(self, member: str, kind: str = "member_left", detail: str = "", silent_ms: int = -1) -> ConsumerStory:
        self.members.discard(member)
        self.say("member_assignment_deleted", kind, member, detail, member=member)
        self.say("member_deleted", kind, member, detail, member=member)
        silence = {"silent_ms": silent_ms} if silent_ms >= 0 else {}
        name = "member_left" if kind == "member_left" else "member_evicted"
        return self.say(name, kind, member, detail, member=member, **silence)

    def settled(self, **held: Numbers) -> ConsumerStory:
        """Begin with a consumer group of these native members, stable at epoch 2."""
        first = min(held)
        for member in sorted(held):
            self.subscribe(member)
        self.bump("member_joined", first).target(**held)
        for member in sorted(held):
            self.step(member, held[member])
        self.wait(60_000)
        return self
