"""Groups of our members, Java's and kafka-python's, led by each: bytes in, bytes out, by their own classes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest
from tests.unit.assign.groups import partitions

from interop import jars
from kohort.assign import Assignor, CooperativeStickyAssignor, GroupSpec, MemberSpec, StickyAssignor, TopicSpec
from kohort.assign.cooperative import broken_rules
from kohort.assign.quality import measure
from kohort.assign.user_data import decode_generation, decode_sticky, encode_generation, encode_sticky
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription, encode_subscription

STICKY, COOPERATIVE = "sticky", "cooperative-sticky"
MADE: dict[str, type[Assignor]] = {STICKY: StickyAssignor, COOPERATIVE: CooperativeStickyAssignor}


Topics = Mapping[str, int | list[str]]
"""Topics by name: how many partitions, or the rack of each."""


def _racks(topic: int | list[str]) -> list[str]:
    return ["-"] * topic if isinstance(topic, int) else topic


class Java:
    """Kafka's assignors in a JVM, as members and as leaders."""

    def __init__(self) -> None:
        line = jars.command("AssignorPeer", classes=jars.compiled("AssignorPeer"))
        self.child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> str:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().strip()

    def member(self, assignor: str, topics: str, generation: int = 0, owned: str = "") -> bytes:
        """Return the subscription of a member that was assigned `owned` in a generation, or never anything."""
        return bytes.fromhex(self.ask(f"member {assignor} {topics} {generation} {','.join(owned.split())}"))

    def assigned(self, assignor: str, topics: Topics, members: Mapping[str, bytes]) -> dict[str, Assignment]:
        """Return what Java's assignor gives the members with these subscriptions."""
        counts = ",".join(f"{topic}={'/'.join(_racks(each))}" for topic, each in topics.items())
        blobs = " ".join(f"{name}={blob.hex()}" for name, blob in members.items())
        answer = self.ask(f"leader {assignor} {counts} {blobs}")
        pairs = (each.partition("=") for each in answer.split())
        return {name: decode_assignment(bytes.fromhex(blob)) for name, _, blob in pairs}


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    peer = Java()
    yield peer
    peer.child.kill()
    peer.child.wait()


def our_member(
    assignor: str, topics: str, generation: int = 0, owned: str = "", version: int = 3, rack: str | None = None
) -> bytes:
    """Return the subscription of a member of ours, as `Java.member` does."""
    ours = MADE[assignor]()
    held = partitions(owned)
    if generation:
        ours.on_assignment(Assignment(frozenset(held)), generation)
    number = generation or -1
    user_data = ours.user_data(topics.split(","), frozenset(held), number)
    shown = () if assignor == STICKY else held
    return encode_subscription(Subscription(tuple(topics.split(",")), user_data, shown, number, rack, version))


def spec(topics: Topics, members: Mapping[str, bytes]) -> GroupSpec:
    read = {name: MemberSpec(decode_subscription(blob)) for name, blob in members.items()}
    racks = {topic: tuple(frozenset({rack} - {"-"}) for rack in _racks(each)) for topic, each in topics.items()}
    return GroupSpec(read, {topic: TopicSpec(len(each), each) for topic, each in racks.items()})


def our_assigned(assignor: str, topics: Topics, members: Mapping[str, bytes]) -> dict[str, Assignment]:
    return MADE[assignor]().assign(spec(topics, members))


def texts(assignments: Mapping[str, Assignment]) -> dict[str, str]:
    return {name: " ".join(map(str, sorted(each.partitions))) for name, each in sorted(assignments.items())}


