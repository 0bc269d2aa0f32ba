"""What `kohort doctor` finds of a group that is to move to the consumer protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.cli.doctor.findings import Severity
from kohort.cli.doctor.group_checks import CheckedCluster, check_group, client_of
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.group.migration.migration_plan import Refusal
from kohort.model.subscription import Subscription

TOPICS = ("orders", "orders-eu", "orders-us", "payments")
OURS = CheckedCluster(has_consumer_protocol=True, topics=TOPICS, is_ours=True)


def member(client_id: str, *topics: str, version: int = 3, instance_id: str | None = None) -> MemberDescription:
    subscription = replace(Subscription(topics=topics or ("orders",)), version=version)
    return MemberDescription(
        f"{client_id}-1", instance_id, client_id, "/host", frozenset(), topics=topics, subscription=subscription
    )


def native(regex: str) -> MemberDescription:
    return MemberDescription("m", None, "c", "/host", frozenset(), is_native=True, regex=regex)


def group(*members: MemberDescription, protocol: str = "range", group_type: str = "classic") -> GroupDescription:
    return GroupDescription("g", "Stable", "consumer", protocol, members, group_type)


def found(
    described: GroupDescription, cluster: CheckedCluster = OURS, *against: Refusal
) -> dict[str, tuple[Severity, str, str]]:
    """Return the findings by their check."""
    return {each.check: (each.severity, each.text, each.fix) for each in check_group(described, against, cluster)}


@pytest.mark.parametrize(
    ("client_id", "member_id", "client"),
    [
        ("rdkafka", "rdkafka-5b", "librdkafka"),
        ("consumer-g-1", "consumer-g-1-5b", "Java"),
        ("kafka-python-2.2.15", "", "kafka-python 2.2.15"),
        ("aiokafka-0.12.0", "", "aiokafka 0.12.0"),
        ("kgo", "", "franz-go"),
        ("", "app@host (github.com/segmentio/kafka-go)-5b", "kafka-go"),
        ("billing-0", "billing-0-5b", ""),
        ("rdkafka.of.mine", "", ""),
    ],
)
def test_a_client_shows_by_the_id_that_it_has_where_its_user_gives_none(
    client_id: str, member_id: str, client: str
) -> None:
    assert client_of(replace(member(client_id), member_id=member_id)) == client


def test_settings_that_a_client_refuses_are_named() -> None:
    severity, text, fix = found(group(member("consumer-g-1")))["client"]
    assert (severity, text) == (Severity.INFO, "consumer-g-1 seem to be Java (by their client ids)")
    assert "it refuses session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy" in fix


def test_a_client_without_the_protocol_and_one_that_cannot_be_seen_are_warnings() -> None:
    findings = found(group(member("aiokafka-0.12.0", version=0)))
    assert findings["client"][0] is Severity.WARNING
    assert "aiokafka 0.12.0" in findings["client"][1]
    assert "group" not in findings
    severity, text, _ = found(group(member("billing-0", version=1)))["client"]
    assert severity is Severity.WARNING
    assert "their metadata has version 1" in text


def test_an_assignor_of_the_client_has_one_of_the_broker_or_none() -> None:
    assert found(group(member("rdkafka"), protocol="sticky"))["assignor"][2].startswith("group.remote.assignor=uniform")
    severity, text, _ = found(group(member("rdkafka"), protocol="mine"))["assignor"]
    assert severity is Severity.WARNING
    assert "its assignor mine runs in its members" in text


@pytest.mark.parametrize(
    ("regex", "text", "fix"),
    [
        ("^orders", "(RE2): orders; it does not match orders-eu, orders-us", "write '^orders.*'"),
        ("^orders-", "(RE2): none; it does not match orders-eu, orders-us", "write '^orders-.*'"),
        ("orders-(eu|u)", "(RE2): orders-eu; it does not match orders-us", "write '(?:orders-(eu|u)).*'"),
    ],
)
def test_an_expression_that_re2_reads_otherwise_has_its_correction(regex: str, text: str, fix: str) -> None:
    severity, said, mended = found(group(native(regex), group_type="consumer"))["expression"]
    assert severity is Severity.WARNING
    assert said.endswith(text)
    assert mended.startswith(fix)


@pytest.mark.parametrize("regex", ["orders.*", "^orders.*$", "nothing"])
def test_an_expression_that_both_read_alike_is_no_finding(regex: str) -> None:
    assert "expression" not in found(group(native(regex), group_type="consumer"))


@pytest.mark.parametrize("regex", ["(a+)+$", "(?=x)", "a*a*a*a*a*b", "["])
def test_an_expression_that_could_take_years_or_is_none_is_not_tried(regex: str) -> None:
    severity, text, _ = found(group(native(regex), group_type="consumer"))["expression"]
    assert severity is Severity.INFO
    assert "is not looked up here" in text


def test_topics_that_begin_alike_may_be_an_expression_of_librdkafka() -> None:
    severity, text, fix = found(group(member("rdkafka", "orders-eu", "orders-us")))["expression"]
    assert severity is Severity.INFO
    assert "begin with 'orders'" in text
    assert fix == "write '^orders.*'"
    assert "expression" not in found(group(member("consumer-g-1", "orders-eu", "orders-us")))
    assert "expression" not in found(group(member("rdkafka", "orders", "payments")))


@pytest.mark.parametrize(
    ("release", "checks"),
    [((4, 0), {"commits", "repeated_joins"}), ((4, 2), {"commits"}), ((4, 3), set()), (None, set())],
)
def test_what_releases_of_kafka_do_with_older_epochs(release: tuple[int, int] | None, checks: set[str]) -> None:
    cluster = CheckedCluster(has_consumer_protocol=True, topics=TOPICS, release=release)
    assert found(group(member("consumer-g-1")), cluster).keys() & {"commits", "repeated_joins"} == checks


def test_static_members_and_rules_of_a_migration_are_named() -> None:
    against = Refusal("assignor_data", "assignor range sent user data", ("rdkafka-1",))
    kafka = CheckedCluster(has_consumer_protocol=True, topics=TOPICS, release=(4, 3))
    findings = found(group(member("rdkafka", instance_id="i-1")), kafka, against)
    assert findings["static_members"][1].startswith("i-1 is a static member: one that is killed")
    assert findings["assignor_data"][1] == "it cannot move: rdkafka: assignor range sent user data"
    assert findings["assignor_data"][2] == "see `kohort migrate plan g --to consumer`"


def test_groups_that_kip_848_does_not_concern() -> None:
    connect = replace(group(member("connect-1")), protocol_type="connect")
    assert found(connect)["connect"][0] is Severity.INFO
    assert found(group(member("streams-1"), protocol="stream")).keys() == {"streams"}
    assert found(group()).keys() == {"members"}
