"""Settings as texts or values: files of properties and TOML, with `${env:NAME}` for environment variables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kohort.model.setting import SettingsError, value_text


def read_file(path: Path, *, is_toml: bool) -> dict[str, Any]:
    """Return a file's table (TOML) or its texts by name (properties). Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        if is_toml:
            import tomllib

            return tomllib.loads(text)
        return dict(read_properties(text))
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def located(path: Path, error: SettingsError) -> SettingsError:
    """Return the error of a setting with the file of TOML that has it, and the line there."""
    try:
        line = line_of(path.read_text(encoding="utf-8"), error.keys or re.findall(r"^\w+", str(error)))
    except (OSError, UnicodeDecodeError):  # it has changed since it was read
        line = None
    return SettingsError(f"{path}{'' if line is None else f', line {line}'}: {error}", *error.keys)


def line_of(text: str, keys: Sequence[str | int]) -> int | None:
    """Return the line of a setting in TOML, by the names of tables, numbers of rows and its own; else of its table."""
    wanted = (keys[0], keys[1] if len(keys) > 1 and isinstance(keys[1], int) else 0)
    rows: Counter[str] = Counter()
    here: tuple[str | int, int] = ("", 0)
    found = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*(\[\[?)\s*([\w.-]+)\s*\]", line):
            rows[header[2]] += 1
            here = (header[2], rows[header[2]] if header[1] == "[[" else 0)
            if here == wanted or (len(keys) == 1 and here[0] == keys[0] and found is None):
                found = number
        elif name := re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line):
            if here == wanted and name[1] == keys[-1]:
                return number
            if here[0] == "" and name[1] == keys[0]:
                found = number
    return found


def read_properties(text: str) -> dict[str, str]:
    """Return the lines `name=value` or `name: value`; a backslash at the end continues a line. Raises SettingsError."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        if (line := line.strip()) and line[0] not in "#!":
            pair = re.fullmatch(r"([^=:]+)[=:](.*)", line)
            if pair is None:
                raise SettingsError(f"{line.split()[0]!r}… is no line of the form name=value")
            name = pair[1].strip()
            found[name] = with_variables(pair[2].strip(), name)
    return found


def with_variables(value: str, name: str) -> str:
    """Return a setting's value with `${env:NAME}` replaced by that environment variable. Raises SettingsError."""

    def variable(mark: re.Match[str]) -> str:
        if (found := os.environ.get(mark[1])) is None:
            raise SettingsError(f"{name}: the environment variable {mark[1]} is not set")
        return found

    return re.sub(r"\$\{env:(\w+)\}", variable, value)


def texts_of(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return a table of TOML as texts by dotted names. Raises SettingsError."""
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= texts_of(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = with_variables(value_text(value) or "", prefix + name)
    return found
