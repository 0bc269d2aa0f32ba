"""One setting: its type, bounds, unit and text; how its value is read, and the one sentence that refuses another.

A value comes as text (properties, environment, Spark options, AlterConfigs: `parse`) or as a value of Python (keywords,
TOML: `check`). A setting is an attribute of a configuration with layers (`Setting` itself), or a field of a frozen
dataclass (`setting`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar, overload

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

Names = tuple[str, ...]
Value = str | int | float | bool | Names | None
ValueT = TypeVar("ValueT")

_UNITS = {"ms": "milliseconds", "bytes": "bytes", "seconds": "seconds", "minutes": "minutes", "hours": "hours"}
_UNITS_MS = {"ms": 1, "s": 1000, "m": MINUTE_MS, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_DURATION = re.compile(rf"(\d{{1,15}})\s*({'|'.join(_UNITS_MS)})?")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_LONGEST_PRINTED = 80
_MANY = 40
_LONGEST_TEXT = 2**15 - 1
"""The longest text in bytes that Kafka's messages carry."""


class SettingsError(ValueError):
    """A setting is unknown or its value is refused; the text is one sentence for the user.

    `keys` lead to it in a file: names of tables, numbers of their rows from 1 on, and last its own name.
    """

    def __init__(self, text: str, *keys: str | int) -> None:
        super().__init__(text)
        self.keys = keys


class WrongSetting(SettingsError, TypeError):
    """There is no such setting, or its value is of another type: of Python's errors this is a TypeError."""


class SettingKind(Enum):
    """The type of a setting: its name in sentences, and its number in DescribeConfigs if Kafka has it."""

    BOOLEAN = ("true or false", 1)
    STRING = ("a str", 2)
    INT = ("a whole number", 3)
    LONG = ("a whole number", 5)
    DOUBLE = ("a number", 6)
    LIST = ("a list", 7)
    PASSWORD = ("a str", 9)
    DURATION = ("a time such as 500ms, 10s, 15m or 2h", 0)
    FUNCTION = ("a function", 0)
    ADDRESS = ("HOST:PORT, such as kafka-1.example:9092", 0)
    OBJECT = ("an object", 0)

    def __init__(self, noun: str, code: int) -> None:
        self.noun = noun
        self.code = code


BOOLEAN, STRING, INT, LONG, DOUBLE, LIST, PASSWORD, DURATION, FUNCTION, ADDRESS, OBJECT = SettingKind
_OF_TYPE = {bool: BOOLEAN, int: INT, float: DOUBLE, str: STRING, tuple: LIST}


class Configuration(Protocol):
    """Values by the names of settings."""

    def get(self, name: str) -> Any:
        """Return the value in force of a setting."""


