"""What will happen to a group when it moves to the consumer protocol (KIP-848), from what describing it shows.

No API shows which software a member runs: it is inferred from its client id, its member id and its metadata, and each
finding marks that. Sources: docs/guide/migration.md, Kafka's upgrade notes, the clients' own documentation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from kohort.cli.doctor.findings import DoctorFinding, Severity
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.group.migration.migration_plan import Refusal
from kohort.model.cause import first_few
from kohort.wire.embedded_protocols import STREAMS_ASSIGNOR

JAVA, LIBRDKAFKA, KGO, KOHORT = "Java", "librdkafka", "franz-go", "kohort"
_BY_CLIENT_ID = (
    (re.compile(r"rdkafka(?![\w.])"), LIBRDKAFKA),
    (re.compile(r"consumer-.*-\d+"), JAVA),
    (re.compile(r"kafka-python-([\d.]+)"), "kafka-python"),
    (re.compile(r"aiokafka-([\d.]+)"), "aiokafka"),
    (re.compile(r"kgo"), KGO),
    (re.compile(r"kohort"), KOHORT),
    (re.compile(r"sarama"), "sarama"),
    (re.compile(r"kafkajs"), "kafkajs"),
)
"""The client ids that clients have where their users give none."""

_GO = re.compile(r".+@.+ \(github\.com/segmentio/kafka-go\)-")
NATIVE_VERSION = 3
"""The version of a member's metadata that Java (since 3.5) and librdkafka write, and few others do."""

WITHOUT = frozenset({"kafka-python", "aiokafka", "sarama", "kafkajs", "kafka-go"})
"""Clients that had no consumer protocol in their newest release that was read."""

_REFUSED = "session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy"
HOW = {
    JAVA: f"Java 4.0 or newer with group.protocol=consumer; it refuses {_REFUSED}: take them out, and set"
    " consumer.session.timeout.ms and consumer.heartbeat.interval.ms of the group on the broker instead",
    LIBRDKAFKA: f"librdkafka 2.12 or newer with group.protocol=consumer; it refuses {_REFUSED}: take them out",
    KGO: "franz-go has the consumer protocol behind an opt-in only: leave it classic for now",
    KOHORT: 'group_protocol="consumer", or "auto"',
}
REMOTE = {"range": "range", "roundrobin": "uniform", "sticky": "uniform", "cooperative-sticky": "uniform"}
"""By client-side assignor, the server-side one that comes nearest."""

_SLOW = re.compile(r"\)[*+{?]|\\[1-9]|\(\?")
"""What could have Python try for years: RE2 never does, and its expressions come from members."""

MOST_REPEATS = 4
"""How many repetitions an expression may have to be tried here."""

_PLAIN = re.compile(r"\^?([\w.-]*[\w-])")
"""An expression that names the beginning of topics, and nothing else."""


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """What the checks of a group read of its cluster. `release` is Kafka's, such as (4, 2); None where unknown."""

    has_consumer_protocol: bool
    topics: Collection[str]
    release: tuple[int, int] | None = None
    is_ours: bool = False


def client_of(member: MemberDescription) -> str:
    """Return what a member's client seems to be, with its version where its id has it; empty where nothing shows it."""
    for pattern, name in _BY_CLIENT_ID:
        if found := pattern.match(member.client_id):
            return f"{name} {found[1]}" if found.groups() else name
    if _GO.match(member.member_id):
        return "kafka-go"
    return ""


