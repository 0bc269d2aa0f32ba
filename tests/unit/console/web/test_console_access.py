"""Who may use the console."""

from __future__ import annotations

import pytest

from kohort.console.web.console_access import ConsoleAccess, known_hosts

HOSTS = known_hosts("127.0.0.1", 8383)
ACCESS = ConsoleAccess("t0ken", HOSTS)
PROXIED = ConsoleAccess("t0ken", HOSTS, login_header="X-Forwarded-User", proxies=frozenset({"127.0.0.1"}))


@pytest.mark.parametrize("host", ["127.0.0.1:8383", "localhost:8383", "LOCALHOST:8383", "[::1]:8383"])
def test_names_of_this_machine_are_known(host: str) -> None:
    assert ACCESS.is_known_host({"host": host})


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:8383", "127.0.0.1:80", "127.0.0.1"])
def test_a_name_that_resolves_to_this_machine_is_not(host: str) -> None:
    assert not ACCESS.is_known_host({"host": host})


def test_other_hosts_are_known_only_where_they_are_allowed() -> None:
    assert known_hosts("0.0.0.0", 80) == {"0.0.0.0:80"}
    assert known_hosts("::", 80, ["Ops.example.org"]) == {"[::]:80", "ops.example.org"}


def test_a_cookie_is_the_owner_and_the_token_is_not_in_it() -> None:
    assert ACCESS.user({"cookie": f"a=b; kohort-console={ACCESS.cookie()}"}, "127.0.0.1") == ""
    assert "t0ken" not in ACCESS.cookie()


@pytest.mark.parametrize(
    "cookie", ["", "kohort-console=", "kohort-console=t0ken", "kohort-console=é", "\x00;;=", "a" * 9000]
)
def test_any_other_cookie_is_no_login(cookie: str) -> None:
    assert ACCESS.user({"cookie": cookie}, "127.0.0.1") is None


def test_the_header_of_a_proxy_counts_only_from_the_proxy() -> None:
    headers = {"x-forwarded-user": "ann"}
    assert PROXIED.user(headers, "127.0.0.1") == "ann"
    assert PROXIED.user(headers, "203.0.113.9") is None
    assert ACCESS.user(headers, "127.0.0.1") is None


def test_a_form_needs_the_origin_of_the_console_and_its_token() -> None:
    own = {"origin": "http://localhost:8383"}
    assert ACCESS.is_own_form(own, ACCESS.form_token())
    assert ACCESS.is_own_form(
        {"origin": "https://localhost:8383", "sec-fetch-site": "same-origin"}, ACCESS.form_token()
    )
    assert not ACCESS.is_own_form(own, ACCESS.cookie())
    assert not ACCESS.is_own_form(own, "")
    assert not ACCESS.is_own_form({}, ACCESS.form_token())
    assert not ACCESS.is_own_form({"origin": "http://evil.example"}, ACCESS.form_token())
    assert not ACCESS.is_own_form({"origin": "null"}, ACCESS.form_token())
    assert not ACCESS.is_own_form({**own, "sec-fetch-site": "cross-site"}, ACCESS.form_token())
