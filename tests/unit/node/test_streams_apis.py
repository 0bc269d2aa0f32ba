"""StreamsGroupHeartbeat and StreamsGroupDescribe on the wire, and what other APIs show of streams groups."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.desk import Desk
from tests.unit.node.groups.test_coordinator import events

from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, chain, sentence
from kohort.group.explain.rebalance_report import GroupReport
from kohort.model.errors import ErrorCode
from kohort.model.setting import SettingsError
from kohort.wire.messages import (
    ApiVersionsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
)

_Sub = StreamsGroupHeartbeatRequest.Topology.Subtopology
_Upload = StreamsGroupTopologyDescriptionUpdateRequest
_Node = _Upload.TopologyDescription.DescribedSubtopology.Node
_Store = _Upload.TopologyDescription.GlobalStore
_Offset = StreamsGroupHeartbeatRequest.TaskOffset
_End = StreamsGroupHeartbeatRequest.TaskEndOffset
DELAY_MS = 3_000
VERSIONS = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
TOPOLOGY = StreamsGroupHeartbeatRequest.Topology(
    epoch=0,
    subtopologies=[
        _Sub(
            subtopology_id="0",
            source_topics=["words"],
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=["g-repartition"],
            repartition_source_topics=[],
            copartition_groups=[],
        ),
        _Sub(
            subtopology_id="1",
            source_topics=[],
            source_topic_regex=[],
            state_changelog_topics=[
                _Sub.ChangelogTopic(
                    name="g-changelog",
                    topic_configs=[_Sub.ChangelogTopic.TopicConfig(key="cleanup.policy", value="compact")],
                )
            ],
            repartition_sink_topics=[],
            repartition_source_topics=[_Sub.RepartitionTopic(name="g-repartition", topic_configs=[])],
            copartition_groups=[],
        ),
    ],
)
JOIN: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "topology": TOPOLOGY,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "process_id": "p",
    "client_tags": [StreamsGroupHeartbeatRequest.ClientTag(key="zone", value="z1")],
    "user_endpoint": StreamsGroupHeartbeatRequest.UserEndpoint(host="h", port=80),
}


def beat(desk: Desk, version: int = 1, **fields: Any) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", **fields})
    return desk.connect().call(request, version)  # type: ignore[no-any-return]


def joined(**settings: Any) -> tuple[Desk, StreamsGroupHeartbeatResponse]:
    """Return a node whose group has one member, and the answer that has its tasks."""
    desk = Desk(**{"kohort_group_consumer_heartbeat_park_ms": 0, **settings})
    desk.create("words", 2)
    beat(desk, **JOIN)
    desk.advance(DELAY_MS)
    return desk, beat(desk, member_epoch=1)


def describe(desk: Desk, version: int = 1) -> StreamsGroupDescribeResponse.Group:
    request = StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=version == 1)
    (group,) = desk.connect().call(request, version).groups
    return group  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", [0, 1])
def test_join_makes_internal_topics_and_gets_tasks_after_the_initial_delay(version: int) -> None:
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=0)
    desk.create("words", 2)
    answer = beat(desk, version, **JOIN)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 1, 500)
    assert answer.status is not None
    assert [each.status_code for each in answer.status] == [5, 3]
    assert answer.acceptable_recovery_lag_legacy == (10_000 if version == 0 else 0)
    assert answer.acceptable_recovery_lag == (10_000 if version == 1 else -1)
    changelog = desk.node.topics.find("g-changelog")
    assert (len(changelog.partitions), changelog.config.get("cleanup.policy")) == (2, ("compact",))
    desk.advance(DELAY_MS)
    given = beat(desk, version, member_epoch=1)
    assert (given.status, given.active_tasks is not None) == ([], True)
    assert [(each.subtopology_id, each.partitions) for each in given.active_tasks or ()] == [
        ("0", [0, 1]),
        ("1", [0, 1]),
    ]
    (endpoint,) = given.partitions_by_user_endpoint or ()
    assert (endpoint.user_endpoint.host, [each.topic for each in endpoint.active_partitions]) == (
        "h",
        ["g-repartition", "words"],
    )


@pytest.mark.parametrize("version", [0, 1])
def test_answer_to_a_member_that_leaves_has_no_recovery_lag(version: int) -> None:
    desk, _ = joined()
    answer = beat(desk, version, member_epoch=-1)
    assert (answer.error_code, answer.acceptable_recovery_lag_legacy, answer.acceptable_recovery_lag) == (0, 0, -1)


def test_internal_topic_that_cannot_be_made_is_in_the_status() -> None:
    desk = Desk(kohort_partitions_max=60)
    desk.create("words", 8)
    answer = beat(desk, **JOIN)
    (_, lacking) = answer.status or ()
    assert (
        "Internal topics are missing: g-changelog, g-repartition; Creation of g-changelog failed"
        in lacking.status_detail
    )


def test_group_is_described_with_its_topology_and_tasks() -> None:
    desk, _ = joined()
    group = describe(desk)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "sticky")
    assert group.topology is not None
    first, second = group.topology.subtopologies or ()
    assert (first.source_topics, [each.partitions for each in second.state_changelog_topics]) == (["words"], [2])
    (member,) = group.members
    assert [each.partitions for each in member.assignment.active_tasks] == [[0, 1], [0, 1]]
    assert [each.partitions for each in member.target_assignment.active_tasks] == [[0, 1], [0, 1]]
    assert member.user_endpoint is not None
    assert (member.user_endpoint.port, [each.value for each in member.client_tags]) == (80, ["z1"])
    assert (group.topology_description_status, describe(desk, 0).assignor_name) == (1, None)


GRAPH = _Upload.TopologyDescription(
    subtopologies=[
        _Upload.TopologyDescription.DescribedSubtopology(
            subtopology_id="0",
            nodes=[
                _Node(name="in", node_type=1, source_topics=["words"], successors=["count"]),
                _Node(name="count", node_type=2, stores=["counts"], successors=["out"]),
                _Node(name="out", node_type=3, sink_topic="counts"),
            ],
        )
    ],
    global_stores=[
        _Store(
            source=_Store.Source(name="rates", node_type=1, source_topics=["rates"], successors=["table"]),
            processor=_Store.Processor(name="table", node_type=2, stores=["rates"]),
        )
    ],
)


def upload(desk: Desk, **fields: Any) -> int:
    sent = {"group_id": "g", "member_id": "m", "topology_epoch": 0, "topology_description": GRAPH, **fields}
    return int(desk.connect().call(_Upload(**sent), 0).error_code)


def test_description_of_the_topology_is_asked_for_and_returned() -> None:
    desk = Desk(kohort_group_consumer_heartbeat_park_ms=0)
    desk.create("words", 2)
    asked = [beat(desk, **JOIN).topology_description_required for _ in range(2)]
    assert asked == [True, False], "one member is asked at a time"
    desk.advance(30_000)
    given = beat(desk, member_epoch=1)
    assert given.topology_description_required
    assert upload(desk) == 0
    group = describe(desk)
    assert group.topology_description_status == 3
    described = group.topology_description
    assert described is not None
    assert [[node.name, node.node_type, node.sink_topic] for node in described.subtopologies[0].nodes] == [
        ["in", 1, None],
        ["count", 2, None],
        ["out", 3, "counts"],
    ]
    assert [each.processor.stores for each in described.global_stores] == [["rates"]]
    desk.advance(30_000)
    assert not beat(desk, member_epoch=given.member_epoch).topology_description_required
    desk = desk.restart()
    assert describe(desk).topology_description_status == 1
    assert beat(desk, member_epoch=given.member_epoch).topology_description_required, "it is soft state"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": "x"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"topology_epoch": 1}, ErrorCode.INVALID_REQUEST),
        (
            {
                "topology_description": _Upload.TopologyDescription(
                    subtopologies=[
                        _Upload.TopologyDescription.DescribedSubtopology(
                            subtopology_id="0", nodes=[_Node(name="x", node_type=4)]
                        )
                    ]
                )
            },
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_description_that_is_not_the_groups_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    desk, _ = joined()
    assert upload(desk, **fields) == error
    assert describe(desk).topology_description_status == 1


def test_description_that_is_too_large_is_not_asked_for_again() -> None:
    desk, given = joined(kohort_group_member_max_bytes=2000)
    cls = _Upload.TopologyDescription
    nodes = [_Node(name="x" * 2000, node_type=1)]
    graph = cls(subtopologies=[cls.DescribedSubtopology(subtopology_id="0", nodes=nodes)])
    assert upload(desk, topology_description=graph) == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    desk.advance(30_000)
    assert not beat(desk, member_epoch=given.member_epoch).topology_description_required
    assert describe(desk).topology_description_status == 1


def test_descriptions_may_be_off() -> None:
    desk, given = joined(kohort_group_streams_topology_descriptions=False)
    desk.advance(30_000)
    assert not beat(desk, member_epoch=given.member_epoch).topology_description_required
    assert upload(desk) == ErrorCode.UNSUPPORTED_VERSION


def test_other_apis_show_a_streams_group() -> None:
    desk, _ = joined()
    peer = desk.connect()
    for states in (["stable"], []):
        listed = peer.call(ListGroupsRequest(states_filter=states, types_filter=["Streams"]), 5).groups
        assert [(each.group_id, each.group_type, each.protocol_type) for each in listed] == [
            ("g", "streams", "streams")
        ]
    (classic,) = peer.call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (classic.error_code, classic.error_message) == (69, "Group g is not a classic group.")
    found = peer.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert found.coordinators[0].error_code == 0
    features = {each.name: each.max_version_level for each in peer.call(VERSIONS, 4).finalized_features}
    assert features["streams.version"] == 1


def test_group_survives_a_restart() -> None:
    desk, given = joined()
    before = describe(desk)
    desk = desk.restart()
    assert describe(desk) == before
    assert beat(desk, member_epoch=given.member_epoch).error_code == 0


def test_settings_of_the_group_are_within_the_brokers_bounds() -> None:
    desk = Desk(group_streams_num_standby_replicas=1, group_streams_max_standby_replicas=1)
    configs = desk.node.state.group_configs
    assert configs.effective_streams("g").standby_replicas == 1
    entry = {"type": "group_config", "group": "g", "name": "streams.num.standby.replicas", "value": "5", "at_ms": 0}
    configs.apply(entry)
    assert configs.effective_streams("g").standby_replicas == 1


def test_member_that_lacks_tags_has_a_status() -> None:
    """The built-in assignor places standby tasks without them, as Kafka's own does."""
    desk = Desk(group_streams_rack_aware_assignment_tags="zone", kohort_group_consumer_heartbeat_park_ms=0)
    desk.create("words", 2)
    name = "streams.rack.aware.assignment.tags"
    entry = {"type": "group_config", "group": "g", "name": name, "value": "zone,rack", "at_ms": 0}
    desk.node.state.group_configs.apply(entry)
    (status,) = [each for each in beat(desk, **JOIN).status or () if each.status_code == 6]
    assert status.status_detail == (
        "Missing required client tags for rack-aware standby assignment: [rack]. "
        "Configure them via 'client.tag.<tagKey>' in your Streams config."
    )
    assert 6 not in [each.status_code for each in beat(desk, 0, **JOIN).status or ()], "v0 does not know it"
    desk.node.state.group_configs.apply({**entry, "value": None})
    assert 6 not in [each.status_code for each in beat(desk, **JOIN).status or ()], "it has the tag of the broker's"