def check_group(
    group: GroupDescription, refusals: Iterable[Refusal], cluster: CheckedCluster
) -> Iterator[DoctorFinding]:
    """Yield the findings of one group; `refusals` are what `kohort migrate plan` finds against its move."""
    about = f"group {group.group_id}"
    if group.group_type not in ("classic", "consumer") or group.protocol_type not in ("consumer", ""):
        yield from _others(group, about)
        return
    if group.protocol == STREAMS_ASSIGNOR:
        text = "threads of Kafka Streams: they move by KIP-1071, not by KIP-848"
        fix = "group.protocol=streams, on Kafka 4.2.1 or newer: 4.2.0 has a fault in that move (KAFKA-20254)"
        yield DoctorFinding(Severity.INFO, "streams", about, text, fix)
        return
    if not group.members:
        yield DoctorFinding(Severity.INFO, "members", about, "it has no members: start them with either protocol")
        return
    found = [*_of_members(group, about), *_of_static_members(group, about, cluster), *_of_commits(about, cluster)]
    found += _of_expressions(group, about, cluster)
    fix = f"see `kohort migrate plan {group.group_id} --to consumer`"
    for each in refusals:
        if each.rule != "protocol_not_offered":  # which the cluster's own finding has
            who = f"{_names(group, each.member_ids)}: " if each.member_ids else ""
            found.append(DoctorFinding(Severity.WARNING, each.rule, about, f"it cannot move: {who}{each.text}", fix))
    if not any(each.severity is Severity.WARNING for each in found) and group.group_type == "classic":
        text = "nothing that can be seen stands against KIP-848"
        yield DoctorFinding(Severity.OK, "group", about, text, f"{fix}: it lists the restarts and their cost")
    yield from found


def _names(group: GroupDescription, member_ids: Collection[str]) -> str:
    found = sorted({each.client_id for each in group.members if each.member_id in member_ids})
    return first_few(found)


def _others(group: GroupDescription, about: str) -> Iterator[DoctorFinding]:
    if group.protocol_type == "connect":
        yield DoctorFinding(Severity.INFO, "connect", about, "workers of Kafka Connect: KIP-848 does not concern them")
    elif group.group_type == "streams":
        yield DoctorFinding(Severity.OK, "streams", about, "it has the streams protocol already (KIP-1071)")
    else:
        kind = group.protocol_type if group.group_type == "classic" else group.group_type
        yield DoctorFinding(
            Severity.INFO, "type", about, f"it is of type {kind or 'simple'}: KIP-848 does not concern it"
        )


def _of_members(group: GroupDescription, about: str) -> Iterator[DoctorFinding]:
    """Yield how the members' clients move, by what they seem to be."""
    classic = [each for each in group.members if not each.is_native]
    by_client = defaultdict[str, list[MemberDescription]](list)
    for each in classic:
        by_client[client_of(each)].append(each)
    for client, members in sorted(by_client.items()):
        who = f"{first_few(sorted({each.client_id for each in members}))} seem to be {client} (by their client ids)"
        name = client.partition(" ")[0]
        if name in WITHOUT:
            text = f"{who}, which has no consumer protocol: they stay classic members beside others that move"
            fix = "leave them, under group.consumer.migration.policy=bidirectional, or read with another client"
            yield DoctorFinding(Severity.WARNING, "client", about, text, fix)
        elif client:
            yield DoctorFinding(Severity.INFO, "client", about, who, HOW[name])
        else:
            yield _unknown_client(about, members)
    if classic and (assignor := group.protocol) and group.group_type == "classic":
        if assignor not in REMOTE:
            text = f"its assignor {assignor} runs in its members; with KIP-848 the broker assigns, and knows none such"
            fix = "name one of group.consumer.assignors as group.remote.assignor, or write a server-side one"
            yield DoctorFinding(Severity.WARNING, "assignor", about, text, fix)
        else:
            text = f"its assignor {assignor} runs in its members; with KIP-848 the broker assigns"
            fix = f"group.remote.assignor={REMOTE[assignor]} comes nearest; without it the broker's first one is taken"
            yield DoctorFinding(Severity.INFO, "assignor", about, text, fix)


def _unknown_client(about: str, members: list[MemberDescription]) -> DoctorFinding:
    versions = sorted({each.subscription.version for each in members if each.subscription is not None})
    who = f"what runs {first_few(sorted({each.client_id for each in members}))} cannot be seen: their client ids are"
    who += " their own"
    if versions and versions[0] >= NATIVE_VERSION:
        text = f"{who}; their metadata has version {versions[0]}, as Java's and librdkafka's"
        return DoctorFinding(Severity.INFO, "client", about, text, f"{HOW[JAVA]}; {HOW[LIBRDKAFKA]}")
    if not versions:
        return DoctorFinding(Severity.INFO, "client", about, who)
    text = f"{who}; their metadata has version {versions[0]}, as kafka-python's, aiokafka's and old clients' have"
    fix = "look up whether the client has the consumer protocol: Java from 4.0 on, librdkafka from 2.12 on"
    return DoctorFinding(Severity.WARNING, "client", about, text, fix)


