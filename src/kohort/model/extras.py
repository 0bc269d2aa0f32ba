"""The command that installs an optional package, for messages about one that is missing.

In a clone it is the one for the clone; where kohort is installed, pip adds what the installed version names.
"""

from __future__ import annotations

# fmt: off
MEGABYTES = {
    "fast": 50, "cli": 6, "spark": 1080, "postgres": 12, "delta": 320, "fleet": 1290, "iceberg": 270, "metrics": 1,
    "keda": 19, "security": 16, "console": 3, "top": 10, "telemetry": 1, "schemas": 1, "faststream": 16, "all": 1470,
}
# fmt: on
"""What each extra adds, installed alone by uv on Linux and Python 3.11; pip compiles modules too, and takes more."""


def install_command(extra: str) -> str:
    """Return how to install an extra of pyproject.toml, and how large it is, as the end of a sentence."""
    is_installed = "site-packages" in __file__ or "dist-packages" in __file__
    command = (
        f"run: pip install 'kohort[{extra}]'" if is_installed else f"in a clone of kohort run: pip install '.[{extra}]'"
    )
    return f"{command} ({MEGABYTES[extra]} MB)"
