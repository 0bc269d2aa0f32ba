"""ApiVersions: it names the client's software (KIP-511)."""

from __future__ import annotations

from kohort.gateway.apis.api import ConnectionApi
from kohort.gateway.apis.connection_state import Connection
from kohort.wire.messages import ApiVersionsRequest, ApiVersionsResponse


def request(connection: Connection, message: ApiVersionsRequest, client_id: str) -> None:
    """Note the software."""
    connection.name_software(message.client_software_name or "", client_id)


API = ConnectionApi(request_type=ApiVersionsRequest, response_type=ApiVersionsResponse, request=request)
