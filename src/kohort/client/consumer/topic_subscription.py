"""Which topics a consumer wants: by name, or every topic whose whole name matches a regular expression.

A text that begins with ^ is a regular expression, as no topic's name can; so is a compiled one. The client matches, as
Java's does in the classic protocol, so the expressions are Python's. Brokers' own topics match only if asked for. A
`SubscriptionPattern` is the broker's to match, in RE2's syntax (KIP-848).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kohort.client.arguments import check_text, check_topic
from kohort.client.cluster.metadata import ClusterView
from kohort.member.inputs import Subscribed
from kohort.model.setting import of_type


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """An expression in RE2's syntax that the broker resolves, in the consumer protocol; whole names match."""

    pattern: str


Topic = str | re.Pattern[str] | SubscriptionPattern


@dataclass(frozen=True)
class TopicSubscription:
    """Names and expressions; `internal` lets expressions match the internal topics of brokers.

    `for_broker` are expressions that the broker resolves where it can; elsewhere the client does, as far as Python
    reads them.
    """

    names: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    internal: bool = False
    for_broker: tuple[SubscriptionPattern, ...] = ()

    @classmethod
    def of(cls, topics: Topic | Iterable[Topic], *, internal: bool = False) -> TopicSubscription:
        """Return what is meant by a topic, an expression, or several of either. Raises ValueError, TypeError."""
        if not isinstance(topics, Iterable | re.Pattern | SubscriptionPattern) or isinstance(topics, bytes):
            raise of_type("topics", topics, "a topic, or a list of them")
        each = [topics] if isinstance(topics, str | re.Pattern | SubscriptionPattern) else list(topics)
        names: list[str] = []
        patterns: list[re.Pattern[str]] = []
        for_broker: list[SubscriptionPattern] = []
        for topic in each:
            if isinstance(topic, re.Pattern):
                patterns.append(topic)
            elif isinstance(topic, SubscriptionPattern):
                check_text("a SubscriptionPattern", topic.pattern)
                for_broker.append(topic)
            elif not isinstance(topic, str):
                hint = ": settings are keywords, Consumer('topic', **settings)" if isinstance(topic, Mapping) else ""
                raise TypeError(f"a topic is a str or a compiled expression, not {type(topic).__name__}{hint}")
            elif topic.startswith("^"):
                patterns.append(_compiled(topic))
            else:
                check_topic(topic)
                names.append(topic)
        return cls(tuple(dict.fromkeys(names)), tuple(patterns), internal, tuple(for_broker))

    def __bool__(self) -> bool:
        return bool(self.names or self.patterns or self.for_broker)

    def matches(self, topic: str) -> bool:
        """Return whether an expression matches the topic's name."""
        return any(pattern.fullmatch(topic) for pattern in (*self.patterns, *self._broker_patterns))

    @property
    def regex(self) -> str | None:
        """The one expression that the broker is to resolve, or None."""
        texts = [each.pattern for each in self.for_broker]
        return "|".join(f"(?:{text})" for text in texts) if len(texts) > 1 else next(iter(texts), None)

    def topics(self, view: ClusterView) -> tuple[str, ...]:
        """Return the names, and what matches among the topics that exist."""
        return self._among(view, self.matches)

    def in_group(self, view: ClusterView) -> Subscribed:
        """Return the subscription of a member, as far as the metadata shows its topics now."""
        matches = self.matches if self.patterns or self.for_broker else None
        own = self._among(view, lambda topic: any(pattern.fullmatch(topic) for pattern in self.patterns))
        return Subscribed(self.topics(view), matches, self.regex, own)

    def unreadable(self) -> str | None:
        """Return an expression for the broker that Python cannot read, or None."""
        return next((each.pattern for each in self.for_broker if _readable(each.pattern) is None), None)

    def _among(self, view: ClusterView, matches: Callable[[str], bool]) -> tuple[str, ...]:
        matched = (
            topic.name
            for topic in view.topics.values()
            if topic.partitions and (self.internal or not topic.is_internal) and matches(topic.name)
        )
        return tuple(dict.fromkeys([*self.names, *sorted(matched)]))

    @cached_property
    def _broker_patterns(self) -> tuple[re.Pattern[str], ...]:
        readable = (_readable(each.pattern) for each in self.for_broker)
        return tuple(pattern for pattern in readable if pattern is not None)


def _readable(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text)
    except re.error:
        return None


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as cause:
        raise ValueError(f"{text!r} is no regular expression: {cause}") from None
