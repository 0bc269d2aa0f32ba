"""The table of APIs agrees with the schemas."""

from __future__ import annotations

import pytest

from kohort.wire.apis import VERSIONS, Api, flexible_from, request_class, response_class
from kohort.wire.message_schemas import Versions, headlines


def test_every_api_of_the_schemas_is_named_and_no_other() -> None:
    keys = {head.api_key for head in headlines().values() if head.api_key is not None}
    assert keys == {int(api) for api in Api}


@pytest.mark.parametrize("api", Api)
def test_an_api_is_named_after_its_messages(api: Api) -> None:
    name = "".join(word.capitalize() for word in api.name.split("_"))
    assert request_class(api).__name__ == name + "Request"
    assert response_class(api).__name__ == name + "Response"
    assert request_class(api).API_KEY == response_class(api).API_KEY == api


@pytest.mark.parametrize("api", Api)
def test_request_and_response_have_the_same_versions(api: Api) -> None:
    assert request_class(api).VERSIONS == response_class(api).VERSIONS
    assert request_class(api).FLEXIBLE == response_class(api).FLEXIBLE


def test_versions_that_brokers_and_clients_advertise() -> None:
    assert VERSIONS[Api.JOIN_GROUP] == Versions(0, 9)
    assert VERSIONS[Api.PRODUCE] == Versions(3, 13)
    assert 3 in VERSIONS[Api.METADATA]


def test_an_unstable_version_is_spoken_but_not_advertised() -> None:
    assert VERSIONS[Api.INIT_PRODUCER_ID] == Versions(0, 5)
    assert 6 in request_class(Api.INIT_PRODUCER_ID).VERSIONS


def test_the_first_flexible_version() -> None:
    assert flexible_from(Api.FETCH) == 12
    assert flexible_from(Api.CONSUMER_GROUP_HEARTBEAT) == 0
    assert flexible_from(Api.OFFSET_DELETE) == 1, "never: one past its only version"
    assert flexible_from(Api.SASL_HANDSHAKE) == 2
