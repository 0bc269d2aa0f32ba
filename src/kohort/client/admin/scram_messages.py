"""SCRAM credentials of users as the admin client describes and alters them (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.net.environment import randbytes
from kohort.wire.messages import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kohort.wire.scram import DEFAULT_MECHANISM, ITERATIONS, NUMBERS, SALT_BYTES, salted_password

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


def alter_request(changes: Iterable[ScramChange]) -> AlterUserScramCredentialsRequest:
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


def describe_request(users: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    """Return the request for users, all of them for None."""
    named = DescribeUserScramCredentialsRequest.UserName
    # An empty list asks for all as null does, to which Apache Kafka 4.3.1 gives those without the right no answer.
    return DescribeUserScramCredentialsRequest(users=[named(name=each) for each in users or ()])


def described(results: Iterable[DescribeUserScramCredentialsResponse.Result]) -> dict[str, dict[str, int]]:
    """Return the iterations of each user by mechanism, sorted."""
    return {
        result.user: {
            _NAMES.get(each.mechanism, f"mechanism {each.mechanism}"): each.iterations
            for each in sorted(result.credential_infos, key=lambda each: each.mechanism)
        }
        for result in sorted(results, key=lambda result: result.user)
    }