def _of_static_members(group: GroupDescription, about: str, cluster: CheckedCluster) -> Iterator[DoctorFinding]:
    static = sorted(each.instance_id for each in group.members if each.instance_id is not None)
    if not static:
        return
    text = f"{first_few(static)} {'is a static member' if len(static) == 1 else 'are static members'}: one that is"
    text += " killed, and not closed, is refused with UNRELEASED_INSTANCE_ID until its session ends"
    fix = "close consumers on SIGTERM, and restart them more than once; the session timeout is the broker's then"
    severity = Severity.INFO if cluster.is_ours else Severity.WARNING
    yield DoctorFinding(severity, "static_members", about, text, fix)


def _of_commits(about: str, cluster: CheckedCluster) -> Iterator[DoctorFinding]:
    """Yield what the release of the brokers does with members of the consumer protocol."""
    release = cluster.release
    if release is None or not cluster.has_consumer_protocol or cluster.is_ours:
        return
    name = f"Kafka {release[0]}.{release[1]}"
    if release < (4, 3):
        text = (
            f"{name} refuses a commit with an older member epoch (STALE_MEMBER_EPOCH), as is sent around each rebalance"
        )
        fix = (
            "Kafka 4.3 takes it while the member owns the partition (KIP-1251); until then catch the error of a commit"
        )
        yield DoctorFinding(Severity.WARNING, "commits", about, text, f"{fix} and continue with poll")
    if release < (4, 2):
        text = f"{name} fences a member that repeats its join, as after a lost answer (KAFKA-19233)"
        yield DoctorFinding(Severity.WARNING, "repeated_joins", about, text, "upgrade the brokers to 4.2 or newer")


def _of_expressions(group: GroupDescription, about: str, cluster: CheckedCluster) -> Iterator[DoctorFinding]:
    """Yield which expressions RE2 reads otherwise: brokers match whole names, librdkafka matched their beginnings."""
    for regex in sorted({each.regex for each in group.members if each.regex}):
        try:
            if _SLOW.search(regex) or sum(map(regex.count, "*+{")) > MOST_REPEATS:
                raise re.error("it is not tried")
            begins = {topic for topic in cluster.topics if re.match(regex, topic)}
            whole = {topic for topic in cluster.topics if re.fullmatch(regex, topic)}
        except re.error:
            text = f"the broker matches {regex!r} with whole names (RE2); which ones those are is not looked up here"
            yield DoctorFinding(Severity.INFO, "expression", about, text)
            continue
        if begins == whole:
            continue
        text = f"{regex!r} matches whole names (RE2): {_topics(whole)}; it does not match {_topics(begins - whole)}"
        fix = f"write {_longer(regex)!r} if those are meant: classic clients take an expression for a beginning"
        yield DoctorFinding(Severity.WARNING, "expression", about, text, fix)
    if group.group_type != "classic":
        return
    topics = {topic for each in group.members for topic in each.topics}
    shared = _shared_beginning(topics)
    clients = {client_of(each) for each in group.members}
    if len(topics) > 1 and shared and clients & {LIBRDKAFKA, ""}:
        text = (
            f"its {len(topics)} topics begin with {shared!r}: if it subscribes to '^{shared}', as librdkafka's clients"
        )
        text += " may, with KIP-848 the broker matches whole names (RE2), and finds none of them"
        yield DoctorFinding(Severity.INFO, "expression", about, text, f"write '^{shared}.*'")


def _longer(regex: str) -> str:
    return f"{regex}.*" if _PLAIN.fullmatch(regex) else f"(?:{regex}).*"


def _topics(topics: Collection[str]) -> str:
    return first_few(sorted(topics)) if topics else "none"


def _shared_beginning(topics: Collection[str]) -> str:
    """Return what the names of topics begin with together, if that is more than two characters."""
    if not topics:
        return ""
    first, last = min(topics), max(topics)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    beginning = first[:length].rstrip(".-_")
    return beginning if len(beginning) > 2 else ""
