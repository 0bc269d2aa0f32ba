"""From an API key and a version to the code that serves it.

The modules of `node.apis` are the list of what this broker can do: each is loaded at its first request, and
nothing that has no module is ever advertised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from kohort.node import apis
from kohort.node.route import Route
from kohort.wire.apis import VERSIONS, Api

MODULES = {int(key): module.name for module in iter_modules(apis.__path__) for key in re.findall(r"\d+", module.name)}
"""Names of the modules in `node.apis` by API key."""


class Routes:
    """The routes met so far, by API key and version. `newest` bounds the versions of some APIs, by key."""

    def __init__(self, newest: Mapping[int, int]) -> None:
        self.known: dict[int, Route] = {}
        """By `api_key << 16 | version`."""
        self._newest = newest

    def get(self, api_key: int, version: int) -> Route | None:
        """Return the route, or None when this broker does not serve the API in that version."""
        route = self.known.get(api_key << 16 | version)
        if route is None and api_key in MODULES and version <= self._newest.get(api_key, version):
            api = Api(api_key)
            if VERSIONS[api].lowest <= version <= VERSIONS[api].highest:
                module = import_module(f"kohort.node.apis.{MODULES[api]}")
                route = self.known[api_key << 16 | version] = Route(api, version, module)
        return route


def served() -> list[Api]:
    """Return the APIs this broker serves, in the order of their keys."""
    return [Api(key) for key in sorted(MODULES)]
