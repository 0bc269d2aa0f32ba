"""Error responses: for every API and version there is one that can be encoded, and it names what was asked for."""

from __future__ import annotations

from kohort.model.errors import ErrorCode
from kohort.node.apis.routes import Routes, served
from kohort.node.route import error_response
from kohort.wire.apis import VERSIONS, request_class
from kohort.wire.codec import encode
from kohort.wire.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    ProduceResponse,
)

CODE = ErrorCode.KAFKA_STORAGE_ERROR


def test_every_api_has_an_error_response_in_every_version() -> None:
    routes = Routes({})
    for api in served():
        for version in VERSIONS[api]:
            route = routes.get(api, version)
            assert route is not None
            assert encode(route.refuse(request_class(api)(), CODE, "full"), version), (api, version)


def test_an_error_is_at_the_top_where_there_is_a_field_for_it() -> None:
    assert error_response(HeartbeatResponse, HeartbeatRequest(), CODE, "full") == HeartbeatResponse(error_code=CODE)


def test_an_error_is_in_the_entry_of_each_partition() -> None:
    topic = ProduceRequest.TopicData
    asked = ProduceRequest(topic_data=[topic(name="orders", partition_data=[topic.PartitionData(index=3)])])
    result = ProduceResponse.Response.PartitionResponse(index=3, error_code=CODE, base_offset=-1, error_message="full")
    expected = ProduceResponse(responses=[ProduceResponse.Response(name="orders", partition_responses=[result])])
    assert error_response(ProduceResponse, asked, CODE, "full") == expected


def test_an_error_is_in_the_entry_of_each_group() -> None:
    groups = error_response(DescribeGroupsResponse, DescribeGroupsRequest(groups=["g"]), CODE, "full").groups
    assert [(each.group_id, each.error_code) for each in groups] == [("g", CODE)]
