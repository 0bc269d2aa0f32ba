"""Faults of a world by subject, with their ends: checkers judge only where no fault excuses what they see."""

from __future__ import annotations

from kohort.sim.checks.checker import Checker

_FAULTS = {
    "cluster": (
        "kill node", "power loss", "stop node", "move node", "freeze node", "slow disk", "full disk", "failing disk",
        "failing operation", "read only disk", "hanging disk",
        "storm", "boot failed", "compact failed", "delete offsets", "reset offsets", "delete group", "kill gateway",
        "freeze gateway",
    ),
    "slow": ("packets", "drift"),
    "member": ("freeze", "partition", "one way", "vanish", "break", "expel", "impersonate"),
    "topic": ("delete topic", "recreate topic"),
}  # fmt: skip
"""Faults by what they disturb: everything at once, the pace of everything, one member, one topic."""
_KINDS = {name: kind for kind, names in _FAULTS.items() for name in names}

ALWAYS, NEVER = 1 << 62, -1 << 62


class FaultsSeen(Checker):
    """Faults by their subject, each with the time until which it lasts, as far as that is known."""

    def __init__(self) -> None:
        super().__init__()
        self._until_us: dict[tuple[str, str], int] = {}
        """By kind (`cluster`, `slow`, `member`, `topic`) and subject."""
        self._vanished: set[str] = set()

    def fault(self, name: str, subject: str, detail: str) -> None:
        """Note a fault, or the answer to what an operator asked for: it takes effect by then."""
        if name == "vanish":
            self._vanished.add(subject)
        kind = _KINDS.get(name.removesuffix(" answered"))
        if kind is None:
            return
        lasts_us = 0
        for word in detail.split():
            name, _, value = word.partition("=")
            if name in ("for_us", "down_us") and value.isdigit():
                lasts_us += int(value)
        until_us = ALWAYS if kind == "slow" else self.now_us + lasts_us
        key = (kind, subject if kind in ("member", "topic") else "")
        self._until_us[key] = max(self._until_us.get(key, NEVER), until_us)

    # -- for others

    def is_cluster_disturbed(self, since_us: int) -> bool:
        """Whether brokers, disks or the network had a fault that lasted until then or later."""
        return self._until_us.get(("cluster", ""), NEVER) >= since_us

    @property
    def is_slow(self) -> bool:
        """Whether packets take their time or clocks go wrong, from the world's beginning to its healing."""
        return ("slow", "") in self._until_us

    def is_member_disturbed(self, name: str, since_us: int) -> bool:
        """Whether a member was cut off, frozen or meddled with."""
        process = name.partition(".")[0]  # a second membership of one process is named NAME.2
        return self._until_us.get(("member", process), NEVER) >= since_us

    def has_vanished_connection(self, name: str) -> bool:
        """Whether a connection of a member vanished at any time: it learns of that when it sends there next."""
        return name.partition(".")[0] in self._vanished

    def is_any_member_disturbed(self, since_us: int) -> bool:
        """Whether any member was."""
        return any(kind == "member" and until_us >= since_us for (kind, _), until_us in self._until_us.items())

    def is_topic_changed(self, topic: str, since_us: int) -> bool:
        """Whether a topic was deleted or made anew."""
        return self._until_us.get(("topic", topic), NEVER) >= since_us
