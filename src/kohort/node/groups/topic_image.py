"""The node's topics as its groups see them, and which of them each regular expression matches.

An expression is matched against every topic once, when it is first asked for; from then on a topic that appears or
goes is matched against the expressions that are known. So what a change costs follows what changes. Expressions that
have not been used for longest are forgotten; using one again only costs time.

Expressions (KIP-848) have RE2's syntax. RE2 matches in time that grows with the name and the expression and never
faster; an expression that is too large for the topics there are is refused. `kohort[fast]` brings google-re2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kohort.group.coordinator_settings import ImageTopic
from kohort.model.acl import Principal
from kohort.model.extras import install_command
from kohort.model.ids import EVENT_TOPIC
from kohort.node.authorization.access import Access, Sender
from kohort.node.authorization.api_checks import MATCHED_TOPIC
from kohort.node.topics.topic import Topic
from kohort.node.topics.topics import Topics

try:
    import re2
except ImportError:
    re2 = None

MAX_LENGTH = 32_767
"""Characters of an expression: how long it can be in its record."""

MAX_STEPS = 500_000_000
"""The size of a compiled expression times the characters of all names: a few seconds, at the very worst."""

FREE_SIZE = 250
"""A compiled expression up to this size is never refused."""

PROGRAM_BYTES = 1 << 20
"""RE2's `max_mem` for an expression: half a megabyte of it is enough for some 45,000 steps."""

MISSING = f"This broker cannot match regular expressions: it needs google-re2; {install_command('fast')}"


class InvalidExpression(ValueError):
    """An expression cannot be used; the text is the reason, in one sentence."""


class Expression:
    """A compiled expression; `size` is the number of its steps."""

    __slots__ = ("_fullmatch", "size")

    def __init__(self, compiled: Any) -> None:
        self._fullmatch = compiled.fullmatch
        self.size: int = compiled.programsize

    def matches(self, name: str) -> bool:
        """Whether it matches a name as a whole."""
        return self._fullmatch(name.encode()) is not None


def compile_expression(text: str, name_chars: int, field: str = "SubscribedTopicRegex") -> Expression:
    """Return an expression that is to match names; `name_chars` is the number of characters of all names.

    Raises InvalidExpression.
    """
    if re2 is None:
        raise InvalidExpression(MISSING)
    shown = text if len(text) <= 100 else text[:100] + "…"
    if len(text) > MAX_LENGTH:
        raise InvalidExpression(f"{field} `{shown}` has {len(text)} characters; {MAX_LENGTH} are allowed.")
    try:
        compiled = Expression(re2.compile(text.encode(), _options()))
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else str(error)
        raise InvalidExpression(f"{field} `{shown}` is not a valid regular expression: {reason}.") from error
    size = compiled.size
    if size > FREE_SIZE and size * name_chars > MAX_STEPS:
        raise InvalidExpression(
            f"{field} `{shown}` is too large for the topics of this cluster: {size} steps for each "
            f"character of their names, of which there are {name_chars}."
        )
    return compiled


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PROGRAM_BYTES
    return options


EXPRESSIONS = 1_000
"""How many expressions are remembered with what they match."""

NAMES = 2_000_000
"""How many names they may match together; beyond it, fewer of them are remembered."""

STEPS = 4_000_000
"""How many steps they may have together, of some ten bytes each; beyond it, fewer of them are remembered."""


class _Matched:
    """One expression, and the names that it matches now."""

    __slots__ = ("expression", "frozen", "names")

    def __init__(self, expression: Expression, names: Iterable[str]) -> None:
        self.expression = expression
        self.names = set(names)
        self.frozen: frozenset[str] | None = None


