"""What becomes of a record whose handler fails: it stops the consumer, is tried again, or goes to another topic.

The law: a record is finished only when its handler has returned, a dead-letter topic has it, or its policy is to skip
it. One that waits for its next attempt is unfinished; its attempts are in what is committed, as far as they fit there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DELAY = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?)\s*({'|'.join(_UNITS_S)})")

Delay = str | float | timedelta
"""A text such as "500ms", "1s", "5m" or "1h", a number of seconds, or a timedelta."""


def seconds_of(delay: Delay) -> float:
    """Return a delay in seconds. Raises TypeError, ValueError."""
    if isinstance(delay, timedelta):
        found = delay.total_seconds()
    elif isinstance(delay, str):
        if (match := _DELAY.fullmatch(delay.strip())) is None:
            raise ValueError(f"delays: {delay!r} is no time such as 500ms, 1s, 5m or 1h")
        found = float(match[1]) * _UNITS_S[match[2]]
    elif isinstance(delay, bool) or not isinstance(delay, int | float):
        raise TypeError(f"delays: {delay!r} is no time such as '500ms', '1s', '5m' or '1h', or a number of seconds")
    else:
        found = float(delay)
    if not 0 <= found < float("inf"):
        raise ValueError(f"delays: {delay!r} is not 0 or more")
    return found


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Write the record to a topic, as it came, with where it came from and why in headers; then it is finished.

    `on` are the exceptions that this is for. The headers are Kafka Connect's (`__connect.errors.…`), which its
    tools read, and `kohort.error.attempts`.
    """

    topic: str
    on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not self.topic:
            raise ValueError(f"DeadLetter: topic={self.topic!r} is no name of a topic")
        check_exceptions("DeadLetter", self.on)


Outcome = DeadLetter | Literal["stop", "skip"]
"""What ends the attempts: a dead-letter topic, the end of `process` with the exception, or a line in the log."""


@dataclass(frozen=True)
class Retry:
    """Try again after each of these delays, and then do what `then` is.

    `on` are the exceptions that this is for. `order` is whether the later records of the same key wait meanwhile
    ("key"), or go ahead ("none"). With a `topic`, records that wait for `park_after` or longer are written to it, and
    read from it by the same group: the later records of their key go ahead, so `order` must be "none".
    """

    delays: Sequence[Delay]
    then: Outcome = "stop"
    on: tuple[type[Exception], ...] = (Exception,)
    order: Literal["key", "none"] = "key"
    topic: str | None = None
    park_after: Delay = "1m"

    def __post_init__(self) -> None:
        if isinstance(self.delays, str) or not isinstance(self.delays, Sequence):
            raise TypeError(f"Retry: delays={self.delays!r} is no list, such as ['1s', '1m']")
        for each in self.delays:
            seconds_of(each)
        check_outcome("Retry: then", self.then)
        check_exceptions("Retry", self.on)
        if self.order not in ("key", "none"):
            raise ValueError(f"Retry: order={self.order!r} is neither 'key' nor 'none'")
        seconds_of(self.park_after)
        if self.topic is not None and self.order != "none":
            text = "Retry: a record in a retry topic does not stop the later ones of its key: give order='none'"
            raise ValueError(text)

    def parks(self, delay_s: float) -> bool:
        """Whether a record that waits so long does so in the retry topic."""
        return self.topic is not None and delay_s >= seconds_of(self.park_after)


OnError = Outcome | Retry
"""One policy."""


def check_outcome(name: str, value: object) -> None:
    """Refuse what is no outcome. Raises ValueError."""
    if not isinstance(value, DeadLetter) and value not in ("stop", "skip"):
        raise ValueError(f"{name}={value!r} is neither 'stop' nor 'skip' nor a DeadLetter")


def check_exceptions(owner: str, value: object) -> None:
    """Refuse what is no tuple of exceptions. Raises TypeError."""
    each_is_one = isinstance(value, tuple) and all(
        isinstance(one, type) and issubclass(one, Exception) for one in value
    )
    if not each_is_one:
        raise TypeError(f"{owner}: on={value!r} is no tuple of exceptions, such as (TimeoutError,)")


class ErrorPolicies:
    """The policies of one consumer; the first that is for an exception decides, and without one it stops."""

    def __init__(self, given: OnError | Sequence[OnError]) -> None:
        policies = [given] if isinstance(given, str | DeadLetter | Retry) else list(given)
        for each in policies:
            if not isinstance(each, Retry):
                check_outcome("on_error", each)
        self._policies: tuple[OnError, ...] = tuple(policies)
        if both := self.retry_topics & self.dead_letter_topics:
            raise ValueError(f"on_error: {min(both)} cannot be both a retry topic and a dead-letter topic")

    @property
    def dead_letter_topics(self) -> frozenset[str]:
        """Every topic for dead letters."""
        outcomes = [each.then if isinstance(each, Retry) else each for each in self._policies]
        return frozenset(each.topic for each in outcomes if isinstance(each, DeadLetter))

    @property
    def retry_topics(self) -> frozenset[str]:
        """Every retry topic."""
        return frozenset(each.topic for each in self._policies if isinstance(each, Retry) and each.topic is not None)

    @property
    def longest_s(self) -> float:
        """The longest delay, in seconds."""
        retries = [each for each in self._policies if isinstance(each, Retry)]
        return max((seconds_of(delay) for each in retries for delay in each.delays), default=0.0)

    def of(self, error: Exception) -> OnError:
        """Return the policy for an exception of a handler."""
        for each in self._policies:
            if isinstance(each, str) or isinstance(error, each.on):
                return each
        return "stop"
