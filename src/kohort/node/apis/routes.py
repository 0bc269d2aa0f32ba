"""From an API key and a version to the code that serves it.

The modules of `node.apis` are the list of what this broker can do: each is loaded at its first request, and
nothing that has no module is ever advertised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from kohort.node import apis
from kohort.node.authorization.api_checks import GUARDS, Guard
from kohort.node.route import Route
from kohort.wire.apis import VERSIONS, Api

MODULES = {int(key): module.name for module in iter_modules(apis.__path__) for key in re.findall(r"\d+", module.name)}
"""Names of the modules in `node.apis` by API key."""


class Routes:
    """The routes met so far, by API key and version. `newest` bounds the versions of some APIs, by key.

    With `is_guarded`, for a broker with an authorizer, a request is refused that its sender may not make.
    """

    def __init__(self, newest: Mapping[int, int], *, is_guarded: bool = False) -> None:
        self.known: dict[int, Route] = {}
        """By `api_key << 16 | version`."""
        self._newest = newest
        self._is_guarded = is_guarded

    def get(self, api_key: int, version: int) -> Route | None:
        """Return the route, or None when this broker does not serve the API in that version."""
        route = self.known.get(api_key << 16 | version)
        if route is None and api_key in MODULES and version <= self._newest.get(api_key, version):
            api = Api(api_key)
            if VERSIONS[api].lowest <= version <= VERSIONS[api].highest:
                module = import_module(f"kohort.node.apis.{MODULES[api]}")
                route = Route(api, version, module)
                if self._is_guarded and api in GUARDS:
                    route.handle = guarded(route.handle, GUARDS[api])
                self.known[api_key << 16 | version] = route
        return route


def guarded(handle: Callable[[Any, Any, Any], Any], guards: tuple[Guard, ...]) -> Callable[[Any, Any, Any], Any]:
    """Return a handler that raises KafkaError for a request that its sender may not make."""

    def refuse_or_handle(context: Any, request: Any, message: Any) -> Any:
        context.access.require_all(request.connection, guards, message, request.api_version)
        return handle(context, request, message)

    return refuse_or_handle


def served() -> list[Api]:
    """Return the APIs this broker serves, in the order of their keys."""
    return [Api(key) for key in sorted(MODULES)]