@dataclass(eq=False)
class Setting(Generic[ValueT]):
    """One setting. As an attribute of a configuration it is the value in force there.

    `low` and `high` bound a number, and the length of a text.
    `choices` are its values, or the items that a list may have; any where there are none. Each item of a list matches
    `pattern`, if there is one. `expected` is what a refusal names in place of the type. `is_dynamic`: it can change
    while the broker runs. `compatible` is another default, where `kohort.compatible` is `kafka-4.3`. `broker_names`, of
    a topic's or a group's setting, are the broker's settings that give its default: the first that is set wins.
    An OBJECT is of type `cls`; `reader` makes it of what a file or an option has. `aliases` are other names of an
    option, which count where the first is not given.
    """

    kind: SettingKind
    default: ValueT
    doc: str
    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    choices: tuple[Any, ...] = ()
    expected: str = ""
    is_dynamic: bool = False
    compatible: ValueT | None = None
    broker_names: Names = ()
    pattern: str = ""
    cls: type | None = None
    reader: Callable[[Any], Any] | None = None
    name: str = ""
    aliases: Names = ()

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, configuration: None, owner: type) -> Setting[ValueT]: ...
    @overload
    def __get__(self, configuration: Configuration, owner: type) -> ValueT: ...
    def __get__(self, configuration: Configuration | None, owner: type) -> Any:
        return self if configuration is None else configuration.get(self.name)

    @property
    def unit(self) -> str:
        """The unit of a number, which is the last word of its name; empty where it has none."""
        return _UNITS.get(re.split(r"[._]", self.name)[-1], "") if self.kind in (INT, LONG, DOUBLE) else ""

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for. Raises SettingsError."""
        text = text.strip()
        if self.reader is not None:
            return self.reader(text)
        match self.kind:
            case SettingKind.BOOLEAN if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case SettingKind.INT | SettingKind.LONG if _WHOLE_NUMBER.fullmatch(text) and self._is_within(int(text)):
                return int(text)
            case SettingKind.DOUBLE if (number := _number(text)) is not None and self._is_within(number):
                return number
            case SettingKind.DURATION if found := _DURATION.fullmatch(text.lower()):
                return int(found[1]) * _UNITS_MS[found[2] or "ms"]
            case SettingKind.LIST:
                items = tuple(item.strip() for item in text.split(",") if item.strip())
                if self._are_items(items):
                    return items
            case SettingKind.ADDRESS:
                return address(self.name, text)
            case SettingKind.STRING | SettingKind.PASSWORD:
                words = {word.lower(): word for word in self.choices if isinstance(word, str)}
                if text.lower() in words if words else self._is_within(len(text)):
                    return words.get(text.lower(), text)
        raise refused(self.name, self._printable(text), self.what)

    def read(self, value: Any) -> Any:
        """Return the value that one of a file of TOML stands for. Raises SettingsError, WrongSetting."""
        if self.reader is not None:
            return self.reader(value)
        is_text = isinstance(value, str) and (self.choices or self.kind in (LIST, ADDRESS, DURATION))
        return self.parse(value) if is_text else self.check(value)

    def check(self, value: Any) -> Any:
        """Return a value of Python, or the one that it stands for. Raises SettingsError, WrongSetting."""
        if value is None and self.default is None:
            return None
        if not self._is_of_type(value):
            raise of_type(self.name, value, self.what, is_secret=self.kind is PASSWORD)
        match self.kind:
            case SettingKind.INT | SettingKind.LONG | SettingKind.DURATION:
                value = value.__index__()
                is_possible = self._is_within(value)
            case SettingKind.DOUBLE:
                is_possible = self._is_within(value)
            case SettingKind.LIST:
                value = tuple(value)
                is_possible = self._are_items(value)
            case _ if self.choices:  # True equals 1, and is no choice where 1 is one; a text is that of an enum
                same = [
                    word
                    for word in self.choices
                    if value == word and (isinstance(value, str) or type(value) is type(word))
                ]
                is_possible, value = bool(same), same[0] if same else value
            case _:
                is_possible = True
        if not is_possible:
            raise refused(self.name, self._printable(value), self.what)
        if self.kind in (STRING, PASSWORD) and not self.choices:
            check_length(self.name, value, is_secret=self.kind is PASSWORD)
            if not self._is_within(len(value)):
                raise refused(self.name, self._printable(value), self.what)
        return value

    def _is_of_type(self, value: object) -> bool:
        match self.kind:
            case SettingKind.INT | SettingKind.LONG | SettingKind.DURATION:
                return isinstance(value, int | SupportsIndex) and not isinstance(value, bool)
            case SettingKind.DOUBLE:
                return isinstance(value, int | float) and not isinstance(value, bool)
            case SettingKind.STRING | SettingKind.PASSWORD:
                return isinstance(value, str) or bool(self.choices)
            case SettingKind.LIST:
                return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
            case SettingKind.FUNCTION:
                if iscoroutinefunction(value):
                    raise WrongSetting(f"{self.name}={value!r} is async: expected a plain function")
                return callable(value)
            case SettingKind.ADDRESS:
                return isinstance(value, tuple)
            case SettingKind.OBJECT:
                return self.cls is None or isinstance(value, self.cls)
        return isinstance(value, bool)

    def _is_within(self, number: float) -> bool:
        return number == number and not (
            (self.low is not None and number < self.low) or (self.high is not None and number > self.high)
        )

    def _are_items(self, items: Names) -> bool:
        if self.choices and not (items and set(items) <= set(self.choices)):
            return False
        return not self.pattern or all(re.fullmatch(self.pattern, item, re.ASCII) for item in items)

    def _printable(self, value: object) -> object:
        return HIDDEN if self.kind is PASSWORD else value

    @property
    def what(self) -> str:
        """The values that it takes, as the object of "expected"."""
        if self.expected:
            return self.expected
        if self.choices:
            words = [each if isinstance(each, str) else repr(each) for each in self.choices]
            return f"a list of {', '.join(words)}" if self.kind is LIST else listed(words)
        if self.kind in (STRING, PASSWORD):
            return self.kind.noun + (" that is not empty" if self.low else "")
        unit = f" of {self.unit}" if self.unit else ""
        bounds = "" if self.low is None else f" from {self.low}" + (" on" if self.high is None else f" to {self.high}")
        return self.kind.noun + unit + bounds


def refused(name: str, value: object, expected: str) -> SettingsError:
    """Return the error of a value that a setting or an argument cannot have."""
    return SettingsError(f"{name}={_text(value)}: expected {expected}", name)


def of_type(name: str, value: object, expected: str, *, is_secret: bool = False) -> WrongSetting:
    """Return the error of a value of another type; a secret one is not shown."""
    noun = type(value).__name__
    kind = "" if value is None else f" is {'an' if noun[0] in 'aeioAEIO' else 'a'} {noun}"
    return WrongSetting(f"{name}={_text(HIDDEN if is_secret else value)}{kind}: expected {expected}", name)


class _Hidden:
    def __repr__(self) -> str:
        return "…"


HIDDEN = _Hidden()
"""Stands in a sentence for a value that must not be shown."""


def _text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_PRINTED else text[:_LONGEST_PRINTED] + "…"


def address(name: str, text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, IPv6 in brackets. Raises SettingsError by the setting's name."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
        raise refused(name, text, ADDRESS.noun)
    return host, int(port)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def check_length(name: str, text: str, *, is_secret: bool = False) -> None:
    """Refuse a text that Kafka cannot carry; a secret one is not shown. Raises SettingsError."""
    if len(text.encode(errors="replace")) > _LONGEST_TEXT:
        shown = "" if is_secret else f": {text[:40]!r}…"
        raise SettingsError(f"{name} is longer than {_LONGEST_TEXT} bytes{shown}", name)
    if not text.isascii() and text.encode(errors="ignore").decode() != text:
        shown = "" if is_secret else f"={text!r}"
        raise SettingsError(f"{name}{shown} has half of a surrogate pair, which UTF-8 cannot carry")


def listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: a, b or c."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def value_text(value: Value) -> str | None:
    """Return a value as Kafka writes it in DescribeConfigs and in properties."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value).upper().replace("E+", "E")  # 1.0E10, as Java writes it
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


