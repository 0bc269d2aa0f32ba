"""Every field of every version of every message, against the schemas inside Kafka's own jars."""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any

import pytest

from interop import jars
from kohort.gateway.rewriting.broker_addresses import address_walker
from kohort.gateway.rewriting.offered_apis import PASSED_VERSIONS
from kohort.node.apis.routes import served
from kohort.node.configuration.broker_settings import NEWEST_VERSIONS
from kohort.wire.apis import VERSIONS, Api, request_class
from kohort.wire.message_schemas import FIXED, Field, MessageSchema, Struct, Versions, schema, schema_texts

TYPES = {"i8": "int8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64",
         "f64": "float64", "str": "string"}  # fmt: skip
NONE = Versions(0, -1)
WRITTEN_BY_HAND = {"AssignmentInfo", "ConnectAssignmentInfo", "ConnectWorkerState"}
"""What Kafka's programs write without a schema."""
NAMES = [name for name in schema_texts() if name not in WRITTEN_BY_HAND]

Shape = list[dict[str, Any]]
"""The fields of one version, in the order of the wire, in a form that both sides have."""


@pytest.fixture(scope="module")
def kafka_schemas() -> dict[str, dict[str, Any]]:
    """Kafka's schemas by name, read out of the newest jars that carry them."""
    streams = jars.jars("streams-pom.xml").glob("kafka-streams-[0-9]*.jar")
    found: dict[str, dict[str, Any]] = {}
    for jar in [*streams, *sorted(jars.jars("schemas-pom.xml").glob("*.jar"))]:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    text = re.sub(r"(?m)\s//.*$|^//.*$|/\*.*?\*/", "", archive.read(name).decode())
                    found[name.removeprefix("common/message/").removesuffix(".json")] = json.loads(text)
    return found


@pytest.mark.parametrize("api", served(), ids=lambda api: api.name)
def test_compatible_broker_offers_each_api_as_far_as_kafka_4_3_does(api: Api) -> None:
    (jar,) = jars.jars().glob("kafka-clients-4.3*.jar")
    name = f"common/message/{request_class(api).__name__}.json"
    with zipfile.ZipFile(jar) as archive:
        theirs = json.loads(re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode()))
    newest = versions(theirs["validVersions"]).highest - bool(theirs.get("latestVersionUnstable"))
    assert min(VERSIONS[api].highest, NEWEST_VERSIONS.get(api, newest)) == newest


def versions(text: str | None) -> Versions:
    if text is None or text == "none":
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), 0x7FFF)
    lowest, _, highest = text.partition("-")
    return Versions(int(lowest), int(highest or lowest))


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_every_version_is_kafka_s(name: str, kafka_schemas: dict[str, dict[str, Any]]) -> None:
    theirs, ours = kafka_schemas[name], schema(name)
    parsed = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", [])}
    flexible = versions(theirs["flexibleVersions"])
    for version in ours.head.versions:
        assert our_shape(ours, ours.struct, version) == their_shape(theirs["fields"], parsed, flexible, version), (
            f"{name} v{version}"
        )


@pytest.mark.parametrize("name", NAMES)
def test_versions_and_keys_are_kafka_s(name: str, kafka_schemas: dict[str, dict[str, Any]]) -> None:
    theirs, head = kafka_schemas[name], schema(name).head
    assert head.versions == versions(theirs["validVersions"])
    flexible = versions(theirs["flexibleVersions"])
    assert [version in head.flexible for version in head.versions] == [v in flexible for v in head.versions]
    is_api = theirs["type"] in ("request", "response")
    assert head.api_key == (theirs["apiKey"] if is_api else None)
    assert head.record_type == (theirs.get("apiKey") if not is_api else None)
    if theirs["type"] == "request":
        newest = head.versions.highest
        assert head.unstable == (newest if theirs.get("latestVersionUnstable") else None)


def our_shape(message: MessageSchema, struct: Struct, version: int) -> Shape:
    """Return what our schema says of one version."""
    shape = []
    for field in struct.fields:
        if version not in field.versions or field.is_extension:
            continue
        is_tagged = field.tag is not None and version in message.head.flexible
        element = field.element
        inner = our_shape(message, element, version) if isinstance(element, Struct) else TYPES.get(element, element)
        shape.append(
            {
                "name": field.kafka_name,
                "array": field.is_array,
                "type": inner,
                "nullable": version in field.nullable,
                "tag": field.tag if is_tagged else None,
                "compact": version in message.head.flexible and not field.is_classic if _has_length(field) else None,
                "default": field.default,
            }
        )
    return shape


def their_shape(fields: list[dict[str, Any]], structs: dict[str, Any], flexible: Versions, version: int) -> Shape:
    """Return what Kafka's schema says of one version."""
    shape = []
    for field in fields:
        if version not in versions(field.get("versions") or field["taggedVersions"]):
            continue
        name = field["type"].removeprefix("[]")
        is_array, is_struct = field["type"].startswith("[]"), name[0].isupper()
        inner = field.get("fields") or structs.get(name, [])
        own = versions(field["flexibleVersions"]) if "flexibleVersions" in field else flexible
        has_length = is_array or name in ("string", "bytes", "records")
        shape.append(
            {
                "name": field["name"],
                "array": is_array,
                "type": their_shape(inner, structs, flexible, version) if is_struct else name,
                "nullable": version in versions(field.get("nullableVersions")),
                "tag": field["tag"] if version in versions(field.get("taggedVersions")) else None,
                "compact": version in own if has_length else None,
                "default": _their_default(field, name, is_array, is_struct),
            }
        )
    return shape


def _has_length(field: Field) -> bool:
    return field.is_array or (isinstance(field.element, str) and field.element not in FIXED)


def _their_default(field: dict[str, Any], name: str, is_array: bool, is_struct: bool) -> object:
    """Return the value that Kafka's generated class starts with."""
    # A JSON null is no default at all, unlike the text "null".
    text = field.get("default") or ""
    if text == "null" or name == "records":
        return None
    if is_array or is_struct:
        return ()
    match name:
        case "string":
            return text
        case "bytes":
            return b""
        case "uuid":
            return bytes(16)
        case "bool":
            return str(text).lower() == "true"
        case "float64":
            return float(text or 0)
        case _:
            return int(str(text or 0), 0)


@pytest.mark.parametrize("api_key", PASSED_VERSIONS)
def test_the_gateway_offers_versions_whose_addresses_it_replaces(
    api_key: int, kafka_schemas: dict[str, dict[str, Any]]
) -> None:
    def ports(fields: list[dict[str, Any]], version: int) -> list[str]:
        present = [field for field in fields if version in versions(field["versions"])]
        inner = [name for field in present for name in ports(field.get("fields", []), version)]
        return [field["name"] for field in present if field["name"] in ("Port", "Listeners")] + inner

    requests = {each["apiKey"]: each for each in kafka_schemas.values() if each.get("type") == "request"}
    theirs = requests[api_key]
    response = kafka_schemas[theirs["name"].removesuffix("Request") + "Response"]
    assert PASSED_VERSIONS[api_key].highest <= versions(theirs["validVersions"]).highest
    for version in PASSED_VERSIONS[api_key]:
        assert bool(ports(response["fields"], version)) == (address_walker(api_key, version) is not None)
