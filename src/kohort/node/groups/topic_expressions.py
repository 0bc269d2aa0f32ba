"""Regular expressions of consumer groups (KIP-848): RE2's syntax, matched against whole names of topics.

RE2 matches in time that grows with the name and the expression and never faster, so an expression cannot be ruinous by
its form; one that is too large for the topics there are is refused. Needs google-re2, which `kohort[fast]` brings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.extras import install_command

try:
    import re2
except ImportError:
    re2 = None

MAX_LENGTH = 32_767
"""Characters of an expression: what the record that stores it can hold."""

MAX_STEPS = 500_000_000
"""The size of a compiled expression times the characters of all names: a few seconds, at the very worst."""

FREE_SIZE = 250
"""A compiled expression up to this size is never refused."""

MISSING = f"This broker cannot match regular expressions: it needs google-re2; {install_command('fast')}"

Match = Callable[[str], bool]


class InvalidExpression(ValueError):
    """An expression cannot be used; the text is the reason, in one sentence."""


def compile_expression(text: str, name_chars: int) -> Match:
    """Return the function that matches whole names; `name_chars` is the number of characters of all names.

    Raises InvalidExpression.
    """
    if re2 is None:
        raise InvalidExpression(MISSING)
    shown = text if len(text) <= 100 else text[:100] + "…"
    if len(text) > MAX_LENGTH:
        raise InvalidExpression(f"SubscribedTopicRegex `{shown}` has {len(text)} characters; {MAX_LENGTH} are allowed.")
    try:
        compiled = re2.compile(text.encode(), _options())
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else str(error)
        raise InvalidExpression(
            f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {reason}."
        ) from error
    size: int = compiled.programsize
    if size > FREE_SIZE and size * name_chars > MAX_STEPS:
        raise InvalidExpression(
            f"SubscribedTopicRegex `{shown}` is too large for the topics of this cluster: {size} steps for each "
            f"character of their names, of which there are {name_chars}."
        )
    fullmatch = compiled.fullmatch
    return lambda name: fullmatch(name.encode()) is not None


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


__all__ = ["FREE_SIZE", "MAX_LENGTH", "MAX_STEPS", "MISSING", "InvalidExpression", "Match", "compile_expression"]
