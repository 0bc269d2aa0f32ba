"""From an API key and a version to the code that serves it.

The modules of `node.apis` are the list of what this broker can do: each is loaded at its first request, and
nothing that has no module is ever advertised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kohort.node import apis
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import VERSIONS, Api, flexible_from, request_class, response_class
from kohort.wire.codec import Buffer, decoder, gatherer, stepwise_decoder, stepwise_gatherer


class Route:
    """One API in one version: how to read, serve, refuse and write it."""

    __slots__ = (
        "_stepwise_decoder",
        "_stepwise_gatherer",
        "api",
        "decode",
        "gather",
        "handle",
        "has_tagged_request",
        "has_tagged_response",
        "overtakes",
        "refuse",
        "version",
    )

    def __init__(self, api: Api, version: int) -> None:
        """`handle` returns a response, None if it comes later, or a generator of steps that ends with one of these."""
        module: Any = import_module(f"kohort.node.apis.{apis.MODULES[api]}")
        self.api = api
        self.version = version
        self.handle: Callable[[Any, Any, Any], Any] = module.handle
        self.refuse: Callable[[Any, int, str, int], Any] = module.refuse
        self.overtakes: Callable[[Any, Any, Any, int], bool] | None = getattr(module, "overtakes", None)
        """Whether a request may be served before the parked one that it came behind; most never are."""
        self.decode = decoder(request_class(api), version)
        self.gather = gatherer(response_class(api), version)
        self._stepwise_decoder: Callable[[Buffer, int, int], Steps[tuple[Any, int]]] | None = None
        self._stepwise_gatherer: Callable[[Any, list[Buffer]], Steps[None]] | None = None
        self.has_tagged_request = version >= flexible_from(api)
        # KIP-511: the response header of ApiVersions is v0 for ever, so that any client can read it.
        self.has_tagged_response = self.has_tagged_request and api != Api.API_VERSIONS

    def decode_in_steps(self, frame: Buffer, position: int, limit: int) -> Steps[tuple[Any, int]]:
        """Decode a request of `limit` entries at most. Raises MalformedMessage."""
        if self._stepwise_decoder is None:
            self._stepwise_decoder = stepwise_decoder(request_class(self.api), self.version)
        return self._stepwise_decoder(frame, position, limit)

    def gather_in_steps(self, response: Any, parts: list[Buffer]) -> Steps[None]:
        """Encode a response as `gather` does."""
        if self._stepwise_gatherer is None:
            self._stepwise_gatherer = stepwise_gatherer(response_class(self.api), self.version)
        return self._stepwise_gatherer(response, parts)


class Routes:
    """The routes met so far, by API key and version. `newest` bounds the versions of some APIs, by key."""

    def __init__(self, newest: Mapping[int, int]) -> None:
        self.known: dict[int, Route] = {}
        """By `api_key << 16 | version`."""
        self._newest = newest

    def get(self, api_key: int, version: int) -> Route | None:
        """Return the route, or None when this broker does not serve the API in that version."""
        route = self.known.get(api_key << 16 | version)
        if route is None and version <= self._newest.get(api_key, version) and is_served(api_key, version):
            route = self.known[api_key << 16 | version] = Route(Api(api_key), version)
        return route


def is_served(api_key: int, version: int) -> bool:
    """Whether this broker answers the API in that version."""
    if api_key not in apis.MODULES:
        return False
    versions = VERSIONS[Api(api_key)]
    return versions.lowest <= version <= versions.highest


def served() -> list[Api]:
    """Return the APIs this broker serves, in the order of their keys."""
    return [Api(key) for key in sorted(apis.MODULES)]
