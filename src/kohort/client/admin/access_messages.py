"""Who may do what, as the admin client's requests and responses carry it: ACLs, and SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kohort.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from kohort.net.environment import randbytes
from kohort.wire.messages import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kohort.wire.scram import DEFAULT_MECHANISM, ITERATIONS, NUMBERS, SALT_BYTES, salted_password


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


_NAMES = {number: name for name, number in NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A password to set for a user and mechanism; it is salted here, and does not leave the process."""

    user: str
    password: str = field(repr=False)
    mechanism: str = DEFAULT_MECHANISM
    iterations: int = ITERATIONS


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A user's credential of one mechanism, to delete."""

    user: str
    mechanism: str


ScramChange = UserScramCredentialUpsertion | UserScramCredentialDeletion


def alter_users_request(changes: Iterable[ScramChange]) -> AlterUserScramCredentialsRequest:
    """Return the request that makes changes. Salting takes some milliseconds for each password, on purpose.

    Raises:
        ValueError: A mechanism that is not one of SCRAM's, or an empty password.
    """
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[])
    for change in changes:
        number = NUMBERS.get(change.mechanism)
        if number is None:
            raise ValueError(f"mechanism {change.mechanism!r} of {change.user!r}: there are {', '.join(NUMBERS)}")
        if isinstance(change, UserScramCredentialDeletion):
            request.deletions.append(request.Deletion(name=change.user, mechanism=number))
            continue
        if not change.password:
            raise ValueError(f"the password of {change.user!r} is empty")
        salt = randbytes(SALT_BYTES)
        request.upsertions.append(
            request.Upsertion(
                name=change.user,
                mechanism=number,
                iterations=change.iterations,
                salt=salt,
                salted_password=salted_password(change.mechanism, change.password, salt, change.iterations),
            )
        )
    return request


def describe_users_request(users: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    """Return the request for users, all of them for None."""
    named = DescribeUserScramCredentialsRequest.UserName
    # An empty list asks for all as null does, to which Apache Kafka 4.3.1 gives those without the right no answer.
    return DescribeUserScramCredentialsRequest(users=[named(name=each) for each in users or ()])


def described_users(results: Iterable[DescribeUserScramCredentialsResponse.Result]) -> dict[str, dict[str, int]]:
    """Return the iterations of each user by mechanism, sorted."""
    return {
        result.user: {
            _NAMES.get(each.mechanism, f"mechanism {each.mechanism}"): each.iterations
            for each in sorted(result.credential_infos, key=lambda each: each.mechanism)
        }
        for result in sorted(results, key=lambda result: result.user)
    }
