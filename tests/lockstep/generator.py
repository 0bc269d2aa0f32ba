"""Random runs: mostly clients that follow the protocol, and now and then one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.lockstep.model import Client, Stage, Step

PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("range", "sticky", "roundrobin"))
TOPICS = ("a", "b", "c")

EXPRESSIONS = ("a", "[ab]", "a|b|c", ".*", "z+", None)


def clients_of(random: Random) -> list[Client]:
    """Return the clients of a run."""
    found = []
    groups = random.choice((1, 1, 2))
    natives = random.choice((0.0, 1.0, 1.0, 0.4))
    for number in range(random.randint(2, 4) * groups):
        is_cooperative = random.random() < 0.5
        found.append(
            Client(
                number=number,
                group=number % groups,
                instance_id=f"i{number}" if random.random() < 0.35 else None,
                version=random.choice((3, 5, 5, 9, 9)),
                is_cooperative=is_cooperative,
                topics=tuple(sorted(random.sample(TOPICS, random.randint(1, 3)))),
                protocols=random.choice(PROTOCOLS),
                session_ms=6_000 + 137 * number,
                is_native=random.random() < natives,
                rebalance_ms=4_000 + 1_000 * random.randint(0, 4) + 53 * number,
            )
        )
        if found[-1].version < 5 and not found[-1].is_native:
            found[-1].instance_id = None
    return found


def config_of(random: Random) -> dict[str, str]:
    """Return the settings in which a run differs from the others."""
    changes = {}
    if random.random() < 0.2:
        changes["group.max.size"] = str(random.randint(1, 3))
        changes["group.consumer.max.size"] = changes["group.max.size"]
    if random.random() < 0.3:
        policies = ("disabled", "upgrade", "downgrade")
        changes["group.consumer.migration.policy"] = random.choice(policies)
    if random.random() < 0.3:
        changes["group.initial.rebalance.delay.ms"] = "0"
    return changes


class Generator:
    """Chooses the next step by what the clients know."""

    def __init__(self, random: Random, clients: list[Client], count: int) -> None:
        self.random = random
        self.clients = clients
        self.count = count
        self.strange = random.choice((0.0, 0.0, 0.4))
        self.is_pure = all(client.is_native for client in clients)

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps of the run; each is chosen when the one before it has happened."""
        for name in TOPICS[:2]:
            yield Step("topic", 0, {"name": name, "partitions": self.random.randint(1, 5)})
        for _ in range(self.count - 2):
            yield self.step()

    def step(self) -> Step:
        """Return the next step."""
        random = self.random
        client = random.choice(self.clients)
        draw = random.random()
        step = self._stray(client) if draw < 0.12 else self._event(client) if draw < 0.22 else self._next(client)
        return step._replace(how={"after": self._pause(), **step.how})

    def _pause(self) -> int:
        draw = self.random.random()
        if draw < 0.75:
            return self.random.randint(1, 300)
        return self.random.randint(300, 3_500) if draw < 0.97 else self.random.randint(3_500, 12_000)

    def _next(self, client: Client) -> Step:
        """What a client does that follows the protocol."""
        random, who = self.random, client.number
        if client.is_native:
            return self._next_native(client)
        match client.stage:
            case Stage.OUT:
                return Step("join", who, {})
            case Stage.JOINED:
                # A cooperative leader assigns nothing that another still owns.
                withholds = {"withholds": True} if client.is_cooperative and random.random() < 0.5 else {}
                return Step("sync", who, {"salt": random.randint(0, 9), **withholds})
            case Stage.STABLE:
                draw = random.random()
                if draw < 0.45:
                    return Step("heartbeat", who, {})
                if draw < 0.65:
                    return Step("commit", who, {"offsets": self._offsets()})
                if draw < 0.8:
                    return Step("join", who, {})
                if draw < 0.9:
                    return self._offer(client)
                return Step("leave", who, {})
            case _:
                return Step("wait", who, {})

    def _next_native(self, client: Client) -> Step:
        random, who = self.random, client.number
        if client.stage is Stage.OUT:
            return Step("beat", who, {"kind": "join", "anew": random.random() < 0.5})
        draw = random.random()
        if draw < 0.25:
            return Step("beat", who, {})
        if draw < 0.6:
            return Step("beat", who, {"kind": "ack"})
        if draw < 0.65:
            return Step("beat", who, {"kind": random.choice(("part", "full", "full"))})
        if draw < 0.72:
            return Step("beat", who, {"kind": "say"})
        if draw < 0.8:
            return self._offer(client)
        if draw < 0.92:
            return Step("commit", who, {"offsets": self._offsets()})
        if draw < 0.95:
            return Step("fetch", who, {"admin": False})
        if client.instance_id is not None and draw < 0.98:
            return Step("beat", who, {"kind": "away"})
        return Step("beat", who, {"kind": "leave"})

    def _offer(self, client: Client) -> Step:
        if client.is_native and self.random.random() < self.strange:
            what = self.random.choice(("regex", "regex", "rack", "name"))
            if what == "regex":
                return Step("offer", client.number, {"regex": self.random.choice(EXPRESSIONS)})
            if what == "rack":
                return Step("offer", client.number, {"rack": self.random.choice(("rack0", "rack1"))})
            return Step("assignor", client.number, {"name": self.random.choice((None, "scripted", "other"))})
        if self.random.random() < 0.6:
            topics = sorted(self.random.sample(TOPICS, self.random.randint(1, 3)))
            return Step("offer", client.number, {"topics": topics})
        return Step("offer", client.number, {"protocols": list(self.random.choice(PROTOCOLS))})

    def _offsets(self) -> list[list[Any]]:
        random = self.random
        return [
            [random.choice(TOPICS), index, random.randint(0, 99), random.choice(("", "", "m", "m" * 21))]
            for index in random.sample(range(5), random.randint(1, 2))
        ]

    def _stray(self, client: Client) -> Step:
        """A step of a client that is late, lost, mistaken or an impostor."""
        random, who = self.random, client.number
        how: dict[str, Any] = {}
        draw = random.random()
        if draw < 0.3:
            how["delta"] = random.choice((-1, 1))
        elif draw < 0.5:
            how["id"] = random.choice(("none", "old", "unknown"))
        elif draw < 0.6:
            how["instance"] = random.choice(("i0", "i1", "stranger"))
        if client.is_native and (self.is_pure or random.random() < 0.8):
            if random.random() < 0.5:
                how["kind"] = random.choice(("join", "ack", "part", "full", "leave", "away", "say"))
            if how.get("kind") == "join":
                how.pop("instance", None)
                if random.random() < 0.2:
                    how["version"] = 0
            return Step("beat", who, how)
        op = random.choice(("join", "join", "sync", "heartbeat", "heartbeat", "commit", "leave"))
        if client.version < 5 and op == "join":
            how.pop("instance", None)
        if op == "join" and random.random() < 0.1:
            how["type"] = random.choice(("connect", ""))
        if op == "join" and client.version >= 9 and random.random() < 0.2:
            how["reason"] = random.choice(("blind", "topic_metadata_change", "because"))
        if op == "sync" and random.random() < 0.2:
            how["protocol"] = random.choice(("range", "unknown"))
        if op == "commit":
            how["offsets"] = self._offsets()
            if random.random() < 0.3:
                how["outside"] = True
            if random.random() < 0.2:
                how["version"] = 8
            if random.random() < 0.3:
                how["retention"] = random.randint(1_000, 60_000)
        if op == "leave" and random.random() < 0.6:
            peers = [other.number for other in self.clients if other.group == client.group]
            how["members"] = random.sample(peers, random.randint(1, len(peers)))
            if random.random() < 0.4:
                how["by"] = "instance"
        return Step(op, who, how)

    def _event(self, client: Client) -> Step:
        """What happens around the groups."""
        random, who = self.random, client.number
        draw = random.random()
        if draw < 0.25:
            return Step("fetch", who, {"by_id": random.random() < 0.5})
        if draw < 0.4:
            return Step("expire", who, {})
        if draw < 0.5:
            return Step("delete_offsets", who, {"index": random.randint(0, 4)})
        if draw < 0.6:
            return Step("delete_group", who, {})
        if draw < 0.75:
            count = random.choice((0, random.randint(1, 8), random.randint(1, 8)))
            return Step("topic", who, {"name": random.choice(TOPICS), "partitions": count})
        if not self.is_pure and draw > 0.9 and any(each.is_native for each in self.clients):
            return Step("turn", who, {})
        if draw < 0.85:
            cleaned = (
                {"cleaned": round(random.random(), 2), "drops": random.random() < 0.5} if random.random() < 0.6 else {}
            )
            return Step("load", who, {"swapped": random.random() < 0.5, **cleaned})
        return self._offer(client)
