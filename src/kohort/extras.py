"""The command that installs an optional package, for messages about one that is missing.

No package index has kohort yet, so the command is the one for a clone of the repository.
"""

from __future__ import annotations


def install_command(extra: str) -> str:
    """Return how to install an extra of pyproject.toml, as the end of a sentence."""
    return f"in a clone of kohort run: pip install '.[{extra}]'"
