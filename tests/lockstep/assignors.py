"""Kafka's assignors and ours on the same random groups.

Where Kafka's result is a function of the group (range, round robin) ours is the same to the last partition. The sticky
ones leave ties to hash maps, so they are compared by what they are for: valid, never less even, and as even not moving
more: in no group whose members subscribe alike, and on the whole where they do not. A cooperative round is judged by
what its group has when it is settled.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random

from interop.java_lines import JavaLines
from tests.lockstep.apache import text

from kohort.assign import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    TopicSpec,
)
from kohort.assign.cooperative import broken_rules
from kohort.assign.quality import measure
from kohort.assign.server.catalog import server_assignors
from kohort.assign.server.spec import ServerGroup, ServerMember, ServerTopic
from kohort.assign.user_data import encode_generation, encode_sticky
from kohort.model.assignment import Assignment, each, id_partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

CLIENT: dict[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "sticky": StickyAssignor(),
    "cooperative-sticky": CooperativeStickyAssignor(),
}
SERVER = ("uniform", "server-range")
NAMES = (*CLIENT, *SERVER)
EXACT = ("range", "roundrobin", "server-range")
"""Those of which both sides must give the same."""

STICKY = ("sticky", "uniform")
"""Those that keep what members have where that costs no balance."""

MOST_ROUNDS = 4
"""After how many rounds a cooperative group is settled; nearly always two."""

Assignments = dict[str, Assignment]

ROUNDS = 10
"""How often a random group changes and is assigned anew."""


class Java:
    """Kafka's assignors in a process of their own."""

    def __init__(self) -> None:
        self._lines = JavaLines("LockstepAssignors")

    def close(self) -> None:
        """End the process."""
        self._lines.close()

    def assign(self, name: str, spec: GroupSpec) -> Assignments:
        """Return what Kafka's assignor gives."""
        members = {
            member_id: {
                "topics": list(member.subscription.topics),
                "owned": [] if name == "sticky" else [list(partition) for partition in member.subscription.owned],
                "generation": member.subscription.generation,
                "instance": member.instance_id,
                "data": None if member.subscription.user_data is None else text(member.subscription.user_data),
            }
            for member_id, member in spec.members.items()
        }
        topics = {topic: each_.partitions for topic, each_ in spec.topics.items()}
        given = json.loads(self._lines.ask(json.dumps({"assignor": name, "topics": topics, "members": members})))
        return {
            member_id: Assignment(frozenset(TopicPartition(*pair) for pair in given.get(member_id, ())))
            for member_id in spec.members
        }


def our_assigned(name: str, spec: GroupSpec) -> Assignments:
    """Return what our assignor gives."""
    if name in CLIENT:
        return CLIENT[name].assign(spec)
    ids = {topic: (0x1000 << 64 | number + 1).to_bytes(16) for number, topic in enumerate(sorted(spec.topics))}
    names = {topic_id: topic for topic, topic_id in ids.items()}
    members = {
        member_id: ServerMember(
            frozenset(ids[topic] for topic in member.subscription.topics),
            id_partitions((ids[topic], (number,)) for topic, number in member.subscription.owned),
            member.instance_id,
        )
        for member_id, member in sorted(spec.members.items())
    }
    topics = {
        ids[topic]: ServerTopic(topic, spec.topics[topic].partitions) for topic in sorted(ids, key=ids.__getitem__)
    }
    group = ServerGroup(members, topics, len({member.topics for member in members.values()}) == 1)
    plain = name.removeprefix("server-")
    given = server_assignors([plain])[plain].assign(group)
    return {
        member_id: Assignment(frozenset(TopicPartition(names[topic], number) for topic, number in each(held)))
        for member_id, held in given.items()
    }


# -- random groups


def groups(random: Random, name: str) -> Iterator[GroupSpec]:
    """Yield a group again and again, each time as it is after an assignment and a change of members or topics."""
    topics = {f"t{number}": TopicSpec(random.randint(1, 9)) for number in range(random.randint(1, 6))}
    is_mixed = random.random() < 0.5
    members: dict[str, MemberSpec] = {}
    made = generation = 0
    # A coordinator's last target never gives a partition twice; what clients say may be old.
    stale = 0.05 if name in CLIENT else 0.0
    while True:
        for _ in range(random.randint(0 if members else 1, 3)):
            made += 1
            wanted = random.sample(sorted(topics), random.randint(1, len(topics))) if is_mixed else sorted(topics)
            instance_id = f"i{made}" if random.random() < 0.3 else None
            members[f"m{random.randint(0, 99):02}-{made}"] = MemberSpec(Subscription(tuple(wanted)), instance_id)
        while len(members) > 1 and random.random() < 0.3:
            del members[random.choice(sorted(members))]
        if random.random() < 0.2:
            topic = random.choice(sorted(topics))
            topics[topic] = TopicSpec(topics[topic].partitions + random.randint(1, 4))
        subscribed = {topic for member in members.values() for topic in member.subscription.topics}
        spec = GroupSpec(dict(members), {topic: topics[topic] for topic in sorted(subscribed)})
        yield spec
        generation += 1
        given = our_assigned(name, spec)
        for member_id, member in members.items():
            members[member_id] = _having(name, member, given[member_id], generation, is_stale=random.random() < stale)


