"""Names that a package exports and imports only when they are first asked for.

So that `import kohort` costs nothing, and a broker does not load the client. Type checkers read the same names from the
package's `if TYPE_CHECKING` block, as `import NAME as NAME`, which is what exports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, names_in: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that exports the names of each module, separated by blanks.

    A name that is the module's own, directly in the package, is that module. `__all__` are the names.
    """
    home_of = {name: module for module, names in names_in.items() for name in names.split()}

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(home_of)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home_of[name])
        return module if home_of[name] == f"{package}.{name}" else getattr(module, name)

    return find, lambda: sorted(home_of.keys() | vars(import_module(package)))