class NodeTopics:
    """`TopicImage` over the topics of a node.

    As on Kafka, an expression matches internal topics too; only the topic of our events, which Kafka has not, it never
    matches.
    """

    is_followed = True

    def __init__(self, topics: Topics, rack: str | None, rights: ExpressionRights | None = None) -> None:
        self._topics = topics
        self._rights = rights
        self._racks = frozenset((rack,)) if rack else None
        self._seen: dict[str, ImageTopic] = {}
        self._matched: dict[str, _Matched] = {}
        """By expression; those asked for lately stand last."""
        self._matched_names = 0
        self._steps = 0
        self._matchable = {topic.name for topic in topics} - {EVENT_TOPIC}
        # Before all other listeners.
        topics.on_change.insert(0, self._changed)

    def topic(self, name: str) -> ImageTopic | None:
        seen = self._seen.get(name)
        if seen is None:
            topic = self._topics.get(name)
            if topic is None:
                return None
            seen = self._seen[name] = self._image_of(topic)
        return seen

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else self.topic(topic.name)

    def matching(self, regex: str, group_id: str) -> frozenset[str] | None:
        """Return the names of topics that a group's expression matches as a whole; none for one that is not valid.

        With an authorizer those that the group may not describe are left out; None as long as that is not known.
        """
        names = self._matching(regex)
        return names if self._rights is None else self._rights.describable(group_id, names)

    def _matching(self, regex: str) -> frozenset[str]:
        matched = self._matched.pop(regex, None)
        if matched is None:
            try:
                expression = self._compile(regex)
            except InvalidExpression:
                # A group loaded from another broker's log may have what we would have refused.
                return frozenset()
            matched = _Matched(expression, filter(expression.matches, self._matchable))
            self._matched_names += len(matched.names)
            self._steps += expression.size
        self._matched[regex] = matched
        self._forget_some()
        if matched.frozen is None:
            matched.frozen = frozenset(matched.names)
        return matched.frozen

    def regex_error(self, regex: str) -> str | None:
        """Return why an expression cannot be used, or None."""
        if regex in self._matched:
            return None
        try:
            self._compile(regex)
        except InvalidExpression as error:
            return str(error)
        return None

    def is_matched(self, regex: str, name: str) -> bool:
        """Whether an expression matches a name that some topic has, had or will have."""
        if name == EVENT_TOPIC:
            return False
        matched = self._matched.get(regex)
        try:
            return (self._compile(regex) if matched is None else matched.expression).matches(name)
        except InvalidExpression:
            return False

    def _compile(self, regex: str) -> Expression:
        return compile_expression(regex, sum(map(len, self._matchable)))

    def _image_of(self, topic: Topic) -> ImageTopic:
        count = len(topic.partitions)
        racks = () if self._racks is None else (self._racks,) * count
        return ImageTopic(topic.name, topic.topic_id, count, racks)

    def _changed(self, name: str) -> None:
        """Take in that a topic was created, grown or deleted."""
        self._seen.pop(name, None)
        exists = self._topics.get(name) is not None
        if name == EVENT_TOPIC or exists == (name in self._matchable):
            return
        (self._matchable.add if exists else self._matchable.discard)(name)
        for matched in self._matched.values():
            if (name in matched.names) == exists or (exists and not matched.expression.matches(name)):
                continue
            matched.frozen = None
            if exists:
                matched.names.add(name)
                self._matched_names += 1
            else:
                matched.names.discard(name)
                self._matched_names -= 1
        self._forget_some()

    def _forget_some(self) -> None:
        while len(self._matched) > 1 and (
            len(self._matched) > EXPRESSIONS or self._matched_names > NAMES or self._steps > STEPS
        ):
            oldest = self._matched.pop(next(iter(self._matched)))
            self._matched_names -= len(oldest.names)
            self._steps -= oldest.expression.size


MOST_CHARACTERS = 8 << 20
"""How long the ids of the groups are together whose sender is remembered; beyond it all are noted again at their next
heartbeats. Ids of one request have up to 32 KiB."""


class _LastSender(NamedTuple):
    """Who sent a heartbeat, and from where."""

    principal: Principal
    peer_host: str


class ExpressionRights:
    """Which topics the expressions of a group may match (KIP-848): those that one of its members may describe.

    As in Kafka it is one member's rights that count for a group: here those of the member that sent an expression last.
    After a restart no member is known until its next heartbeat; till then the topics stay that the group has stored.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._senders: dict[str, _LastSender] = {}
        self._characters = 0

    def note(self, group_id: str, sender: Sender, *, has_expression: bool) -> bool:
        """Note a heartbeat; return whether another sender counts for the group now."""
        before = self._senders.get(group_id)
        if before is not None and not has_expression:
            return False
        if before is None:
            self._characters += len(group_id)
            if self._characters > MOST_CHARACTERS:
                self._senders.clear()
                self._characters = len(group_id)
        known = self._senders[group_id] = _LastSender(sender.principal, sender.peer_host)
        return known != before

    def describable(self, group_id: str, names: Iterable[str]) -> frozenset[str] | None:
        """Return those of the topics that the group may describe; None as long as no member is known."""
        sender = self._senders.get(group_id)
        if sender is None:
            return None
        return frozenset(name for name in names if self._access.allows(sender, MATCHED_TOPIC, name))
