"""ACLs: describe, create and delete the rules of who may do what.

v1 adds prefixed patterns (KIP-290), v2 is flexible, v3 adds resources of type USER (KIP-373). Without an authorizer
each is answered with SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import Any

from kohort.model.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

MOST_CHANGED = 10_000
"""Rules that one request adds or removes, as in Kafka."""

_DISABLED = "No Authorizer is configured on the broker: set authorizer.class.name."

_Resource = DescribeAclsResponse.Resource
_Result = CreateAclsResponse.Result
_FilterResult = DeleteAclsResponse.FilterResult


def describe_acls(context: ApiContext, request: Request, message: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    """Answer with the rules that a filter selects, by their pattern."""
    del request
    _require_authorizer(context)
    response = DescribeAclsResponse(error_message=None, resources=[])
    by_pattern: dict[tuple[int, str, int], list[Any]] = {}
    for acl in context.state.acls.selected(_filter_of(message)):
        described = _Resource.Acl(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
        )
        by_pattern.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(described)
        yield 1
    response.resources = [
        _Resource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=several)
        for (kind, name, pattern), several in by_pattern.items()
    ]
    return response


def create_acls(context: ApiContext, request: Request, message: CreateAclsRequest) -> Steps[CreateAclsResponse]:
    """Add each rule that is valid; one that is there already is added without effect."""
    _require_authorizer(context)
    _check_count(len(message.creations))
    acls = context.state.acls
    added: dict[AclBinding, None] = {}
    response = CreateAclsResponse(results=[])
    for creation in message.creations:
        result = _Result(error_message=None)
        response.results.append(result)
        yield 1
        try:
            acl = _checked(creation)
            if acl not in acls:
                added[acl] = None
        except KafkaError as error:
            set_error(result, error)
    if added:
        context.state.change_acls(list(added), (), request.now_ms)
    return response


def refuse_create_acls(message: CreateAclsRequest, code: ErrorCode, text: str, version: int) -> CreateAclsResponse:
    """Return an error for each rule."""
    del version
    return CreateAclsResponse(results=[_Result(error_code=code, error_message=text) for _ in message.creations])


def delete_acls(context: ApiContext, request: Request, message: DeleteAclsRequest) -> Steps[DeleteAclsResponse]:
    """Remove the rules that each filter selects, and answer with them."""
    _require_authorizer(context)
    removed: dict[AclBinding, None] = {}
    response = DeleteAclsResponse(filter_results=[])
    for asked in message.filters:
        result = _FilterResult(error_message=None, matching_acls=[])
        response.filter_results.append(result)
        yield 1
        try:
            selected = context.state.acls.selected(_filter_of(asked))
        except KafkaError as error:
            set_error(result, error)
            continue
        for acl in selected:
            removed[acl] = None
            result.matching_acls.append(
                _FilterResult.MatchingAcl(
                    error_message=None,
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
            yield 1
    _check_count(len(removed))
    if removed:
        context.state.change_acls((), list(removed), request.now_ms)
    return response


def refuse_delete_acls(message: DeleteAclsRequest, code: ErrorCode, text: str, version: int) -> DeleteAclsResponse:
    """Return an error for each filter."""
    del version
    return DeleteAclsResponse(
        filter_results=[_FilterResult(error_code=code, error_message=text, matching_acls=[]) for _ in message.filters]
    )


def _require_authorizer(context: ApiContext) -> None:
    if context.access.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, _DISABLED)


def _check_count(count: int) -> None:
    if count > MOST_CHANGED:
        text = f"{count} ACLs would be changed; one request may change {MOST_CHANGED}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _filter_of(asked: DescribeAclsRequest | DeleteAclsRequest.Filter) -> AclFilter:
    """Return what a filter selects. Raises KafkaError."""
    wanted = AclFilter(
        ResourceType.of(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.of(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        AclOperation.of(asked.operation),
        AclPermission.of(asked.permission_type),
    )
    if wanted.is_unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown type, operation or permission in {wanted}")
    return wanted


def _checked(creation: CreateAclsRequest.Creation) -> AclBinding:
    """Return the rule that is to be created. Raises KafkaError."""
    acl = AclBinding(
        ResourceType.of(creation.resource_type),
        creation.resource_name,
        PatternType.of(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation.of(creation.operation),
        AclPermission.of(creation.permission_type),
    )
    problem = None
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.name:
        problem = "Invalid empty resource name"
    elif acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        problem = f"Invalid resourceType {acl.resource_type.name}"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"Invalid patternType {acl.pattern_type.name}"
    elif acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        problem = f"Invalid operation {acl.operation.name}"
    elif acl.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        problem = f"Invalid permissionType {acl.permission.name}"
    elif ":" not in acl.principal:
        problem = f"Could not parse principal from `{acl.principal}`: expected TYPE:NAME, such as User:alice"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return acl