# -- tables of settings


class Table(dict[str, Setting[Any]]):
    """Settings by name, in their order; `owner`, such as "the broker", begins the sentence about an unknown one."""

    def __init__(self, owner: str, settings: Iterable[Setting[Any]]) -> None:
        super().__init__((each.name, each) for each in settings)
        self.owner = owner

    def find(self, name: str) -> Setting[Any]:
        """Return the setting of that name. Raises WrongSetting, with the nearest name, when there is none."""
        found = self.get(name)
        if found is None:
            raise unknown(self.owner, name, self)
        return found


def unknown(
    owner: str,
    name: str,
    known: Iterable[str],
    *,
    noun: str = "setting",
    advice: str = "",
    spelling: str = "",
    otherwise: str = "",
) -> WrongSetting:
    """Return the error of a name that is no setting's, with `advice`, or the nearest name, or `otherwise`, or all."""
    from difflib import get_close_matches

    by_lower = {each.lower(): each for each in sorted(known)}
    if advice:
        end = f": {advice}"
    elif near := get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75):
        end = f"; did you mean {by_lower[near[0]]!r}?"
    else:
        names = f"there are {', '.join(by_lower.values())}" if len(by_lower) < _MANY else "its names are Kafka's"
        end = f": {otherwise or names}"
    return WrongSetting(f"{owner} has no {noun} {(spelling or name)!r}{end}", name)


