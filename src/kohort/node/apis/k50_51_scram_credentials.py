"""SCRAM credentials of users (KIP-554): describe their mechanisms and iterations, set or delete them.

Keys never leave the broker. A client sends a password salted, from which the keys are computed here. All changes to
one user are made, or none.
"""

from __future__ import annotations

from collections import Counter

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authentication import Entry, credential_entry, removal_entry
from kohort.node.client_connection import Request
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kohort.wire.scram import MIN_ITERATIONS, NUMBERS, Credential

MECHANISMS = {number: name for name, number in NUMBERS.items()}
MAX_ITERATIONS = 16_384

_Described = DescribeUserScramCredentialsResponse.Result
_Deletion = AlterUserScramCredentialsRequest.Deletion
_Upsertion = AlterUserScramCredentialsRequest.Upsertion


def describe_user_scram_credentials(
    context: ApiContext, request: Request, message: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Describe the users that were asked for, each once, or all."""
    asked = Counter(user.name for user in message.users or ())
    results = []
    for name in asked or context.state.scram_credentials:
        result = _Described(user=name, error_message=None)
        credentials = context.state.scram_credentials.of(name)
        if asked[name] > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            set_error(result, KafkaError(ErrorCode.DUPLICATE_RESOURCE, text))
        elif not credentials:
            text = f"Attempt to describe a user credential that does not exist: {name}"
            set_error(result, KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text))
        else:
            result.credential_infos = [
                _Described.CredentialInfo(mechanism=NUMBERS[mechanism], iterations=credential.iterations)
                for mechanism, credential in sorted(credentials.items())
            ]
        results.append(result)
        yield 1
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def alter_user_scram_credentials(
    context: ApiContext, request: Request, message: AlterUserScramCredentialsRequest
) -> Steps[AlterUserScramCredentialsResponse]:
    """Change the credentials of each user on its own."""
    changes: dict[str, list[_Deletion | _Upsertion]] = {}
    for change in _changes(message):
        changes.setdefault(change.name, []).append(change)
    results = []
    for name, own in changes.items():
        result = AlterUserScramCredentialsResponse.Result(user=name, error_message=None)
        try:
            if len({change.mechanism for change in own}) < len(own):
                text = "A user credential cannot be altered twice in the same request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
            context.state.write([_entry(context, change) for change in own], request.now_ms)
        except (KafkaError, StorageError) as error:
            set_error(result, error)
        results.append(result)
        yield 1
    return AlterUserScramCredentialsResponse(results=results)


def refuse_alter_user_scram_credentials(
    message: AlterUserScramCredentialsRequest, code: ErrorCode, text: str, version: int
) -> AlterUserScramCredentialsResponse:
    """Return an error for every user."""
    names = dict.fromkeys(change.name for change in _changes(message))
    result = AlterUserScramCredentialsResponse.Result
    return AlterUserScramCredentialsResponse(
        results=[result(user=name, error_code=code, error_message=text) for name in names]
    )


def _changes(message: AlterUserScramCredentialsRequest) -> list[_Deletion | _Upsertion]:
    return [*message.deletions, *message.upsertions]


def _entry(context: ApiContext, change: _Deletion | _Upsertion) -> Entry:
    """Return the entry of one change. Raises KafkaError."""
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, _Deletion):
        if mechanism not in context.state.scram_credentials.of(change.name):
            text = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return removal_entry(change.name, mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salt or not change.salted_password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty")
    salted, salt = bytes(change.salted_password), bytes(change.salt)
    return credential_entry(change.name, Credential.from_salted(mechanism, salted, salt, change.iterations))
