"""DescribeClientQuotas: there are none. `kafka-configs --describe` asks for them before the credentials of users."""

from __future__ import annotations

from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.wire.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse


def describe_client_quotas(
    context: ApiContext, request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Answer that no client has a quota."""
    return DescribeClientQuotasResponse(error_message=None, entries=[])