def attributes(owner: str, definitions: type) -> Table:
    """Return the settings that a class and its bases have as attributes."""
    classes = definitions.__mro__
    return Table(owner, (each for cls in classes for each in vars(cls).values() if isinstance(each, Setting)))


# -- settings as fields of dataclasses


def setting(
    default: Any,
    doc: str = "",
    low: float | None = None,
    high: float | None = None,
    *,
    kind: SettingKind | None = None,
    **more: Any,
) -> Any:
    """Return the field of a dataclass that is a setting; one that must be given has MISSING as its default.

    Its type is that of the default, or OBJECT, if `kind` does not name one; `more` are arguments of `Setting`.
    """
    kind = kind or _OF_TYPE.get(type(default), OBJECT)
    if kind in (INT, LONG, DOUBLE) and high is None:
        high = LONG_MAX if kind is LONG else INT_MAX
    made = Setting(kind, default, doc, low, high, **more)
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata={"setting": made})
    return field(default=default, repr=kind is not PASSWORD, metadata={"setting": made})


def settings_of(config: Any) -> dict[str, Setting[Any]]:
    """Return the settings of a dataclass, by the names of their fields."""
    found = {}
    for each in fields(config):
        if (made := each.metadata.get("setting")) is not None:
            made.name = made.name or each.name
            found[each.name] = made
    return found


def read_texts(config: Any, text_of: Callable[[str], str | None]) -> dict[str, Any]:
    """Return the arguments of a dataclass that options give: `text_of` is the text of a name, None where not given.

    An empty text is none where any text would do. Raises SettingsError, which has the name that is given.
    """
    found = {}
    for argument, each in settings_of(config).items():
        for name in (each.name, *each.aliases):
            if (text := text_of(name)) is not None:
                if text or each.kind is not STRING or each.choices or each.reader:
                    found[argument] = replace(each, name=name).parse(text)
                break
    return found


def read_values(config: Any, source: Configuration) -> dict[str, Any]:
    """Return the arguments of a dataclass whose settings are those of another configuration, by their names."""
    return {argument: source.get(each.name) for argument, each in settings_of(config).items()}


def check_fields(config: Any) -> None:
    """Check every setting of a dataclass's instance, which then has what is meant. Raises SettingsError, WrongSetting.

    It is called where a frozen instance is made, so that there is none with a value that its setting would refuse.
    """
    for name, each in settings_of(type(config)).items():
        object.__setattr__(config, name, each.check(getattr(config, name)))


def read_table(owner: str, config: Any, table: object, *, noun: str = "setting") -> dict[str, Any]:
    """Return a table of TOML as arguments of a dataclass. Raises SettingsError, WrongSetting."""
    if not isinstance(table, Mapping):
        raise WrongSetting(f"{owner} is no table: write [{owner}] above its settings")
    known = settings_of(config)
    for name in table:
        if name not in known:
            raise unknown(owner, name, known, noun=noun)
    return {name: known[name].read(value) for name, value in table.items()}


def record(owner: str, config: Callable[..., ValueT]) -> Callable[[object], ValueT]:
    """Return the reader of a setting that is a table of its own, such as `[listener_tls]`."""

    def read(table: object) -> ValueT:
        try:
            values = read_table(owner, config, table)
            for each in fields(config):  # type: ignore[arg-type]
                if each.default is MISSING and each.name not in values:
                    raise SettingsError(f"{owner} lacks {each.name}: {each.metadata['setting'].doc}")
            return config(**values)
        except SettingsError as error:
            error.keys = (owner, *error.keys)
            raise

    return read


def records(owner: str, config: Callable[..., ValueT]) -> Callable[[object], tuple[ValueT, ...]]:
    """Return the reader of a setting that is a list of tables, such as `[[policies]]`."""

    def read(rows: object) -> tuple[ValueT, ...]:
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise WrongSetting(f"{owner} is no list of tables: write [[{owner}]] above each")
        found = []
        for number, row in enumerate(rows, 1):
            try:
                found.append(record("it", config)(row))
            except SettingsError as error:
                raise type(error)(f"{owner}: row {number}: {error}", owner, number, *error.keys[1:]) from None
        return tuple(found)

    return read
