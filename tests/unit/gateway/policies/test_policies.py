"""Policies: the first row that matches decides, and unsuitable software is parked only where it is listed."""

from __future__ import annotations

import pytest

from kohort.gateway.policies.policies import (
    EVERYTHING_PARKED,
    NOT_PARKED,
    OBSERVED,
    GroupProtocol,
    Policy,
    PolicyClient,
    PolicyTable,
    Treatment,
    read_policies,
)
from kohort.model.setting import SettingsError

JAVA = PolicyClient("apache-kafka-java", "billing-1")


def treatment(table: PolicyTable, group_id: str = "billing", client: PolicyClient = JAVA) -> Treatment:
    return table.decide(group_id, client, GroupProtocol.CLASSIC).treatment


def test_a_group_is_observed_where_no_row_matches() -> None:
    assert treatment(OBSERVED) is Treatment.OBSERVE
    assert treatment(PolicyTable((Policy(groups="orders", treatment=Treatment.PARK),))) is Treatment.OBSERVE


def test_the_first_row_that_matches_decides() -> None:
    table = PolicyTable(
        (Policy(groups="billing-eu*", treatment=Treatment.OFF), Policy(groups="billing*", treatment=Treatment.PARK))
    )
    assert treatment(table, "billing-eu-1") is Treatment.OFF
    assert treatment(table, "billing-us-1") is Treatment.PARK


def test_a_row_matches_the_protocol_too() -> None:
    table = PolicyTable((Policy(protocol="consumer", treatment=Treatment.PARK),))
    assert table.decide("billing", JAVA, GroupProtocol.CONSUMER).treatment is Treatment.PARK
    assert table.decide("billing", JAVA, GroupProtocol.CLASSIC).treatment is Treatment.OBSERVE


@pytest.mark.parametrize("software", sorted(NOT_PARKED))
def test_unsuitable_software_is_parked_only_where_it_is_listed(software: str) -> None:
    client = PolicyClient(software, "billing-1")
    assert treatment(EVERYTHING_PARKED, client=client) is Treatment.OBSERVE
    by_software = PolicyTable((Policy(software=software, treatment=Treatment.PARK),))
    by_client_id = PolicyTable((Policy(client_ids="billing-*", treatment=Treatment.PARK),))
    assert treatment(by_software, client=client) is Treatment.PARK
    assert treatment(by_client_id, client=client) is Treatment.PARK


def test_names_of_clients_are_matched_as_text() -> None:
    table = PolicyTable((Policy(groups="a*", treatment=Treatment.PARK),))
    assert treatment(table, "a[b\n*") is Treatment.PARK


def test_rows_of_a_file_are_read_in_their_order() -> None:
    table = read_policies([{"groups": "a", "treatment": "off"}, {"software": "librdkafka", "treatment": "park"}])
    assert table.rows == (
        Policy(groups="a", treatment=Treatment.OFF),
        Policy(software="librdkafka", treatment=Treatment.PARK),
    )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("park", r"policies is no list of tables: write \[\[policies\]\] above each"),
        ([5], "policies is no list of tables"),
        ([{"groups": "a"}], "policies: row 1: it lacks treatment"),
        ([{"treatment": "park"}, {"treatment": "hold"}], "row 2: treatment='hold': expected off, observe or park"),
        ([{"treatment": "park", "group": "a"}], "row 1: it has no setting 'group'; did you mean 'groups'?"),
        ([{"treatment": "park", "groups": ""}], "row 1: groups='': expected a str that is not empty"),
        ([{"treatment": "park", "groups": 7}], "row 1: groups=7 is an int: expected a str"),
        ([{"treatment": "park", "protocol": "eager"}], r"protocol='eager': expected \*, classic, consumer, share or"),
        (
            [{"treatment": "park", "commit_delay_ms": 6_000}],
            "commit_delay_ms=6000: expected a whole number of milliseconds",
        ),
        ([{"treatment": "off", "commit_delay_ms": 5}], "commit_delay_ms is of use with treatment = 'park' only"),
        ([{"treatment": "off", "static_members": "client_id"}], "static_members needs treatment = 'park' or 'observe'"),
        ([{"treatment": "park", "static_members": "host"}], "static_members='host': expected none or client_id"),
        ([{"treatment": "park", "leave_delay_ms": 5}], "leave_delay_ms is of use with static_members = 'client_id'"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused_by_its_number(rows: object, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        read_policies(rows)