class TestJava:
    def test_sticky_user_data_is_the_same_to_the_byte(self, java: Java) -> None:
        theirs = decode_subscription(java.member(STICKY, "t", 7, "t-0 t-2"))
        assert theirs.user_data == encode_sticky(partitions("t-0 t-2"), 7)
        assert decode_subscription(java.member(STICKY, "t")).user_data is None

    def test_sticky_user_data_of_several_topics_is_the_same_in_any_order(self, java: Java) -> None:
        theirs = decode_sticky(decode_subscription(java.member(STICKY, "t,u,v", 7, "t-0 v-1 u-3")).user_data)
        assert (set(theirs.partitions), theirs.generation) == (set(partitions("t-0 u-3 v-1")), 7)

    def test_cooperative_sticky_user_data_is_the_same_to_the_byte_up_to_our_mark(self, java: Java) -> None:
        for generation in (0, 5):
            theirs = decode_subscription(java.member(COOPERATIVE, "t", generation, "t-0" if generation else ""))
            assert theirs.user_data == encode_generation(generation or -1)
            ours = decode_subscription(our_member(COOPERATIVE, "t", generation, "t-0" if generation else ""))
            assert ours.user_data is not None
            assert ours.user_data[:4] == theirs.user_data
            assert (ours.owned, ours.generation) == (theirs.owned, theirs.generation)

    @pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE])
    def test_either_leader_keeps_what_members_of_both_kinds_own(self, java: Java, assignor: str) -> None:
        topics = {"t": 4, "u": 4}
        members = {
            "java": java.member(assignor, "t,u", 3, "t-1 u-0 u-3"),
            "new": java.member(assignor, "t,u"),
            "ours": our_member(assignor, "t,u", 3, "t-0 t-3 u-2"),
        }
        expected = {"java": "t-1 u-0 u-3", "new": "t-2 u-1", "ours": "t-0 t-3 u-2"}
        assert texts(java.assigned(assignor, topics, members)) == expected
        assert texts(our_assigned(assignor, topics, members)) == expected

    @pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE])
    def test_either_leader_believes_the_higher_generation(self, java: Java, assignor: str) -> None:
        members = {
            "java": java.member(assignor, "t", 4, "t-0 t-1"),
            "ours": our_member(assignor, "t", 5, "t-0 t-1"),
        }
        found = our_assigned(assignor, {"t": 4}, members)
        assert texts(found) == {"java": "t-2 t-3", "ours": "t-0 t-1"}
        # Java's sticky compares with the generation field of the other claimant's subscription, which is there.
        assert texts(java.assigned(assignor, {"t": 4}, members)) == texts(found)

    def test_java_reads_the_generation_in_front_of_our_mark(self, java: Java) -> None:
        # Version 1 of the subscription has no generation, so that of the user data counts.
        members = {
            "java": java.member(COOPERATIVE, "t", 4, "t-0 t-1"),
            "ours": our_member(COOPERATIVE, "t", 5, "t-0 t-1", version=1),
        }
        assert decode_subscription(members["ours"]).generation == -1
        assert decode_generation(decode_subscription(members["ours"]).user_data) == 5
        expected = {"java": "t-2 t-3", "ours": "t-0 t-1"}
        assert texts(java.assigned(COOPERATIVE, {"t": 4}, members)) == expected
        assert texts(our_assigned(COOPERATIVE, {"t": 4}, members)) == expected

    @pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE])
    @pytest.mark.parametrize("seed", range(20))
    def test_ours_is_never_less_even_and_as_even_never_moves_more(self, java: Java, assignor: str, seed: int) -> None:
        random = Random(seed)
        topics, members = random_group(java, random, assignor, is_mixed=seed % 2 == 1)
        owned = {name: owned_by(assignor, blob) for name, blob in members.items()}
        group = spec(topics, members)
        ours = our_assigned(assignor, topics, members)
        theirs = java.assigned(assignor, topics, members)
        mine, other = measure(group, ours, owned=owned), measure(group, theirs, owned=owned)
        assert mine.faults == other.faults == ()
        if assignor == COOPERATIVE:
            assert broken_rules(group, ours) == ()
        else:
            assert mine.score <= other.score
            assert mine.is_balanced
            if mine.score == other.score:
                assert mine.moved <= other.moved

    @pytest.mark.parametrize("seed", range(20))
    def test_where_racks_matter_ours_is_as_even_and_nearer(self, java: Java, seed: int) -> None:
        random = Random(seed)
        racks = ["r1", "r2", "r3"]
        topics: dict[str, int | list[str]] = {
            f"t{number}": [random.choice(racks) for _ in range(random.randint(1, 8))] for number in range(4)
        }
        members = {
            f"m{number}": our_member(STICKY, ",".join(topics), rack=random.choice(racks))
            for number in range(random.randint(2, 6))
        }
        group = spec(topics, members)
        ours = measure(group, our_assigned(STICKY, topics, members))
        theirs = measure(group, java.assigned(STICKY, topics, members))
        assert ours.is_valid
        assert ours.score == theirs.score
        assert ours.near >= theirs.near


