"""Options as Spark passes them, texts under names in any case, parsed as settings are.

The law: a value that cannot be parsed is an error of one sentence with the option, its value and what is expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.model.setting import listed, read_texts, settings_of, unknown


class Given:
    """The options of one source or sink; names are compared without regard to case, as Spark does."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): (name, str(value)) for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def text(self, name: str) -> str | None:
        """Return the value of an option, without blanks around it, or None."""
        return self._options[name.lower()][1].strip() if name in self else None

    def required(self, example: str, *names: str) -> str:
        """Return the text of the first of these names that is given; it must not be empty. Raises ValueError."""
        found = next((text for name in names if (text := self.text(name)) is not None), None)
        if not found:
            raise ValueError(f"the option {names[0]} is missing: it takes {example}")
        return found

    def values(self, config: Any) -> dict[str, Any]:
        """Return the arguments of a dataclass that these options give. Raises SettingsError."""
        return read_texts(config, self.text)

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


def option_names(*configs: Any) -> list[str]:
    """Return the names of the options that dataclasses have, without those of Kafka's clients (`kafka.…`)."""
    names = (name for config in configs for each in settings_of(config).values() for name in (each.name, *each.aliases))
    return [name for name in names if not name.startswith("kafka.")]
