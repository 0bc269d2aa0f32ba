"""Names that a package exports and imports only when they are first asked for.

So that `import kohort` costs nothing, and a broker does not load the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, home_of: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names live in the modules of `home_of`.

    A name whose home is the package's module of that name is that module.
    """

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home_of[name])
        return module if home_of[name] == f"{package}.{name}" else getattr(module, name)

    return find
