"""Options as Spark passes them, texts under names in any case, parsed as settings are.

The law: a value that cannot be parsed is an error of one sentence with the option, its value and what is expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from kohort.model.setting import BOOLEAN, DURATION, INT, LONG_MAX, STRING, Setting, listed, unknown

Choice = TypeVar("Choice", bound=str)


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

    def value(self, setting: Setting[Any], *names: str) -> Any:
        """Return the value of the first of these names that is given, or the default. Raises SettingsError."""
        for name in names:
            if (text := self.text(name)) is not None:
                return replace(setting, name=name).parse(text)
        return setting.default

    def number(self, *names: str, least: int = 0) -> int | None:
        """Return a whole number of at least `least`, or None. Raises SettingsError."""
        number: int | None = self.value(Setting(INT, None, "", least, LONG_MAX), *names)
        return number

    def truth(self, name: str, *, default: bool) -> bool:
        """Return whether it is true. Raises SettingsError."""
        return bool(self.value(Setting(BOOLEAN, default, ""), name))

    def choice(self, name: str, allowed: Iterable[Choice], default: Choice, *others: str) -> Choice:
        """Return one of the allowed words, in whatever case it was given. Raises SettingsError."""
        word: Choice = self.value(Setting(STRING, default, "", choices=tuple(allowed)), name, *others)
        return word

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a time such as 500ms, 10s, 15m or 2h in milliseconds; a bare number is one. Raises SettingsError."""
        return int(self.value(Setting(DURATION, default_ms, ""), name))

    def under(self, prefix: str) -> dict[str, str]:
        """Return the options whose names begin with `prefix`, by the rest of their names in lower case."""
        start = prefix.lower()
        return {
            name[len(start) :]: value.strip() for name, (_, value) in self._options.items() if name.startswith(start)
        }

    def refuse_unknown(self, owner: str, known: Iterable[str], of_kafka: Iterable[str]) -> None:
        """Raise WrongSetting for an unknown name, with the nearest one; `of_kafka` are known after `kafka.`."""
        plain = dict.fromkeys(known)
        names = [*plain, *(f"kafka.{name}" for name in of_kafka)]
        lower = {name.lower() for name in names}
        for each, (name, _) in self._options.items():
            if each not in lower:
                otherwise = f"there are {listed(sorted(plain))}, kafka.*"
                if each.startswith("kafka."):
                    otherwise = f"Kafka's clients have no setting {name[len('kafka.') :]}"
                raise unknown(owner, name, names, noun="option", otherwise=otherwise)
