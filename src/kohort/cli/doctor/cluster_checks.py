"""What a cluster offers, and whether clients reach it: versions, features, advertised listeners, clocks, groups."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from kohort.assign.server.catalog import server_assignors
from kohort.cli.cluster import admin_of, sentence_of
from kohort.cli.doctor.findings import DoctorFinding, Severity
from kohort.cli.doctor.group_checks import CheckedCluster, check_group
from kohort.cli.group_state.live_group import coordinator_settings, group_limits, live_group
from kohort.group.migration.migration_plan import Goal, refusals
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.apis import Api

if TYPE_CHECKING:
    from kohort.client import Admin, Cluster
    from kohort.client.admin.group_descriptions import GroupListing
    from kohort.client.cluster.metadata import Broker
    from kohort.net.api_versions import BrokerVersions

MOST_GROUPS = 1_000
"""How many groups are described; a finding counts those that are left out."""

AT_ONCE = 8
"""How many groups are described at the same time."""

SKEW_MS = 5_000
"""Clocks that differ by no more count as the same."""

OFFSETS_TOPIC = "__consumer_offsets"

RELEASES = {7: (3, 3), 8: (3, 4), 11: (3, 5), 14: (3, 6), 19: (3, 7), 20: (3, 8), 21: (3, 9), 25: (4, 0), 27: (4, 1)}
RELEASES |= {29: (4, 2), 30: (4, 3), 33: (4, 4)}
"""By the newest level of `metadata.version` that a broker supports, the release of Apache Kafka."""

PROTOCOLS = (
    ("classic groups", Api.JOIN_GROUP, "", "every Kafka has them"),
    ("consumer groups (KIP-848)", Api.CONSUMER_GROUP_HEARTBEAT, "group.version", "Kafka 4.0 or newer, group.version=1"),
    ("share groups (KIP-932)", Api.SHARE_GROUP_HEARTBEAT, "share.version", "Kafka 4.2 or newer, share.version=1"),
    (
        "streams groups (KIP-1071)",
        Api.STREAMS_GROUP_HEARTBEAT,
        "streams.version",
        "Kafka 4.2 or newer, streams.version=1",
    ),
)
"""Protocols of groups: the API that only they have, the feature that turns them on, and what has them."""

_LOOPBACK = ("localhost", "127.", "::1", "[::1]")


def release_of(versions: BrokerVersions) -> tuple[int, int] | None:
    """Return the release of Apache Kafka that a broker seems to be, by the metadata that it supports."""
    level = versions.highest("metadata.version")
    return next((release for newest, release in sorted(RELEASES.items()) if level <= newest), None) if level else None


async def check_cluster(args: Namespace) -> AsyncIterator[DoctorFinding]:
    """Yield the findings of the cluster that the options name."""
    about = f"cluster {args.bootstrap_server}"
    async with admin_of(args) as admin, _cluster_of(args) as cluster:
        view = await admin.describe_cluster()
        shown = f"{len(view.brokers)} broker{'s' * (len(view.brokers) != 1)}"
        yield DoctorFinding(Severity.OK, "cluster", about, f"it answers: cluster id {view.cluster_id}, {shown}")
        found: dict[int, BrokerVersions] = {}
        for node_id, broker in sorted(view.brokers.items()):
            finding, versions = await _broker(cluster, broker, args.bootstrap_server)
            yield finding
            if versions is not None:
                found[node_id] = versions
        if not found:
            return
        versions = next(iter(found.values()))
        for each in _features(about, found):
            yield each
        for finding in await _clock(admin, about):
            yield finding
        if len(found) < len(view.brokers):
            text = "groups are not looked at: a broker that is not reached may coordinate them"
            yield DoctorFinding(Severity.INFO, "groups", about, text)
            return
        topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in await admin.list_topics()}
        facts = CheckedCluster(
            _has_consumer_protocol(versions),
            [name for name in topics if not name.startswith("__")],
            release_of(versions),
            versions.has_feature("kohort.group"),
        )
        async for finding in _groups(admin, about, facts, topics):
            yield finding


def _cluster_of(args: Namespace) -> Cluster:
    from kohort.cli.cluster import START_TIMEOUT_MS
    from kohort.client import Cluster

    return Cluster(args.bootstrap_server, start_timeout_ms=START_TIMEOUT_MS, connect_timeout_ms=3_000, **args.security)


async def _broker(cluster: Cluster, broker: Broker, bootstrap: str) -> tuple[DoctorFinding, BrokerVersions | None]:
    """Connect to a broker as it advertises itself."""
    about = f"broker {broker.node_id}"
    fix = f"set advertised.listeners of broker {broker.node_id} to a name and port that clients resolve and reach"
    try:
        versions = (await cluster.pool.connection(broker)).versions
    except KafkaError as error:
        return DoctorFinding(Severity.ERROR, "advertised", about, error.text, fix), None
    if broker.host.startswith(_LOOPBACK) and not bootstrap.startswith(_LOOPBACK):
        text = f"it advertises {broker.address}, which each machine takes for itself"
        return DoctorFinding(Severity.ERROR, "advertised", about, text, fix), versions
    return DoctorFinding(
        Severity.OK, "advertised", about, f"it is reached at {broker.address}, as it advertises"
    ), versions


def _has_consumer_protocol(versions: BrokerVersions) -> bool:
    return versions.supports(Api.CONSUMER_GROUP_HEARTBEAT) and versions.is_enabled("group.version")


def _features(about: str, found: dict[int, BrokerVersions]) -> Iterator[DoctorFinding]:
    versions = next(iter(found.values()))
    if versions.has_feature("kohort.group"):
        yield DoctorFinding(Severity.INFO, "release", about, "a broker of kohort")
    elif (release := release_of(versions)) is not None:
        text = f"Apache Kafka {release[0]}.{release[1]}, by the metadata.version that it supports"
        yield DoctorFinding(Severity.INFO, "release", about, text)
    else:
        text = "its release cannot be seen: it shows no metadata.version that is known here"
        yield DoctorFinding(Severity.INFO, "release", about, text)
    if len({release_of(each) for each in found.values()}) > 1:
        releases = ", ".join(f"broker {node_id}: {release_of(each)}" for node_id, each in found.items())
        fix = "finish the upgrade: groups have what their coordinator's release has"
        yield DoctorFinding(
            Severity.WARNING, "release", about, f"its brokers are of several releases ({releases})", fix
        )
    for name, api, feature, needs in PROTOCOLS:
        has_api = versions.supports(api)
        if has_api and (not feature or versions.is_enabled(feature) or versions.has_feature("kohort.group")):
            level = f"; {feature} is {versions.level(feature)}" if feature else ""
            yield DoctorFinding(Severity.OK, "protocol", about, f"it has {name}: versions {versions.span(api)}{level}")
        elif has_api and versions.highest(feature) > 0:
            fix = f"kafka-features.sh upgrade --feature {feature}=1, when all brokers are of this release"
            yield DoctorFinding(Severity.INFO, "protocol", about, f"{name} are off: {feature} is 0", fix)
        else:
            yield DoctorFinding(Severity.INFO, "protocol", about, f"it has no {name}", f"they need {needs}")


async def _clock(admin: Admin, about: str) -> list[DoctorFinding]:
    """Compare clocks by what brokers write: no request of Kafka's protocol shows a broker's clock."""
    untold = "a broker's clock that is behind cannot be seen by Kafka's protocol"
    try:
        topics = await admin.describe_topics([OFFSETS_TOPIC])
        wanted = {TopicPartition(OFFSETS_TOPIC, each): "max-timestamp" for each in topics[OFFSETS_TOPIC].partitions}
        found = await admin.list_offsets(wanted)
    except KafkaError as error:
        text = f"clocks cannot be compared, since no committed offset shows a broker's: {error.text}"
        return [DoctorFinding(Severity.INFO, "clock", about, text)]
    newest_ms = max((each.timestamp_ms for each in found.values() if each is not None), default=-1)
    ahead_ms = newest_ms - time.time_ns() // 1_000_000
    if ahead_ms > SKEW_MS:
        text = f"a broker wrote an offset {ahead_ms / 1000:,.0f} s after this machine's present time"
        return [
            DoctorFinding(
                Severity.ERROR, "clock", about, text, "set both clocks by NTP: retention and lag count by them"
            )
        ]
    if newest_ms < 0:
        return [
            DoctorFinding(
                Severity.INFO, "clock", about, f"no group has committed, so no broker's clock shows; {untold}"
            )
        ]
    return [DoctorFinding(Severity.OK, "clock", about, f"no broker's clock is ahead of this machine's; {untold}")]


# -- groups


async def _groups(
    admin: Admin, about: str, facts: CheckedCluster, topics: dict[str, tuple[bytes, int]]
) -> AsyncIterator[DoctorFinding]:
    listed = await admin.list_groups()
    if len(listed) > MOST_GROUPS:
        text = f"{len(listed) - MOST_GROUPS:,} of {len(listed):,} groups are left out"
        yield DoctorFinding(
            Severity.INFO, "groups", about, text, "`kohort migrate plan GROUP --to consumer` checks one"
        )
    elif not listed:
        yield DoctorFinding(Severity.INFO, "groups", about, "it has no groups")
    slots, settings = asyncio.Semaphore(AT_ONCE), dict[int, dict[str, str]]()

    async def checked(each: GroupListing) -> list[DoctorFinding]:
        async with slots:
            try:
                return await _group(admin, each, facts, topics, settings)
            except KafkaError as error:
                if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                    return []  # it is gone
                text = f"it cannot be described: {sentence_of(error, 'its coordinator')}"
                return [DoctorFinding(Severity.WARNING, "group", f"group {each.group_id}", text)]

    for findings in await asyncio.gather(*map(checked, listed[:MOST_GROUPS])):
        for finding in findings:
            yield finding


async def _group(
    admin: Admin,
    listed: GroupListing,
    facts: CheckedCluster,
    topics: dict[str, tuple[bytes, int]],
    settings: dict[int, dict[str, str]],
) -> list[DoctorFinding]:
    about = f"group {listed.group_id}"
    if listed.group_type.lower() not in ("", "classic", "consumer"):
        text = f"it is a {listed.group_type.lower()} group: KIP-848 does not concern it"
        return [DoctorFinding(Severity.INFO, "type", about, text)]
    described = (await admin.describe_groups([listed.group_id]))[listed.group_id]
    node_id = (await admin.group_coordinator(listed.group_id)).node_id
    if node_id not in settings:
        settings[node_id] = await coordinator_settings(admin, listed.group_id)
    limits = group_limits(
        settings[node_id], server_assignors(["uniform"])["uniform"], has_consumer_protocol=facts.has_consumer_protocol
    )
    against = (
        refusals(live_group(described, topics, limits, {}), limits, Goal.CONSUMER, "range") if described.members else ()
    )
    return list(check_group(described, against, facts))
