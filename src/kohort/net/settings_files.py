"""Settings as texts or values: files of properties and TOML, with `${env:NAME}` for environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
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
