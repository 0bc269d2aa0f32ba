"""Requests of one connection whose answers are to come, in the order in which they were sent.

Kafka answers in the order of the requests, but Produce with acks=0 has no answer: what is older than the request that
an answer belongs to has none. Requests of one API and version with growing correlation ids are one entry, so that a
producer with acks=0 that never gets an answer takes no memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

MOST_ENTRIES = 1000
"""Entries without an answer at most."""


class UnclearAnswers(ValueError):
    """The answer to a request would not be distinguishable from that of another; the text is a sentence."""


class AwaitedRequest(NamedTuple):
    """What the answer to a request looks like."""

    api_key: int
    api_version: int


@dataclass(slots=True)
class _Run:
    """Requests of one API and version, with these correlation ids and any between."""

    request: AwaitedRequest
    first: int
    last: int


class AwaitedAnswers:
    """The requests without an answer."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()

    def __len__(self) -> int:
        return len(self._runs)

    def sent(self, api_key: int, api_version: int, correlation_id: int) -> None:
        """A request goes to the broker. Raises `UnclearAnswers`."""
        runs = self._runs
        if runs:
            last = runs[-1]
            if last.last < correlation_id and last.request == (api_key, api_version):
                last.last = correlation_id
                return
        run = _Run(AwaitedRequest(api_key, api_version), correlation_id, correlation_id)
        if any(each.first <= correlation_id <= each.last and each.request != run.request for each in runs):
            raise UnclearAnswers(
                f"the client sent another request with the correlation id {correlation_id} before the answer to the"
                " first one"
            )
        if len(runs) == MOST_ENTRIES:
            raise UnclearAnswers(f"the broker has not answered the client's last {MOST_ENTRIES} requests and more")
        runs.append(run)

    def answered(self, correlation_id: int) -> AwaitedRequest | None:
        """Return the request of an answer, or None where nothing was sent that it could belong to."""
        runs = self._runs
        while runs:
            run = runs[0]
            if run.first <= correlation_id <= run.last:
                if correlation_id == run.last:
                    runs.popleft()
                else:
                    run.first = correlation_id + 1
                return run.request
            runs.popleft()
        return None
