"""Plans that bring a cluster to a gateway and back: settings written whole, and commands in their order."""

from __future__ import annotations

import json

import pytest
from tests.unit.gateway.server.test_cluster_topology import facts, node, topic, usual

from kohort.gateway.plan import GatewayPlan, PlanError, Wishes, coordinators_plan, listener_plan, rewrite_plan
from kohort.gateway.server.cluster_topology import OFFSETS_TOPIC, ClusterFacts

WISHES = Wishes("gateway.example")
INTERNAL = "INTERNAL://:9092,CLIENTS://:9093"
MAP = "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT"


def coordinators(*ids: int) -> Wishes:
    return Wishes("gateway.example", coordinators=ids)


def cluster(*replicas: tuple[int, ...]) -> ClusterFacts:
    nodes = [
        node(number, f"INTERNAL://kafka-{number}:9092,CLIENTS://kafka-{number}:9093", INTERNAL, MAP)
        for number in (1, 2, 3)
    ]
    return facts(*nodes, topics=(topic(OFFSETS_TOPIC, (1,), (2,)), topic("orders", *replicas)))


def titles(plan: GatewayPlan) -> list[str]:
    return [step.title for step in plan.steps]


def test_a_listener_is_added_to_what_a_broker_has() -> None:
    plan = listener_plan(facts(node(7, "SASL_SSL://kafka-7:9092", "SASL_SSL://:9092,CONTROLLER://:9099", "")), WISHES)
    assert plan.steps[0].title == "Add a listener to node 7: in its server.properties"
    assert plan.steps[0].lines == (
        "listeners=SASL_SSL://:9092,CONTROLLER://:9099,GATEWAY://:9100",
        "advertised.listeners=SASL_SSL://kafka-7:9092,GATEWAY://gateway.example:9191",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
        "GATEWAY:SASL_SSL",
    )
    assert "--listener-tls-certificate" in plan.steps[2].lines[0]
    assert plan.way_back[3].lines[:2] == (
        "listeners=SASL_SSL://:9092,CONTROLLER://:9099",
        "advertised.listeners=SASL_SSL://kafka-7:9092",
    )


def test_an_added_listener_is_bound_as_the_one_beside_it() -> None:
    plan = listener_plan(facts(node(7, "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092")), WISHES)
    assert plan.steps[0].lines[0] == "listeners=PLAINTEXT://127.0.0.1:9092,GATEWAY://127.0.0.1:9099"


def test_each_node_has_a_port_of_its_own() -> None:
    plan = listener_plan(facts(*[node(n, f"PLAINTEXT://kafka-{n}:9092", "PLAINTEXT://:9092") for n in (2, 1)]), WISHES)
    assert [line for step in plan.steps for line in step.lines if "advertised.listeners" in line] == [
        "advertised.listeners=PLAINTEXT://kafka-1:9092,GATEWAY://gateway.example:9191",
        "advertised.listeners=PLAINTEXT://kafka-2:9092,GATEWAY://gateway.example:9192",
    ]
    assert "Restart nodes 1, 2, one after the other; clients continue as before" in titles(plan)
    assert ("bootstrap.servers=gateway.example:9191,gateway.example:9192",) in [step.lines for step in plan.steps]


def test_a_node_that_advertises_the_gateway_already_stays_as_it_is() -> None:
    plan = listener_plan(facts(usual(1)), WISHES)
    assert plan.remarks == ("every node has a listener that advertises the gateway already",)
    assert titles(plan)[0].startswith("Start the gateway")


def test_a_listener_of_the_same_name_is_not_replaced() -> None:
    taken = node(1, "PLAINTEXT://kafka-1:9092,GATEWAY://other:1", "PLAINTEXT://:9092,GATEWAY://:9094")
    with pytest.raises(PlanError, match="node 1 has a listener GATEWAY already"):
        listener_plan(facts(taken), WISHES)


