"""Runs one target under libFuzzer, which sees the coverage of our code: python -m tests.decoders.guided TARGET …

What follows the name goes to libFuzzer. The decoders of messages are compiled from schemas when they are first used,
so they are instrumented where they are made.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["kohort"]):
    from tests.decoders.targets import TARGETS

    from kohort.wire import codec


def _instrument_compiled() -> None:
    make = codec._compile

    def compiled(*args: Any, **kwargs: Any) -> Any:
        return atheris.instrument_func(make(*args, **kwargs))

    codec._compile = compiled  # type: ignore[attr-defined]


def main() -> None:
    """Run until libFuzzer ends the process."""
    name, *rest = sys.argv[1:]
    target = TARGETS[name]
    _instrument_compiled()
    # What libFuzzer runs again to merge inputs, by a shell.
    this = shlex.join([sys.executable, "-m", "tests.decoders.guided", name])
    atheris.Setup([this, *rest, f"-max_len={target.longest}"], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
