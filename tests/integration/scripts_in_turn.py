"""Run scripts one after the other in one process, so that Java starts once for all of them.

    python -m tests.integration.scripts_in_turn DIRECTORY SCRIPT...

Writes what each one printed to DIRECTORY, in a file of its name; a script that fails prints its traceback there too.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path


def main(folder: str, *scripts: str) -> None:
    """Run all of them."""
    for script in scripts:
        with (Path(folder) / Path(script).name).open("w", encoding="utf-8") as printed, redirect_stdout(printed):
            try:
                runpy.run_path(script, run_name="__main__")
            except BaseException:  # the next one is run all the same
                traceback.print_exc(file=printed)


if __name__ == "__main__":
    main(*sys.argv[1:])
