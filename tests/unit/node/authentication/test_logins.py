"""Tokens of OAUTHBEARER on the broker's side: the messages of RFC 7628, and the claims that let a client in."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.node.authentication import BearerLogin, ClaimRules, LoginFailed, User

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RULES = ClaimRules("issuer", ("kohort", "kafka"), 30_000, "sub")
GOOD = {"sub": "ann", "exp": NOW_S + 60, "iat": NOW_S - 5, "iss": "issuer", "aud": ["other", "kafka"]}


def login(claims: dict[str, Any] | None = None) -> BearerLogin:
    def claims_of(token: str) -> dict[str, Any]:
        if token != "good.one":
            raise ValueError("the token's signature is wrong")
        return GOOD if claims is None else claims

    return BearerLogin(claims_of, lambda found: RULES.user(found, NOW_MS))


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\1auth=Bearer good.one\1\1",
        b"n,a=ann,\1auth=bearer good.one\1\1",
        b"n,,\1host=h\1auth=Bearer good.one\1port=1\1\1",
    ],
)
def test_a_token_that_is_right_lets_its_user_in_until_it_expires(message: bytes) -> None:
    assert login().step(message) == (b"", User("ann", NOW_MS + 90_000))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"n,,\1auth=Bearer other\1\1", "signature is wrong"),
        (b"n,a=bob,\1auth=Bearer good.one\1\1", "cannot log in as another"),
        (b"n,,\1auth=Basic good.one\1\1", "malformed"),
        (b"n,,\1auth=Bearer good.one\1", "malformed"),
        (b"good.one", "malformed"),
        (b"\xff\xff", "utf-8"),
        (b"", "malformed"),
    ],
)
def test_a_refusal_is_sent_as_json_and_fails_when_it_was_acknowledged(message: bytes, reason: str) -> None:
    refusing = login()
    assert refusing.step(message) == (b'{"status":"invalid_token"}', None)
    with pytest.raises(LoginFailed, match=reason):
        refusing.step(b"\1")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": None}, "never expires"),
        ({"exp": "soon"}, "claim exp is no time"),
        ({"exp": True}, "claim exp is no time"),
        ({"exp": float("nan")}, "claim exp is no time"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iat": NOW_S + 31}, "not valid yet"),
        ({"iss": "another"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "kohort2"}, "another audience"),
        ({"aud": [["kafka"], 7]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": ""}, "names no user"),
        ({"sub": 7}, "names no user"),
    ],
)
def test_claims_that_are_wrong_are_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(LoginFailed, match=reason):
        RULES.user(GOOD | change, NOW_MS)


@pytest.mark.parametrize("change", [{"exp": NOW_S - 29}, {"nbf": NOW_S + 30}, {"aud": "kohort"}])
def test_clocks_may_differ_by_the_skew(change: dict[str, Any]) -> None:
    assert RULES.user(GOOD | change, NOW_MS).name == "ann"
