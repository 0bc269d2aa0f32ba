"""Each API under an authorizer: with the rights that it takes, and without each of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.authorization.api_cases import CASES, LISTS, Case, Right, allowing, errors_in
from tests.unit.node.desk import Desk, Peer

from kohort.model.acl import Principal
from kohort.node.apis.routes import served
from kohort.node.authorization.api_checks import CHECKS, GUARDS, NOTHING_CHECKED
from kohort.node.configuration.broker_settings import STANDARD_AUTHORIZER
from kohort.wire.apis import Api


def desk(**settings: Any) -> Desk:
    """Return a broker with an authorizer, the topic `orders`, the group `billing` and the super user `root`."""
    made = Desk(**{"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:root"} | settings)
    made.create("orders")
    commits = next(case for case in CASES if case.api is Api.OFFSET_COMMIT)
    client(made, "root").call(commits.message, commits.version)
    return made


def client(broker: Desk, name: str = "alice") -> Peer:
    peer = broker.connect()
    peer.connection.principal = Principal("User", name)
    return peer


def answer(broker: Desk, case: Case, name: str = "alice") -> Any:
    peer = client(broker, name)
    peer.send(case.message, case.version)
    assert peer.closed is None, peer.closed
    broker.advance(4000)
    (found,) = peer.answers()
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_carried_out_with_all_its_rights(case: Case) -> None:
    broker = desk()
    broker.node.state.change_acls([allowing(right) for right in case.rights], [], 0)
    assert not [*errors_in(answer(broker, case))]


@pytest.mark.parametrize(("case", "missing"), [(case, right) for case in CASES for right in case.rights], ids=str)
def test_request_without_one_right_has_the_error_of_its_resource(case: Case, missing: Right) -> None:
    broker = desk()
    broker.node.state.change_acls([allowing(right) for right in case.rights if right != missing], [], 0)
    assert set(errors_in(answer(broker, case))) == {case.rights[missing]}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_super_user_needs_no_rights(case: Case) -> None:
    assert not [*errors_in(answer(desk(), case, "root"))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_an_authorizer_nothing_is_refused(case: Case) -> None:
    assert not [*errors_in(answer(desk(authorizer_class_name="", super_users=""), case))]


def test_every_api_has_its_checks() -> None:
    assert set(served()) == set(GUARDS) | set(CHECKS) | NOTHING_CHECKED


def test_every_api_with_checks_has_a_case() -> None:
    assert {case.api for case in CASES} | LISTS == set(GUARDS) | set(CHECKS)
