"""Which topics a consumer wants: by name, or every topic whose whole name matches a regular expression.

A text that begins with ^ is a regular expression, as no topic's name can; so is a compiled one. The client matches, as
Java's does in the classic protocol, so the expressions are Python's. Brokers' own topics match only if asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kohort.client.view import ClusterView

Topic = str | re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Names and expressions; `internal` lets expressions match the topics that brokers keep for themselves."""

    names: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    internal: bool = False

    def __bool__(self) -> bool:
        return bool(self.names or self.patterns)

    def matches(self, topic: str) -> bool:
        """Return whether an expression matches the topic's name."""
        return any(pattern.fullmatch(topic) for pattern in self.patterns)

    @property
    def pattern(self) -> Callable[[str], bool] | None:
        """`matches`, or None where there is no expression."""
        return self.matches if self.patterns else None

    def topics(self, view: ClusterView) -> tuple[str, ...]:
        """Return the names, and what matches among the topics that exist."""
        matched = (
            topic.name
            for topic in view.topics.values()
            if topic.partitions and (self.internal or not topic.is_internal) and self.matches(topic.name)
        )
        return tuple(dict.fromkeys([*self.names, *sorted(matched)]))


def wanted(topics: Topic | Iterable[Topic], *, internal: bool = False) -> Wanted:
    """Return what is meant by a topic, an expression, or several of either. Raises ValueError, TypeError."""
    each = [topics] if isinstance(topics, str | re.Pattern) else list(topics)
    names: list[str] = []
    patterns: list[re.Pattern[str]] = []
    for topic in each:
        if isinstance(topic, re.Pattern):
            patterns.append(topic)
        elif not isinstance(topic, str):
            raise TypeError(f"a topic is a str or a compiled expression, not {type(topic).__name__}")
        elif topic.startswith("^"):
            patterns.append(_compiled(topic))
        else:
            names.append(topic)
    return Wanted(tuple(dict.fromkeys(names)), tuple(patterns), internal)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as cause:
        raise ValueError(f"{text!r} is no regular expression: {cause}") from None
