"""One API in one version, as requests are served by it.

It is handed the module of the API and imports none, so that connections and the modules of the APIs can both name it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.model.errors import ErrorCode
from kohort.node.error_responses import error_response
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api, flexible_from, request_class, response_class
from kohort.wire.codec import Buffer, decoder, gatherer, stepwise_decoder, stepwise_gatherer


class Route:
    """One API in one version: how to read, serve, refuse and write it."""

    def __init__(self, api: Api, version: int, module: Any) -> None:
        """`module.handle` returns a response, None if it comes later, or a generator of steps that ends so."""
        self.api = api
        self.version = version
        self.handle: Callable[[Any, Any, Any], Any] = module.handle
        self._refuse: Callable[[Any, ErrorCode, str, int], Any] | None = getattr(module, "refuse", None)
        self.overtakes: Callable[[Any, Any, Any, int], bool] | None = getattr(module, "overtakes", None)
        """Whether a request may be served before the parked one that it came behind; most never are."""
        self.decode = decoder(request_class(api), version)
        self.gather = gatherer(response_class(api), version)
        self._stepwise_decoder: Callable[[Buffer, int, int], Steps[tuple[Any, int]]] | None = None
        self._stepwise_gatherer: Callable[[Any, list[Buffer]], Steps[None]] | None = None
        self.has_tagged_request = version >= flexible_from(api)
        # KIP-511: the response header of ApiVersions is v0 for ever, so that any client can read it.
        self.has_tagged_response = self.has_tagged_request and api != Api.API_VERSIONS

    def refuse(self, message: Any, code: ErrorCode, text: str) -> Any:
        """Return an error response."""
        if self._refuse is not None:
            return self._refuse(message, code, text, self.version)
        return error_response(response_class(self.api), message, code, text)

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