def owned_by(assignor: str, blob: bytes) -> frozenset[TopicPartition]:
    member = decode_subscription(blob)
    return frozenset(decode_sticky(member.user_data).partitions if assignor == STICKY else member.owned)


def random_group(
    java: Java, random: Random, assignor: str, *, is_mixed: bool
) -> tuple[dict[str, int], dict[str, bytes]]:
    topics = {f"t{number}": random.randint(1, 8) for number in range(random.randint(1, 6))}
    names = [f"m{number}" for number in range(random.randint(2, 8))]
    held: dict[str, list[str]] = {name: [] for name in names}
    wanted = {name: random.sample(sorted(topics), random.randint(1, len(topics))) for name in names}
    if not is_mixed:
        wanted = dict.fromkeys(names, sorted(topics))
    for topic, count in topics.items():
        for number in range(count):
            if owners := [name for name in names if topic in wanted[name] and random.random() < 0.4]:
                held[random.choice(owners)].append(f"{topic}-{number}")
    made = [our_member, java.member]
    return topics, {
        name: random.choice(made)(assignor, ",".join(wanted[name]), 2 if mine else 0, " ".join(mine))
        for name, mine in held.items()
    }


class TestKafkaPython:
    """kafka-python 3 writes its sticky user data behind a version number, and none for cooperative-sticky."""

    def test_we_read_its_sticky_members(self) -> None:
        sticky = pytest.importorskip("kafka.coordinator.assignors.sticky.sticky_assignor").StickyPartitionAssignor
        held = [_theirs(partition) for partition in partitions("t-0 u-1")]
        ours = decode_subscription(sticky._metadata(["t", "u"], held, 4).encode())
        assert decode_sticky(ours.user_data) == (partitions("t-0 u-1"), 4)
        assert decode_sticky(decode_subscription(sticky._metadata(["t"], None).encode()).user_data).partitions == ()

    def test_we_read_its_cooperative_members(self) -> None:
        theirs = _cooperative(partitions("t-0 t-1"))
        members = {"theirs": theirs.metadata(["t"]).encode(), "ours": our_member(COOPERATIVE, "t", 3, "t-2")}
        assert decode_subscription(members["theirs"]).owned == partitions("t-0 t-1")
        assert texts(our_assigned(COOPERATIVE, {"t": 4}, members)) == {"ours": "t-2 t-3", "theirs": "t-0 t-1"}

    def test_it_reads_ours_and_may_lead(self) -> None:
        members = {
            "theirs": _cooperative(partitions("t-0 t-1")).metadata(["t"]).encode(),
            "ours": our_member(COOPERATIVE, "t", 3, "t-2"),
        }
        found = _cooperative(()).assign(_Cluster({"t": 4}), [_Joined(name, blob) for name, blob in members.items()])
        given = {name: decode_assignment(assignment.encode()) for name, assignment in found.items()}
        assert texts(given) == {"ours": "t-2 t-3", "theirs": "t-0 t-1"}


def _theirs(partition: TopicPartition) -> Any:
    from kafka.structs import TopicPartition as Theirs

    return Theirs(*partition)


def _cooperative(owned: tuple[TopicPartition, ...]) -> Any:
    module = pytest.importorskip("kafka.coordinator.assignors.cooperative_sticky")
    assignor = module.CooperativeStickyAssignor()
    assignor.member_assignment = [_theirs(partition) for partition in owned] or None
    return assignor


class _Cluster:
    """What kafka-python's assignors ask of a cluster."""

    def __init__(self, topics: dict[str, int]) -> None:
        self._topics = topics

    def topics(self) -> set[str]:
        return set(self._topics)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self._topics[topic]))


class _Joined:
    """A member as kafka-python's leader is given it."""

    def __init__(self, member_id: str, blob: bytes) -> None:
        from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

        self.member_id = member_id
        self.metadata = ConsumerProtocolSubscription.decode(blob)
