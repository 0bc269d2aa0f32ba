"""Options as Spark passes them, texts under names in any case, parsed as numbers, booleans and choices.

The law: a value that cannot be parsed is an error of one sentence with the option, its value and what it takes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

Choice = TypeVar("Choice", bound=str)

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Given:
    """The options of one source or sink; names are compared without regard to case, as Spark does."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): (name, str(value)) for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def text(self, *names: str) -> str | None:
        """Return the value of the first of these names that is given, without blanks around it, or None."""
        for name in names:
            if name.lower() in self._options:
                return self._options[name.lower()][1].strip()
        return None

    def required(self, name: str, example: str, *others: str) -> str:
        """Return a text that must be there and not be empty. Raises ValueError."""
        if not (found := self.text(name, *others)):
            raise ValueError(f"the option {name} is missing: it takes {example}")
        return found

    def number(self, name: str, *others: str, least: int = 0) -> int | None:
        """Return a whole number of at least `least`, or None. Raises ValueError."""
        text = self.text(name, *others)
        if text is None:
            return None
        if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
            raise ValueError(f"{self._used(name, *others)} is {text!r}: it takes a whole number from {least} on")
        return int(text)

    def truth(self, name: str, *, default: bool) -> bool:
        """Return whether it is true. Raises ValueError."""
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def choice(self, name: str, allowed: Iterable[Choice], default: Choice, *others: str) -> Choice:
        """Return one of the allowed words, in whatever case it was given. Raises ValueError."""
        text = self.text(name, *others)
        if text is None:
            return default
        words = {word.lower(): word for word in allowed}
        if text.lower() not in words:
            raise ValueError(f"{self._used(name, *others)} is {text!r}: it takes {listed(words.values())}")
        return words[text.lower()]

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a time such as 500ms, 10s, 15m or 2h in milliseconds; a bare number is one. Raises ValueError."""
        text = self.text(name)
        if text is None:
            return default_ms
        found = re.fullmatch(r"(\d{1,15})\s*(ms|s|m|min|h|d)?", text.lower())
        if found is None:
            raise ValueError(f"{name} is {text!r}: it takes a time such as 500ms, 10s, 15m or 2h")
        return int(found[1]) * _UNITS_MS[found[2] or "ms"]

    def under(self, prefix: str) -> dict[str, str]:
        """Return the options whose names begin with `prefix`, by the rest of their names in lower case."""
        start = prefix.lower()
        return {
            name[len(start) :]: value.strip() for name, (_, value) in self._options.items() if name.startswith(start)
        }

    def refuse_unknown(self, known: Iterable[str], of_kafka: Iterable[str]) -> None:
        """Raise ValueError for a name that is not known, with the nearest one; `of_kafka` are known after `kafka.`."""
        plain = {name.lower(): name for name in known}
        names = plain | {f"kafka.{name}".lower(): f"kafka.{name}" for name in of_kafka}
        for lower, (name, _) in self._options.items():
            if lower in names:
                continue
            near = difflib.get_close_matches(lower, names, n=1, cutoff=0.75)
            if near:
                meant = f"did you mean {names[near[0]]}?"
            elif lower.startswith("kafka."):
                meant = f"Kafka's clients have no setting {name[len('kafka.') :]}"
            else:
                meant = f"there are {listed(sorted(plain.values()))}, kafka.*"
            raise ValueError(f"there is no option {name} here: {meant}")

    def _used(self, *names: str) -> str:
        return next((name for name in names if name.lower() in self._options), names[0])


def listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: a, b or c."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
