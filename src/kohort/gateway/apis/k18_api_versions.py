"""ApiVersions: it names the client's software (KIP-511)."""

from __future__ import annotations

from kohort.gateway.apis.api import ConnectionApi
from kohort.gateway.apis.connection_state import Connection
from kohort.parking.client_software import software_named
from kohort.wire.messages import ApiVersionsRequest, ApiVersionsResponse


def request(connection: Connection, message: ApiVersionsRequest, client_id: str) -> None:
    """Note the software."""
    software = software_named(message.client_software_name or "", message.client_software_version or "")
    connection.name_software(software, client_id)


API = ConnectionApi(request_type=ApiVersionsRequest, response_type=ApiVersionsResponse, request=request)