def test_tags_are_named_once() -> None:
    with pytest.raises(SettingsError, match="must not contain duplicate tag keys"):
        Desk(group_streams_rack_aware_assignment_tags="zone,zone")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 3, "topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_heartbeat_that_cannot_be_taken_has_an_error(fields: dict[str, Any], error: ErrorCode) -> None:
    assert beat(Desk(), **{**JOIN, **fields}).error_code == error


def test_streams_protocol_may_be_off() -> None:
    desk = Desk(group_coordinator_rebalance_protocols="classic,consumer")
    assert beat(desk, **JOIN).error_code == ErrorCode.UNSUPPORTED_VERSION
    names = {each.name for each in desk.connect().call(VERSIONS, 4).finalized_features}
    assert "streams.version" not in names


def test_missing_group_is_not_described() -> None:
    group = describe(Desk())
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_rebalances_of_a_streams_group_are_explained() -> None:
    desk, given = joined(kohort_group_events="true")
    beat(desk, **{**JOIN, "member_id": "n", "process_id": "q"})
    owned = {"standby_tasks": [], "warmup_tasks": []}
    task = StreamsGroupHeartbeatRequest.ActiveTask
    all_tasks = [task(subtopology_id=each, partitions=[0, 1]) for each in "01"]
    desk.advance(1_000)
    asked = beat(desk, member_epoch=given.member_epoch, active_tasks=all_tasks, **owned)
    kept = [task(subtopology_id=each.subtopology_id, partitions=each.partitions) for each in asked.active_tasks or ()]
    epoch = beat(desk, member_epoch=asked.member_epoch, active_tasks=kept, **owned).member_epoch
    assert beat(desk, member_id="n", member_epoch=epoch).active_tasks is not None
    desk.advance(45_000)
    report = explained(desk)
    names = Names(report.identities)
    assert report.group_type == "streams"
    first, second, last = (sentence(each, names) for each in report.rebalances)
    assert first.startswith("group epoch 1→3: m joined; 2 group epochs; 4 of 4 tasks unowned for 3.0 s")
    assert second.startswith("group epoch 3→4: n joined; no task was unowned")
    assert last.startswith("group epoch 4→6: m evicted, no heartbeat for 45.0 s")


