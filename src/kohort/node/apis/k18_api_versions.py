"""ApiVersions: what this broker serves.

v3 adds the client's name and version (KIP-511); v4 lets feature ranges begin at 0; v5 adds the cluster and
node the client believes it talks to (KIP-1242). A request newer than v5 is answered in v0, by `refuse`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.apis.routes import served
from kohort.node.client_connection import Request
from kohort.parking.client_software import software_named
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.messages import ApiVersionsRequest, ApiVersionsResponse

_NO_BOUNDS: Mapping[int, int] = {}
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(context: ApiContext, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer with every Api.API_VERSIONS that has a handler, and the features that clients look for."""
    if request.api_version >= 3:
        software = (message.client_software_name, message.client_software_version)
        if not all(map(_SOFTWARE.fullmatch, software)):
            return refuse_api_versions(message, ErrorCode.INVALID_REQUEST, "", request.api_version)
        request.connection.client_software = software_named(*software)
    stray_cluster = message.cluster_id is not None and message.cluster_id != context.state.cluster_id
    stray_node = message.node_id not in (-1, context.config.node_id)
    if request.api_version >= 5 and (stray_cluster or stray_node):
        return refuse_api_versions(message, ErrorCode.REBOOTSTRAP_REQUIRED, "", request.api_version)
    newest = context.config.newest_versions
    response = ApiVersionsResponse(api_keys=_ranges(served(), newest) if newest else _everything())
    if context.config.kohort_extensions:
        # Our own fields. 1: of SyncGroup, in which a leader may report why it could not assign. 2: of
        # ConsumerGroupHeartbeat, the lags of standby copies and a reason.
        response.supported_features.append(
            ApiVersionsResponse.SupportedFeature(name="kohort.group", min_version=1, max_version=2)
        )
    # Version 2 of transactions (KIP-890), by which clients write with Produce v12 and end with EndTxn v5.
    _finalize(response, "transaction.version", 2, request.api_version)
    if "consumer" in context.config.group_coordinator_rebalance_protocols:
        _finalize(response, "group.version", 1, request.api_version)
    if "streams" in context.config.group_coordinator_rebalance_protocols:
        _finalize(response, "streams.version", 1, request.api_version)
    response.finalized_features_epoch = context.state.epoch
    return response


def _finalize(response: ApiVersionsResponse, name: str, level: int, version: int) -> None:
    """Announce a feature at its highest level."""
    lowest = 0 if version >= 4 else 1  # clients of v3 cannot read a range that begins at 0 (KAFKA-17011)
    supported = ApiVersionsResponse.SupportedFeature(name=name, min_version=lowest, max_version=level)
    final = ApiVersionsResponse.FinalizedFeature(name=name, min_version_level=level, max_version_level=level)
    response.supported_features.append(supported)
    response.finalized_features.append(final)


def refuse_api_versions(
    message: ApiVersionsRequest | None, code: ErrorCode, text: str, version: int
) -> ApiVersionsResponse:
    """Return an error response; with UNSUPPORTED_VERSION the range of ApiVersions itself lets the client step down."""
    ranges = _ranges([Api.API_VERSIONS]) if code == ErrorCode.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=code, api_keys=ranges)


@cache
def _everything() -> list[ApiVersionsResponse.ApiKey]:
    return _ranges(served())


def _ranges(apis: list[Api], newest: Mapping[int, int] = _NO_BOUNDS) -> list[ApiVersionsResponse.ApiKey]:
    key = ApiVersionsResponse.ApiKey
    return [
        key(
            api_key=api,
            # librdkafka compresses nothing for a broker whose Produce does not begin at 0 (KAFKA-18659).
            min_version=0 if api == Api.PRODUCE else VERSIONS[api].lowest,
            max_version=min(VERSIONS[api].highest, newest.get(api, VERSIONS[api].highest)),
        )
        for api in apis
        if newest.get(api, VERSIONS[api].highest) >= VERSIONS[api].lowest
    ]
