"""Groups under an authorizer: what an expression matches, and what a change of rules does to waiting heartbeats."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.authorization.api_cases import DESCRIBE, GROUP, READ, TOPIC, allowing
from tests.unit.node.consumer_desk import NativeMember, consumer_desk
from tests.unit.node.desk import Desk

from kohort.model.acl import AclBinding, Principal
from kohort.model.errors import ErrorCode
from kohort.node.configuration.broker_settings import STANDARD_AUTHORIZER
from kohort.wire.messages import HeartbeatRequest, MetadataRequest

pytest.importorskip("re2", reason="google-re2 is not installed")

IN_GROUP = allowing((READ, GROUP), name="g")


def seeing(topic: str, principal: str = "User:alice") -> AclBinding:
    return allowing((DESCRIBE, TOPIC), principal, topic)


def desk(*rules: AclBinding, **settings: Any) -> Desk:
    made = consumer_desk(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:root", **settings)
    made.create("other", 1)
    change(made, added=[IN_GROUP, allowing((READ, GROUP), "User:bob", "g"), *rules])
    return made


def change(broker: Desk, added: list[AclBinding] | None = None, removed: list[AclBinding] | None = None) -> None:
    broker.node.state.change_acls(added or [], removed or [], broker.clock.now_ms())
    broker.advance(1)


def member(broker: Desk, member_id: str = "m1", user: str = "alice", **fields: Any) -> NativeMember:
    made = NativeMember(broker, member_id, **{"subscribed_topic_names": None, "subscribed_topic_regex": ".*", **fields})
    made.peer.connection.principal = Principal("User", user)
    return made


def topics(broker: Desk, of: NativeMember) -> set[str]:
    names = {topic.topic_id: topic.name for topic in broker.node.topics}
    return {names[topic_id] for topic_id in of.owned}


def settle(broker: Desk, *members: NativeMember) -> None:
    """Let the members send heartbeats until all have what they are to own."""
    for _ in range(4):
        broker.advance(1_000)
        for each in members:
            each.beat()
            each.ack()


def test_expression_matches_only_topics_that_its_member_may_describe() -> None:
    broker = desk(seeing("orders"))
    alice = member(broker)
    alice.join()
    settle(broker, alice)
    assert topics(broker, alice) == {"orders"}


def test_change_of_rules_resolves_expressions_again() -> None:
    broker = desk(seeing("orders"))
    alice = member(broker)
    alice.join()
    settle(broker, alice)
    change(broker, added=[seeing("other")])
    settle(broker, alice)
    assert topics(broker, alice) == {"orders", "other"}
    change(broker, removed=[seeing("orders")])
    settle(broker, alice)
    assert topics(broker, alice) == {"other"}


def test_new_topic_is_matched_with_the_rights_of_the_member() -> None:
    broker = desk(seeing("orders"), seeing("late"))
    alice = member(broker)
    alice.join()
    settle(broker, alice)
    for name in ("hidden", "late"):
        broker.create(name)
    settle(broker, alice)
    assert topics(broker, alice) == {"orders", "late"}


def test_rights_of_the_member_that_sent_an_expression_last_count() -> None:
    broker = desk(seeing("orders"), seeing("other", "User:bob"))
    alice, bob = member(broker), member(broker, "m2", "bob")
    alice.join()
    settle(broker, alice)
    bob.join()
    settle(broker, alice, bob)
    assert topics(broker, alice) | topics(broker, bob) == {"other"}


def test_restart_retains_the_topics_until_a_member_is_known_again() -> None:
    broker = desk(seeing("orders"), seeing("late"))
    alice = member(broker)
    alice.join()
    settle(broker, alice)
    broker.node.flush(broker.clock.now_ms())
    again = broker.restart()
    again.create("late")
    group = again.node.coordinator.describe_consumer("g")
    assert group is not None
    epoch = group.epoch
    alice.desk, alice.peer = again, again.connect()
    alice.peer.connection.principal = Principal("User", "alice")
    alice.beat()
    settle(again, alice)
    assert topics(again, alice) == {"orders", "late"}
    assert alice.epoch > epoch


def test_subscription_to_a_name_that_may_not_be_described_is_refused() -> None:
    broker = desk(seeing("orders"))
    alice = member(broker, subscribed_topic_names=["orders", "other"], subscribed_topic_regex=None)
    assert alice.join().error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.node.coordinator.describe_consumer("g") is None


def test_parked_heartbeat_is_answered_when_rules_change_and_the_next_one_is_refused() -> None:
    broker = desk(
        seeing("orders"),
        kohort_group_consumer_heartbeat_park_ms=1_000,
        kohort_group_consumer_heartbeat_park_stable_ms=3_000,
    )
    alice = member(broker, subscribed_topic_names=["orders"], subscribed_topic_regex=None)
    alice.join()
    broker.advance(10_000)
    alice.peer.send(alice.ack_request(), 1)
    assert alice.answers() == [], "the heartbeat is parked"
    change(broker, removed=[IN_GROUP])
    (answered,) = alice.answers()
    assert answered.error_code == 0
    assert alice.beat().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_unrelated_request_behind_a_heartbeat_that_is_refused_is_served() -> None:
    broker = desk()
    alice = member(broker)
    change(broker, removed=[IN_GROUP])
    refused = alice.peer.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert alice.peer.call(MetadataRequest(topics=None), 9).topics == []
