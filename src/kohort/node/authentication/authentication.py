"""The logins that a broker offers: what begins when a client names a mechanism of a listener."""

from __future__ import annotations

from kohort.node.authentication.logins import Login, PlainLogin
from kohort.node.configuration.listeners import Listener


class Authentication:
    """Begins logins by the users that this broker knows."""

    def begin(self, listener: Listener, mechanism: str) -> Login:
        """Return a login by one of the listener's mechanisms."""
        assert mechanism == "PLAIN", "a listener offers what there are logins for"
        return PlainLogin(listener.plain_users)
