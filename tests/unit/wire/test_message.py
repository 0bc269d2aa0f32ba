"""Message classes: one for all versions, with Kafka's defaults, equal by value, shown short."""

from __future__ import annotations

import copy
import pickle

import pytest

from kohort.wire import messages
from kohort.wire.message import nested_structs
from kohort.wire.message_schemas import Struct, schema, schema_texts
from kohort.wire.messages import (
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    MetadataResponse,
    OffsetCommitKey,
    ProduceRequest,
)


def test_a_class_knows_its_key_and_versions() -> None:
    assert (JoinGroupRequest.API_KEY, JoinGroupRequest.RECORD_TYPE) == (11, -1)
    assert list(JoinGroupRequest.VERSIONS) == list(range(10))
    assert str(JoinGroupRequest.FLEXIBLE) == "6-9"
    assert (OffsetCommitKey.API_KEY, OffsetCommitKey.RECORD_TYPE) == (-1, 1)
    assert FetchResponse.HAS_RECORDS
    assert not JoinGroupRequest.HAS_RECORDS


def test_nested_structs_are_attributes_of_what_encloses_them() -> None:
    assert MetadataResponse.Topic.Partition.__qualname__ == "MetadataResponse.Topic.Partition"
    assert FetchResponse.Response.Partition().partition_index == 0
    assert ProduceRequest.TopicData.PartitionData().records is None


def test_defaults_are_kafka_s() -> None:
    response = JoinGroupResponse()
    assert (response.generation_id, response.protocol_type, response.protocol_name) == (-1, None, "")
    assert FetchResponse.Response.Partition().preferred_read_replica == -1
    assert MetadataResponse().cluster_authorized_operations == -(1 << 31)


def test_a_message_has_no_other_fields() -> None:
    with pytest.raises(AttributeError):
        HeartbeatRequest().groupid = "g"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        HeartbeatRequest(groupid="g")  # type: ignore[call-arg]


def test_messages_are_equal_by_value_and_class() -> None:
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert HeartbeatResponse() != HeartbeatRequest()


def test_messages_cannot_be_keys_because_they_change() -> None:
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())


def test_a_message_is_shown_without_its_empty_fields_and_with_long_bytes_cut() -> None:
    shown = repr(JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.Protocol(name="p", metadata=bytes(99))]))
    assert "group_id='g'" in shown
    assert "99 bytes" in shown
    assert "reason" not in shown
    assert "JoinGroupRequest.Protocol(name='p'" in shown


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))])
def test_messages_can_be_copied_and_pickled(copied: object) -> None:
    request = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.Protocol(name="p")])
    assert callable(copied)
    assert copied(request) == request


def test_every_schema_becomes_a_class() -> None:
    assert set(dir(messages)) == set(schema_texts())
    for name in schema_texts():
        assert getattr(messages, name).__name__ == name


@pytest.mark.parametrize("name", list(schema_texts()))
def test_names_of_fields_stay_apart_in_snake_case(name: str) -> None:
    def check(struct: Struct) -> None:
        assert len({field.name for field in struct.fields}) == len(struct.fields), struct.name
        for nested in nested_structs(struct):
            check(nested)

    check(schema(name).struct)


def test_an_unknown_message_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="JoinGruopRequest"):
        messages.JoinGruopRequest  # type: ignore[attr-defined]  # noqa: B018
