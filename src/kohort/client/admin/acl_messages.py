"""ACLs as the requests and responses of the admin client carry them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kohort.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from kohort.wire.messages import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)


def create_request(acls: Iterable[AclBinding]) -> CreateAclsRequest:
    """Return the request that creates rules."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.Creation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )


def describe_request(wanted: AclFilter) -> DescribeAclsRequest:
    """Return the request for the rules that a filter selects."""
    return DescribeAclsRequest(**_filter_fields(wanted))


def delete_request(wanted: AclFilter) -> DeleteAclsRequest:
    """Return the request that deletes the rules that a filter selects."""
    return DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**_filter_fields(wanted))])


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def described(response: DescribeAclsResponse) -> list[AclBinding]:
    """Return the rules of a response, sorted."""
    return sorted(
        _binding(resource.resource_type, resource.resource_name, resource.pattern_type, acl)
        for resource in response.resources
        for acl in resource.acls
    )


def deleted(result: DeleteAclsResponse.FilterResult) -> list[AclBinding]:
    """Return the rules that a filter has deleted, sorted."""
    return sorted(_binding(acl.resource_type, acl.resource_name, acl.pattern_type, acl) for acl in result.matching_acls)


def _binding(kind: int, name: str, pattern: int, acl: Any) -> AclBinding:
    return AclBinding(
        ResourceType.of(kind),
        name,
        PatternType.of(pattern),
        acl.principal,
        acl.host,
        AclOperation.of(acl.operation),
        AclPermission.of(acl.permission_type),
    )
