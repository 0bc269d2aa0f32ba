"""Which APIs and versions a client finds offered where addresses are rewritten."""

from __future__ import annotations

import pytest
from tests.unit.wire.responses import encode_response

from kohort.gateway.rewriting.offered_apis import is_passed, with_passed_versions
from kohort.wire.codec import encode
from kohort.wire.frames import decode_response
from kohort.wire.messages import ApiVersionsResponse
from kohort.wire.primitives import MalformedMessage

BODY = 8
Offer = tuple[int, int, int]


def offered(version: int, *offers: Offer, error: int = 0) -> ApiVersionsResponse:
    """Return the answer that a client sees when a broker offers these APIs and versions."""
    keys = [ApiVersionsResponse.ApiKey(api_key=key, min_version=low, max_version=high) for key, low, high in offers]
    feature = ApiVersionsResponse.FinalizedFeature(name="transaction.version", max_version_level=2)
    message = ApiVersionsResponse(
        error_code=error, api_keys=keys, throttle_time_ms=3, finalized_features_epoch=9, finalized_features=[feature]
    )
    found = b"".join(with_passed_versions(b"".join(encode_response(message, version, 1)), BODY, version))
    return decode_response(ApiVersionsResponse, version, found[4:])[1]


def ranges(answer: ApiVersionsResponse) -> list[Offer]:
    return [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]


@pytest.mark.parametrize("version", range(6))
def test_versions_are_those_that_broker_and_gateway_have(version: int) -> None:
    answer = offered(version, (0, 0, 99), (1, 4, 18), (3, 0, 9))
    assert ranges(answer) == [(0, 0, 13), (1, 4, 15), (3, 0, 9)]


@pytest.mark.parametrize("version", [0, 5])
def test_an_api_that_is_not_known_is_not_offered(version: int) -> None:
    assert ranges(offered(version, (18, 0, 4), (62, 0, 4), (12345, 0, 1))) == [(18, 0, 4)]


@pytest.mark.parametrize("version", [0, 5])
def test_an_api_of_which_no_version_passes_is_not_offered(version: int) -> None:
    assert ranges(offered(version, (78, 0, 0), (1, 16, 20))) == []


def test_finalized_features_pass() -> None:
    answer = offered(3, (0, 3, 13))
    assert [(each.name, each.max_version_level) for each in answer.finalized_features] == [("transaction.version", 2)]
    assert (answer.finalized_features_epoch, answer.throttle_time_ms) == (9, 3)


def test_unknown_tagged_fields_survive_in_entries_and_behind_them() -> None:
    passed, hidden = b"\0\3\0\0\0\x0d" + b"\1\x63\2ab", b"\0\x3e\0\0\0\0" + b"\0"
    frame = bytes(BODY) + b"\0\0" + b"\3" + passed + hidden + b"\0\0\0\5" + b"\1\x64\1!"
    found = b"".join(with_passed_versions(frame, BODY, 4))
    assert found == bytes(BODY) + b"\0\0" + b"\2" + passed + b"\0\0\0\5" + b"\1\x64\1!"


def test_a_broker_that_does_not_know_the_version_answers_in_version_0() -> None:
    keys = [ApiVersionsResponse.ApiKey(api_key=18, min_version=0, max_version=9)]
    body = encode(ApiVersionsResponse(error_code=35, api_keys=keys), 0)
    found = b"".join(with_passed_versions(bytes(BODY) + body, BODY, 4))
    _, answer = decode_response(ApiVersionsResponse, 0, found[4:])
    assert (answer.error_code, ranges(answer)) == (35, [(18, 0, 5)])


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("size", range(12))
def test_an_answer_that_is_cut_short_is_malformed(version: int, size: int) -> None:
    keys = [ApiVersionsResponse.ApiKey(api_key=3, min_version=0, max_version=9)] * 2
    body = encode(ApiVersionsResponse(api_keys=keys), version)
    with pytest.raises(MalformedMessage):
        with_passed_versions(bytes(BODY) + body[:size], BODY, version)


def test_what_is_offered_is_what_passes() -> None:
    assert is_passed(3, 13)
    assert not is_passed(3, 14)
    assert not is_passed(1, 16)
    assert not is_passed(78, 0)
    assert not is_passed(52, 0)
