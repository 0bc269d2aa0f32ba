"""Which version of an API a client speaks, down to brokers of another age."""

from __future__ import annotations

import pytest
from tests.unit.wire.responses import encode_response

from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.api_versions import FIRST_VERSION, BrokerVersions, retry_version
from kohort.wire.apis import Api
from kohort.wire.messages import ApiVersionsResponse


def answer(version: int, *ranges: tuple[int, int, int], error: int = 0) -> bytes:
    keys = [
        ApiVersionsResponse.ApiKey(api_key=api, min_version=lowest, max_version=highest)
        for api, lowest, highest in ranges
    ]
    return b"".join(encode_response(ApiVersionsResponse(error_code=error, api_keys=keys), version, 7))[4:]


def test_the_newest_common_version_is_chosen() -> None:
    versions = BrokerVersions("h:1", answer(FIRST_VERSION, (Api.JOIN_GROUP, 0, 5), (Api.FETCH, 4, 99)), FIRST_VERSION)
    assert versions.newest(Api.JOIN_GROUP) == 5
    assert versions.newest(Api.FETCH) == 18
    assert versions.newest(Api.FETCH, highest=12) == 12
    assert versions.supports(Api.JOIN_GROUP, 5)
    assert not versions.supports(Api.JOIN_GROUP, 6)


@pytest.mark.parametrize("theirs", [(Api.PRODUCE, 0, 2), (Api.PRODUCE, 14, 20)])
def test_a_broker_without_a_common_version_is_named_with_its_versions(theirs: tuple[int, int, int]) -> None:
    versions = BrokerVersions("h:1", answer(FIRST_VERSION, theirs), FIRST_VERSION)
    with pytest.raises(KafkaError, match=f"h:1 speaks versions {theirs[1]}-{theirs[2]} of PRODUCE") as old:
        versions.newest(Api.PRODUCE)
    assert old.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_api_that_a_broker_does_not_have_is_reported_as_missing() -> None:
    with pytest.raises(KafkaError, match="no version of CONSUMER_GROUP_DESCRIBE"):
        BrokerVersions("h:1", answer(FIRST_VERSION), FIRST_VERSION).newest(Api.CONSUMER_GROUP_DESCRIBE)


def test_an_answer_to_the_first_try_asks_for_no_second() -> None:
    assert retry_version(answer(FIRST_VERSION, (Api.JOIN_GROUP, 0, 5))) is None


@pytest.mark.parametrize(
    ("theirs", "again"), [((Api.API_VERSIONS, 0, 2), 2), ((Api.API_VERSIONS, 0, 9), FIRST_VERSION)]
)
def test_a_broker_that_refuses_the_version_returns_its_versions(theirs: tuple[int, int, int], again: int) -> None:
    refusal = answer(0, theirs, error=ErrorCode.UNSUPPORTED_VERSION)
    assert retry_version(refusal) == again


def test_a_broker_that_refuses_without_versions_is_requested_in_version_0() -> None:
    assert retry_version(answer(0, error=ErrorCode.UNSUPPORTED_VERSION)) == 0


def test_bytes_that_are_no_response_are_reported_as_another_protocol() -> None:
    with pytest.raises(KafkaError, match="does not speak Kafka's protocol"):
        BrokerVersions("h:1", b"\0\0\0\7garbage", FIRST_VERSION)


def test_a_feature_of_the_broker_is_known_by_its_versions() -> None:
    features = [ApiVersionsResponse.SupportedFeature(name="kohort.group", min_version=1, max_version=2)]
    frame = b"".join(encode_response(ApiVersionsResponse(supported_features=features), FIRST_VERSION, 7))[4:]
    versions = BrokerVersions("h:1", frame, FIRST_VERSION)
    assert versions.has_feature("kohort.group")
    assert versions.has_feature("kohort.group", 2)
    assert not versions.has_feature("kohort.group", 3)
    assert not BrokerVersions("h:1", answer(0), 0).has_feature("kohort.group"), "a broker of before KIP-584"


@pytest.mark.parametrize(("level", "enabled"), [(1, True), (0, False)])
def test_a_feature_is_enabled_where_the_cluster_finalized_a_version_above_zero(level: int, enabled: bool) -> None:
    final = ApiVersionsResponse.FinalizedFeature(name="group.version", max_version_level=level)
    response = ApiVersionsResponse(finalized_features=[final], finalized_features_epoch=1)
    frame = b"".join(encode_response(response, FIRST_VERSION, 7))[4:]
    assert BrokerVersions("h:1", frame, FIRST_VERSION).is_enabled("group.version") == enabled
