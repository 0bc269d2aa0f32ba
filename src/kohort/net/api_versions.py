"""Negotiation of API versions: the newest that client and broker support (KIP-35, KIP-511).

ApiVersions is the one request sent before anything is known of the broker. A broker that does not support its version
answers in version 0, with the versions that it supports, and the request is sent again.
"""

from __future__ import annotations

from kohort import __version__
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.codec import Buffer
from kohort.wire.frames import decode_response
from kohort.wire.messages import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.primitives import MalformedMessage

FIRST_VERSION = 4
# v5 names the cluster and node it expects to reach (KIP-1242); a bootstrap address promises neither.


def api_versions_request() -> ApiVersionsRequest:
    """Return the first request on a connection."""
    return ApiVersionsRequest(client_software_name="kohort", client_software_version=__version__)


def retry_version(frame: Buffer) -> int | None:
    """Return the version in which to send the request again, or None where `frame` is an answer to `FIRST_VERSION`."""
    if bytes(frame[4:6]) != ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        return None
    _, refusal = decode_response(ApiVersionsResponse, 0, frame)
    known = [key.max_version for key in refusal.api_keys if key.api_key == Api.API_VERSIONS]
    return min(known[0], FIRST_VERSION) if known else 0


class BrokerVersions:
    """The versions that one broker supports, by API."""

    def __init__(self, address: str, frame: Buffer, version: int) -> None:
        """Read ApiVersions' answer. Raises `KafkaError` where it is none."""
        self.address = address
        try:
            _, answer = decode_response(ApiVersionsResponse, version, frame)
        except MalformedMessage as cause:
            text = f"{address} does not speak Kafka's protocol ({cause}): is it a broker's listener, and is TLS right?"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from cause
        if answer.error_code:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{address} refused to negotiate versions")
        self._ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        self._features = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        self._finalized = {each.name: each.max_version_level for each in answer.finalized_features}

    def newest(self, api: Api, *, highest: int | None = None) -> int:
        """Return the newest version of an API that both sides support, up to `highest`. Raises UNSUPPORTED_VERSION."""
        ours = VERSIONS[api]
        lowest_theirs, highest_theirs = self._ranges.get(api, (0, -1))
        version = min(ours.highest, highest_theirs, ours.highest if highest is None else highest)
        if version < max(ours.lowest, lowest_theirs):
            theirs = f"versions {lowest_theirs}-{highest_theirs}" if highest_theirs >= 0 else "no version"
            text = f"{self.address} speaks {theirs} of {api.name}, this client {ours}: one of them must be newer"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return version

    def supports(self, api: Api, version: int = 0) -> bool:
        """Return whether the broker supports a version of an API."""
        lowest, highest = self._ranges.get(api, (0, -1))
        return lowest <= version <= highest

    def has_feature(self, name: str, version: int = 1) -> bool:
        """Return whether the broker supports a version of a feature (KIP-584); ours begin with `kohort.`."""
        lowest, highest = self._features.get(name, (0, -1))
        return lowest <= version <= highest

    def span(self, api: Api) -> str:
        """Return the versions of an API that the broker supports, such as 0-9; empty for none."""
        lowest, highest = self._ranges.get(api, (0, -1))
        return f"{lowest}-{highest}" if highest >= 0 else ""

    def highest(self, feature: str) -> int:
        """Return the highest version of a feature that the broker supports; 0 for none."""
        return self._features.get(feature, (0, 0))[1]

    def level(self, feature: str) -> int:
        """Return the level of a feature that the cluster has finalized; 0 is off (KIP-584)."""
        return self._finalized.get(feature, 0)

    def is_enabled(self, name: str) -> bool:
        """Return whether the cluster has finalized a version of a feature above 0."""
        return self.level(name) > 0
