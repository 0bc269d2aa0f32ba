"""Puts a wrong function in the place of a right one for a while, wherever production code has bound it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, wrong: Any) -> Iterator[None]:
    """Have `wrong` be what `owner.name` was: in every module of the package that imported it, and in their tables.

    Of a class only the class itself is changed. Everything is as before at the end, whatever happened.
    """
    right = vars(owner)[name]
    with ExitStack() as undo:
        if isinstance(owner, ModuleType):
            for module in _modules():
                _replace_in(vars(module), right, wrong, undo)
        else:
            undo.callback(setattr, owner, name, right)
            setattr(owner, name, wrong)
        yield


@contextmanager
def replaced_in(module: ModuleType, name: str, wrong: Any) -> Iterator[None]:
    """Have one module alone see `wrong` under a name that others may use too."""
    right = vars(module)[name]
    setattr(module, name, wrong)
    try:
        yield
    finally:
        setattr(module, name, right)


def _modules() -> list[ModuleType]:
    return [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "kohort" and module]


def _replace_in(table: dict[str, Any], right: Any, wrong: Any, undo: ExitStack) -> None:
    for key, value in list(table.items()):
        if value is right:
            undo.callback(table.__setitem__, key, right)
            table[key] = wrong
        elif isinstance(value, dict) and not key.startswith("__"):
            for inner, entry in list(value.items()):
                if entry is right:
                    undo.callback(value.__setitem__, inner, right)
                    value[inner] = wrong
