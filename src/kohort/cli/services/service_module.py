"""Finds the service that MODULE:NAME names: imports the module as Python does, from the working directory too."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from types import ModuleType

from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, unknown
from kohort.client.service.service import Service


def service_of(text: str) -> Service:
    """Return the service that `MODULE:NAME` names, or the only one of `MODULE`.

    Raises CommandFailed. Where the module itself raises, its traceback goes to stderr: the fault is in it.
    """
    name, _, attribute = text.partition(":")
    if name.endswith(".py") or "/" in name:
        guess = name.removesuffix(".py").strip("./").replace("/", ".")
        raise CommandFailed(
            f"{name!r} is a file: name its module, as in `kohort run {guess}:{attribute or 'app'}`", USAGE
        )
    module = _imported(name)
    services = {key: value for key, value in vars(module).items() if isinstance(value, Service)}
    if attribute:
        if attribute not in vars(module):
            raise unknown(f"object in module {name}:", attribute, services or vars(module))
        found = getattr(module, attribute)
        if not isinstance(found, Service):
            kind = type(found).__name__
            raise CommandFailed(f"{text} is no kohort.Service but a {kind}: name the object that has `consume`", USAGE)
        return found
    if not services:
        raise CommandFailed(f"module {name} has no kohort.Service: make one, `app = kohort.Service()`", USAGE)
    if len({*map(id, services.values())}) > 1:
        raise CommandFailed(
            f"module {name} has several services: name one, {name}:{f', {name}:'.join(services)}", USAGE
        )
    return next(iter(services.values()))


def _imported(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            advice = "run in the directory that has it, or set PYTHONPATH"
            raise CommandFailed(f"there is no module {error.name!r}: {advice}", USAGE) from None
        traceback.print_exc()
        raise CommandFailed(f"module {name} needs {error.name!r}, which is not installed", FAILED) from None
    except Exception as error:
        traceback.print_exc()
        raise CommandFailed(f"module {name} cannot be imported: {type(error).__name__}: {error}", FAILED) from None
