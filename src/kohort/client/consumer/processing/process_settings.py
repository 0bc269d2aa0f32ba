"""What `Consumer.process` is given: the handler, how many run at once, in which order, and what a failure does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, TypedDict

from kohort.client.arguments import whole_number
from kohort.client.consumer.processing.error_policies import ErrorPolicies, OnError
from kohort.client.consumer.processing.schedule import ORDERINGS, Ordering

COROUTINES = 1_000
THREADS = 32
REVOCATION_TIMEOUT_MS = 30_000


class ProcessOptions(TypedDict, total=False):
    """The keyword arguments of `process`; `ProcessSettings` has their defaults."""

    concurrency: int | None
    ordering: Ordering
    executor: Executor | None
    on_error: OnError | Sequence[OnError]
    revocation_timeout_ms: int
    exactly_once: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessSettings:
    """The settings of one `process`. Raises TypeError, ValueError."""

    handler: Callable[..., Any]
    concurrency: int | None = None
    ordering: Ordering = "key"
    batch: int | None = None
    executor: Executor | None = None
    on_error: OnError | Sequence[OnError] = "stop"
    revocation_timeout_ms: int = REVOCATION_TIMEOUT_MS
    exactly_once: bool = False
    policies: ErrorPolicies = field(init=False)

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise TypeError(f"handler={self.handler!r} is no function")
        if self.ordering not in ORDERINGS:
            raise ValueError(f"ordering={self.ordering!r} is none of {', '.join(ORDERINGS)}")
        if self.concurrency is not None:
            whole_number("concurrency", self.concurrency, 1)
        if self.batch is not None:
            whole_number("batch", self.batch, 1)
        whole_number("revocation_timeout_ms", self.revocation_timeout_ms, 0)
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise TypeError(f"executor={self.executor!r} is no concurrent.futures.Executor")
        if self.executor is not None and self.is_coroutine:
            raise TypeError("a coroutine function runs on the event loop: an executor takes a plain function")
        object.__setattr__(self, "policies", ErrorPolicies(self.on_error))

    @property
    def is_coroutine(self) -> bool:
        """Whether the handler runs on the event loop; otherwise in a thread or in the executor."""
        return iscoroutinefunction(self.handler) or iscoroutinefunction(type(self.handler).__call__)

    @property
    def name(self) -> str:
        """The handler's name, for log lines."""
        return str(getattr(self.handler, "__qualname__", self.handler))

    @property
    def at_once(self) -> int:
        """How many handlers run at the same time at most."""
        if self.concurrency is not None:
            return self.concurrency
        return COROUTINES if self.is_coroutine else THREADS
