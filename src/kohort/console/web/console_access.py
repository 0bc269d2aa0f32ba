"""Who may use the console: a token in the address, a cookie for it, and no page of another site.

The console listens on this machine by default, where every browser tab and every user can reach it. A request is
answered if its Host is one that the console is known by (a name of a hostile site that resolves to this machine is not)
and if it has the cookie that the token was exchanged for, or the header by which a trusted proxy names its user. What
changes something also needs the Origin of the console and a token of the form, which no other site can read.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of each response. Style and script are files of the console: nothing written into a page can run."""


@dataclass(frozen=True, slots=True)
class ConsoleAccess:
    """The rules of one console. `hosts` are the values of Host that it is known by, lower-case.

    `login_header` names the user where the request comes from one of `proxies`; empty without a proxy.
    """

    token: str
    hosts: frozenset[str]
    cookie_name: str = "kohort-console"
    login_header: str = ""
    proxies: frozenset[str] = frozenset()

    def is_known_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the Host of a request is the console's."""
        return headers.get("host", "").lower() in self.hosts

    def is_token(self, text: str) -> bool:
        """Whether a text is the token of the address."""
        return hmac.compare_digest(text.encode(errors="replace"), self.token.encode())

    def user(self, headers: Mapping[str, str], peer: str) -> str | None:
        """Return who sends a request: the proxy's user, "" for the owner of the cookie, None for neither."""
        if self.login_header and peer in self.proxies and (name := headers.get(self.login_header.lower(), "")):
            return name
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return None
        cookie = cookies.get(self.cookie_name)
        return "" if cookie is not None and _same(cookie.value, self.cookie()) else None

    def cookie(self) -> str:
        """Return the value of the cookie: it does not contain the token."""
        return self._derived("cookie")

    def form_token(self) -> str:
        """Return the token of forms that change something."""
        return self._derived("form")

    def is_own_form(self, headers: Mapping[str, str], form_token: str) -> bool:
        """Whether a form was sent by a page of the console."""
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        origin = urlsplit(headers.get("origin", ""))
        return origin.netloc.lower() in self.hosts and _same(form_token, self.form_token())

    def _derived(self, purpose: str) -> str:
        return hmac.digest(self.token.encode(), purpose.encode(), "sha256").hex()


def known_hosts(host: str, port: int, more: Collection[str] = ()) -> frozenset[str]:
    """Return the values of Host of a console on an address; `more` are those of a proxy, with a port or without."""
    shown = f"[{host}]" if ":" in host else host
    names = {shown, "localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else {shown}
    return frozenset(f"{name}:{port}".lower() for name in names) | {each.lower() for each in more}


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach an address."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
