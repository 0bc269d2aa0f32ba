"""Server-side assignors by name: those that come with kohort, those of installed packages, and users' own code.

A name is that of a built-in, an entry point of the group `kohort.server_assignors`, or `module:function`. The thing
behind it may be a server-side or a client-side assignor, its class, or a function of a `GroupSpec`. Installed packages
are asked only for names that are not built in, so that they neither slow a start nor change a coordinator unasked.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.assign.server.catalog import BUILT_IN, KAFKAS_CLASSES, as_server_assignor, server_assignors
from kohort.assign.server.spec import ServerAssignor
from kohort.model.setting import SettingsError

ENTRY_POINTS = "kohort.server_assignors"


def load_assignors(names: Iterable[str], own: Iterable[object] = ()) -> dict[str, ServerAssignor]:
    """Return assignors by the names that members ask for, the default first: `names`, then a program's own.

    `own` has names too, or assignors and functions themselves. Raises SettingsError with advice.
    """
    found: dict[str, ServerAssignor] = {}
    source: dict[str, object] = {}
    for each in (*names, *own):
        assignor = _named(each) if isinstance(each, str) else _usable(each, getattr(each, "__name__", repr(each)))
        if source.setdefault(assignor.name, each) != each:
            raise SettingsError(
                f"two assignors are named {assignor.name!r}: {source[assignor.name]} and {each}; members ask for one by"
                " its name, so give yours another"
            )
        found[assignor.name] = assignor
    return found


def _named(name: str) -> ServerAssignor:
    if name in BUILT_IN or name in KAFKAS_CLASSES:
        return next(iter(server_assignors([name]).values()))
    return _from_module(name) if ":" in name else _from_entry_point(name)


def _from_module(place: str) -> ServerAssignor:
    from importlib import import_module

    module_name, _, attribute = place.partition(":")
    try:
        found: object = import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if not (module_name == missing or module_name.startswith(f"{missing}.")):
            raise SettingsError(
                f"cannot load the assignor {place}: it imports {missing}, which is not there"
            ) from error
        raise SettingsError(
            f"cannot load the assignor {place}: there is no module {missing}; install its package, or put its folder on"
            " PYTHONPATH"
        ) from error
    except Exception as error:
        raise SettingsError(f"cannot load the assignor {place}: importing it raised {_reason(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = ", ".join(sorted(name for name in vars(found) if not name.startswith("_"))) or "nothing"
            raise SettingsError(f"cannot load the assignor {place}: there is no {attribute!r} in it; it has {names}")
        found = getattr(found, part)
    return _usable(found, place)


def _from_entry_point(name: str) -> ServerAssignor:
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        raise SettingsError(
            f"there is no server-side assignor {name!r}. Built in: {', '.join(BUILT_IN)}. By installed packages (entry"
            f" points {ENTRY_POINTS}): {', '.join(sorted(points)) or 'none'}. Name your own as MODULE:FUNCTION"
        )
    try:
        found = points[name].load()
    except Exception as error:
        raise SettingsError(f"cannot load the assignor {name} ({points[name].value}): {_reason(error)}") from error
    return _usable(found, name)


def _usable(found: object, place: str) -> ServerAssignor:
    try:
        return as_server_assignor(found)
    except Exception as error:
        raise SettingsError(f"cannot use {place} as an assignor: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
