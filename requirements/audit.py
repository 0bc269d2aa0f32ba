"""Known vulnerabilities of what requirements/ pins, by pip-audit, from the advisories of PyPI.

Exit status 0: none is known; 1: pip-audit lists them; 2: the advisories cannot be reached from here.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL = "pip-audit==2.10.1"
FOLDER = ROOT / "build" / "audit"
UNREACHABLE = ("ConnectionError", "ServiceError", "Max retries exceeded", "HTTPError", "Could not connect")


def installed() -> Path:
    """Return pip-audit, in an environment of its own: it shares packages with ours, in other versions."""
    program = FOLDER / "bin" / "pip-audit"
    if not program.exists():
        venv.create(FOLDER, with_pip=True)
        command = [
            str(FOLDER / "bin" / "python"),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            TOOL,
        ]
        subprocess.run(command, check=True)
    return program


def main() -> int:
    status = 0
    for locked in sorted((ROOT / "requirements").glob("*.txt")):
        command = [str(installed()), "--require-hashes", "--disable-pip", "--progress-spinner=off", "--requirement"]
        done = subprocess.run([*command, str(locked)], capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        if done.returncode and any(sign in output for sign in UNREACHABLE):
            last = output.strip().rpartition("\n")[2]
            print(f"requirements/{locked.name}: NOT AUDITED, PyPI's advisories cannot be reached from here: {last}")
            print("CI audits the lock files with every change (.github/workflows/test.yml)")
            return 2
        print(f"requirements/{locked.name}: {output.strip()}")
        status = max(status, done.returncode)
    return status


if __name__ == "__main__":
    sys.exit(main())
