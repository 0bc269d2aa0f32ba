"""One module per API key, named kNN_name: the list of these files is the list of what the broker serves.

Each has `handle(context, request, message)`, which returns the response or None (parked: `request.reply` comes
later). `refuse(message, code, text, version)` returns an error response, where `node.error_responses` does not suffice.
"""

from __future__ import annotations

from pkgutil import iter_modules

MODULES: dict[int, str] = {
    int(module.name[1:].partition("_")[0]): module.name for module in iter_modules(__path__) if module.name[0] == "k"
}
"""Module names by API key."""