def test_coordinators_are_emptied_and_advertised_before_groups_move_to_them() -> None:
    plan = coordinators_plan(cluster((3,), (1, 3)), coordinators(3))
    assert titles(plan) == [
        "Move 2 partitions away from node 3",
        "Let listener CLIENTS of node 3 advertise the gateway: in its server.properties",
        "Restart node 3; no group is there yet",
        "Start the gateway on gateway.example. It observes all groups, and parks heartbeats of throwaway groups only",
        "Move __consumer_offsets to node 3; from now on groups go through the gateway",
        "Measure what it gains on this cluster",
        "Cordon node 3, so that nothing else is placed there (KIP-1066)",
        "Park heartbeats of the first groups, such as billing-*, and of more while kohort_gateway_fallbacks_total is 0",
    ]
    moved = json.loads(plan.steps[0].lines[1])["partitions"]
    assert [(each["partition"], each["replicas"]) for each in moved] == [(0, [2]), (1, [1, 2])]
    assert plan.steps[1].lines == ("advertised.listeners=INTERNAL://kafka-3:9092,CLIENTS://gateway.example:9191",)
    assert [each["replicas"] for each in json.loads(plan.steps[4].lines[1])["partitions"]] == [[3], [3]]


def test_the_way_back_takes_the_cordon_off_before_groups_move_back() -> None:
    back = coordinators_plan(cluster((1,)), coordinators(2, 3)).way_back
    assert [step.title.split(" ")[0] for step in back] == ["At", "Take", "Move", "Advertise", "Advertise", "Restart"]
    assert back[1].lines[0].endswith("--entity-name 2 --alter --delete-config cordoned.log.dirs")
    assert [each["replicas"] for each in json.loads(back[2].lines[1])["partitions"]] == [[1], [2]]


def test_offsets_that_do_not_exist_are_created_on_the_coordinators() -> None:
    plan = coordinators_plan(facts(*cluster().nodes), coordinators(2, 3))
    [create] = [step for step in plan.steps if step.title.startswith("Create __consumer_offsets")]
    assert "--replica-assignment 2:3,3:2,2:3," in create.lines[0]


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ((), r"name them with --coordinators, such as --coordinators 3,2"),
        ((9,), "there is no node 9: there are 1, 2, 3"),
        ((1, 2, 3), "every node would be a coordinator"),
    ],
)
def test_coordinators_that_cannot_be_are_refused(ids: tuple[int, ...], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        coordinators_plan(cluster(), coordinators(*ids))


@pytest.mark.parametrize(("name", "text"), [("x\ny", "expected a host name"), ("g:9191", "give the host name alone")])
def test_a_name_that_cannot_be_advertised_is_refused(name: str, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        Wishes(name)


def test_a_cluster_with_one_listener_is_refused_with_what_it_needs() -> None:
    single = facts(*[node(number, f"PLAINTEXT://kafka-{number}:9092", "PLAINTEXT://:9092") for number in (1, 2)])
    with pytest.raises(PlanError, match=r"has one listener for clients and brokers, PLAINTEXT"):
        coordinators_plan(single, coordinators(2))


def test_groups_on_a_node_that_shall_coordinate_leave_it_until_the_gateway_runs() -> None:
    plan = coordinators_plan(cluster((1,)), coordinators(2))
    assert plan.steps[0].title == (
        "Move 1 partitions away from node 2; those of __consumer_offsets come back when the gateway runs"
    )


def test_brokers_stay_as_they_are_where_addresses_are_rewritten() -> None:
    plan = rewrite_plan("kafka:9092", (0, 1, 5), WISHES)
    assert plan.steps[0].title == (
        "Let clients reach port 9191 of gateway.example, where they begin, and 9192 to 9197, where node n has 9192 + n"
    )
    assert (
        plan.steps[1]
        .lines[0]
        .startswith("kohort gateway --bootstrap-server kafka:9092 --mode rewrite --advertised gateway.example:9191 ")
    )
    assert plan.steps[3].lines == ("bootstrap.servers=gateway.example:9191",)
    assert plan.way_back[1].lines == ("bootstrap.servers=kafka:9092",)
    assert "Measure" in plan.steps[2].title


def test_node_ids_beyond_all_ports_need_ports_that_are_named() -> None:
    with pytest.raises(PlanError, match="a node would have port 109192: give another --first-port"):
        rewrite_plan("kafka:9092", (1, 100_000), WISHES)