def test_warm_ups_are_explained_until_their_tasks_move() -> None:
    desk, given = joined(kohort_group_events="true")
    beat(desk, **{**JOIN, "member_id": "n", "process_id": "q"})
    owned: dict[str, Any] = {"standby_tasks": [], "warmup_tasks": []}
    task = StreamsGroupHeartbeatRequest.ActiveTask
    desk.advance(1_000)
    all_tasks = [task(subtopology_id=each, partitions=[0, 1]) for each in "01"]
    asked = beat(desk, member_epoch=given.member_epoch, active_tasks=all_tasks, **owned)
    assert asked.active_tasks is not None
    kept = [task(subtopology_id=each.subtopology_id, partitions=each.partitions) for each in asked.active_tasks]
    epoch = beat(desk, member_epoch=asked.member_epoch, active_tasks=kept, **owned).member_epoch
    got = beat(desk, member_id="n", member_epoch=epoch)
    assert [(each.subtopology_id, each.partitions) for each in got.warmup_tasks or ()] == [("1", [1])]
    desk.advance(1_000)
    report = explained(desk)
    names = Names(report.identities)
    assert [each.to_json() for each in report.warmups] == [
        {"member": "n", "owner": "m", "tasks": {"subtopology 1": [1]}}
    ]
    assert "n warms up 1 task that m runs" in sentence(report.rebalances[-1], names)
    assert "n warms up 1 task that m runs: subtopology 1 1" in [
        each.text for each in chain(report.rebalances[-1], names)
    ]
    warm = {"task_offsets": [_Offset(subtopology_id="1", partition=1, offset=5)]}
    ends = {"task_end_offsets": [_End(subtopology_id="1", partition=1, offset=5)]}
    beat(desk, member_id="n", member_epoch=epoch, **warm, **ends)
    desk.advance(1_000)
    report = explained(desk)
    assert (report.running is not None, report.warmups) == (True, ())


def explained(desk: Desk) -> GroupReport:
    """Return what the events of the group report."""
    explanation = Explanation("g")
    for event in events(desk):
        explanation.fold(event)
    return explanation.report(desk.clock.now_ms())


@pytest.mark.parametrize(
    ("subtopologies", "sources", "found"),
    [(1_001, 0, "1001 subtopologies"), (1, 2_001, "2001 topics and copartition groups")],
)
def test_a_topology_that_takes_too_long_to_check_is_refused(subtopologies: int, sources: int, found: str) -> None:
    many = [
        _Sub(
            subtopology_id=str(number),
            source_topics=[f"t{source}" for source in range(sources)],
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
        for number in range(subtopologies)
    ]
    answer = beat(Desk(), **{**JOIN, "topology": StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=many)})
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert answer.error_message is not None
    assert answer.error_message.startswith(f"The topology has {found}")