def _having(name: str, member: MemberSpec, given: Assignment, generation: int, *, is_stale: bool) -> MemberSpec:
    """Return a member as it joins after an assignment; a stale one missed it, and says what it had before."""
    if is_stale:
        return member
    owned = tuple(sorted(given.partitions))
    data = None
    if name == "sticky":
        data = encode_sticky(owned, generation)
    elif name == "cooperative-sticky":
        data = encode_generation(generation)
    subscription = replace(member.subscription, user_data=data, owned=owned, generation=generation)
    return replace(member, subscription=subscription)


# -- judging


@dataclass
class Comparison:
    """What was found on many groups.

    `moves` counts, by assignor, the partitions that ours and Kafka's move in groups of mixed subscriptions where both
    are as even, and how often which moves fewer. `worse` says what ours may never be.
    """

    groups: Counter[str] = field(default_factory=Counter)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    worse: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many groups there were."""
        return self.groups.total()

    def verdicts(self) -> list[str]:
        """Return what is worse than Kafka's: on one group, and on the whole."""
        on_the_whole = [
            f"{name}: moves {ours:,} partitions where Kafka's moves {theirs:,}"
            for name in STICKY
            if (ours := self.moves[name, "ours"]) > (theirs := self.moves[name, "theirs"])
        ]
        return self.worse + on_the_whole

    def lines(self) -> Iterator[str]:
        """Yield what to print."""
        for name, count in sorted(self.groups.items()):
            outcome = "the same to the last partition" if name in EXACT else "valid, and never less even"
            if name in STICKY:
                ours, theirs, fewer, more = (self.moves[name, each_] for each_ in ("ours", "theirs", "fewer", "more"))
                outcome += f"; of mixed subscriptions it moved {ours:,} where Kafka's moved {theirs:,}"
                outcome += f", fewer in {fewer} groups and more in {more}"
            yield f"{count:9,}  {name}: {outcome}"


def judge(java: Java, name: str, spec: GroupSpec, found: Comparison) -> str | None:
    """Return what is wrong with our assignment of a group beside Kafka's, or None."""
    ours, theirs = our_assigned(name, spec), java.assign(name, spec)
    if name in EXACT:
        return None if ours == theirs else f"not the same: {_shown(ours)} where Kafka's has {_shown(theirs)}"
    if name not in STICKY:
        if broken := broken_rules(spec, ours):
            return f"it breaks {broken}"
        settled = [_settled(spec, ours, our_assigned), _settled(spec, theirs, java.assign)]
        if None in settled:
            return f"not settled after {MOST_ROUNDS} rounds"
        ours, theirs = settled  # type: ignore[assignment]
    mine, other = measure(spec, ours), measure(spec, theirs)
    if mine.faults or mine.unassigned:
        return f"not valid: {mine.faults} {sorted(mine.unassigned)}"
    if mine.score > other.score:
        return f"less even: {mine.score} where Kafka's has {other.score}"
    if name in STICKY and mine.score == other.score:
        if len({frozenset(member.subscription.topics) for member in spec.members.values()}) == 1:
            return None if mine.moved <= other.moved else f"moves {mine.moved} where Kafka's moves {other.moved}"
        found.moves[name, "ours"] += mine.moved
        found.moves[name, "theirs"] += other.moved
        if mine.moved != other.moved:
            found.moves[name, "fewer" if mine.moved < other.moved else "more"] += 1
    return None


def _settled(
    spec: GroupSpec, given: Assignments, assign: Callable[[str, GroupSpec], Assignments]
) -> Assignments | None:
    """Return what the members of a cooperative group have in the end, None if it does not end."""
    for _ in range(MOST_ROUNDS):
        spec = _after(spec, given)
        following = assign("cooperative-sticky", spec)
        if following == given:
            return given
        given = following
    return None


def _after(spec: GroupSpec, given: Assignments) -> GroupSpec:
    """Return the group as it joins again after a cooperative round."""
    generation = 1 + max(member.subscription.generation for member in spec.members.values())
    members = {
        member_id: _having("cooperative-sticky", member, given[member_id], generation, is_stale=False)
        for member_id, member in spec.members.items()
    }
    return GroupSpec(members, spec.topics)


def _shown(given: Mapping[str, Assignment]) -> str:
    return "; ".join(f"{name}: {' '.join(map(str, sorted(has.partitions)))}" for name, has in sorted(given.items()))


def compare(java: Java, count: int, first: int = 0) -> Comparison:
    """Compare on `count` groups, the assignors in turn."""
    found = Comparison()
    for number in range(first, first + count // ROUNDS):
        name = NAMES[number % len(NAMES)]
        for spec in islice(groups(Random(f"assignors {number}"), name), ROUNDS):
            found.groups[name] += 1
            wrong = judge(java, name, spec, found)
            if wrong is not None:
                found.worse.append(f"{name}, seed {number}, {len(spec.members)} members: {wrong}")
    return found
