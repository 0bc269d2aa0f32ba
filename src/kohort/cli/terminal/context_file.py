"""Named clusters of a user, in `~/.config/kohort/config.toml`: brokers and security settings, and which is current.

A context has the properties of `--command-config` in its table, or names such a file. Variables such as
`${env:PASSWORD}` are replaced in the context that is used only, and no message has the value of a setting.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from kohort.model.setting import SettingsError, value_text
from kohort.net.settings_files import line_of, read_file, read_properties, texts_of

VARIABLE = "KOHORT_CONTEXT"
CURRENT, CONTEXTS = "current", "contexts"
SERVERS, COMMAND_CONFIG = "bootstrap.servers", "command.config"


class ContextFile(NamedTuple):
    """The contexts of a file by name, as they are written there, and the current one."""

    path: Path
    contexts: Mapping[str, Mapping[str, Any]]
    current: str | None

    def named(self, name: str) -> Mapping[str, Any]:
        """Return a context. Raises SettingsError, with the nearest name, where there is none."""
        if name not in self.contexts:
            near = get_close_matches(name, self.contexts, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.contexts) or 'none'}"
            raise SettingsError(f"there is no context {name!r} in {self.path}: {advice}")
        return self.contexts[name]

    def properties(self, name: str) -> dict[str, str]:
        """Return the properties of a context, of the file that it names too. Raises SettingsError, OSError."""
        context = self.named(name)
        try:
            found = texts_of(context)
            if (other := found.pop(COMMAND_CONFIG, None)) is not None:
                found = properties_of(self.path.parent / Path(other).expanduser()) | found
            if SERVERS not in found:
                raise SettingsError(f"it has no {SERVERS}")
        except ValueError as error:
            raise self.wrong(name, error) from None
        return found

    def wrong(self, name: str, error: Exception) -> SettingsError:
        """Return the error of a context with its line in the file: that of the setting which the error names."""
        text = str(error)
        named = [
            each for each in re.findall(r"[\w-]+(?:\.[\w-]+)+", text) if _at(self.contexts[name], each) is not None
        ]
        return self._located(f"context {name!r}: {text}", f"{CONTEXTS}.{name}", *named[:1])

    def _located(self, text: str, *keys: str) -> SettingsError:
        line = line_of(self.path.read_text(encoding="utf-8"), keys)
        return SettingsError(f"{self.path}{'' if line is None else f', line {line}'}: {text}")


def properties_of(path: Path) -> dict[str, str]:
    """Return the properties of a file. Raises SettingsError with its name, OSError."""
    try:
        return read_properties(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def context_path() -> Path:
    """Return where the file of contexts is, if there is one."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "kohort" / "config.toml"


def read_contexts() -> ContextFile:
    """Return the file's contexts; none where there is no file. Raises SettingsError, with the file and the line."""
    path = context_path()
    if not path.exists():
        return ContextFile(path, {}, None)
    document = read_file(path, is_toml=True)
    contexts, current = document.get(CONTEXTS, {}), document.get(CURRENT)
    found = ContextFile(path, contexts, current)
    for name in (each for each in document if each not in (CONTEXTS, CURRENT)):
        table = [f"{name}.{each}" for each in document[name]] if isinstance(document[name], Mapping) else []
        raise found._located(
            f"{name!r} is neither {CURRENT!r} nor a context: a table is named [{CONTEXTS}.NAME]", *table[:1] or [name]
        )
    if not isinstance(contexts, Mapping) or not all(isinstance(each, Mapping) for each in contexts.values()):
        raise found._located(f"{CONTEXTS!r} has a table for each context: [{CONTEXTS}.NAME]", CONTEXTS)
    if current is not None and current not in contexts:
        raise found._located(f"{CURRENT} = {current!r} is no context of this file", CURRENT)
    return found


def use_context(found: ContextFile, name: str) -> None:
    """Make a context the current one. Raises SettingsError where there is none of the name, OSError."""
    found.named(name)
    text = found.path.read_text(encoding="utf-8")
    line = f"{CURRENT} = {_quoted(name)}"
    head, bracket, rest = re.fullmatch(r"(.*?)(^[ \t]*\[|\Z)(.*)", text, re.DOTALL | re.MULTILINE).groups()  # type: ignore[union-attr]
    head, count = re.subn(rf"^[ \t]*[\"']?{CURRENT}[\"']?[ \t]*=.*$", lambda _: line, head, flags=re.MULTILINE)
    with tempfile.NamedTemporaryFile("w", dir=found.path.parent, delete=False, encoding="utf-8") as file:
        file.write(("" if count else line + "\n") + head + bracket + rest)
    os.chmod(file.name, found.path.stat().st_mode & 0o777)
    os.replace(file.name, found.path)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shown_context(context: Mapping[str, Any]) -> dict[str, str | None]:
    """Return what may be shown of a context: where it is and how it is reached, and no login."""
    names = (SERVERS, "security.protocol", COMMAND_CONFIG)
    return {name.replace(".", "_"): value_text(_at(context, name)) for name in names}


def _at(table: Mapping[str, Any], dotted: str) -> Any:
    if dotted in table:
        return table[dotted]
    first, _, rest = dotted.partition(".")
    inner = table.get(first)
    return _at(inner, rest) if rest and isinstance(inner, Mapping) else None
