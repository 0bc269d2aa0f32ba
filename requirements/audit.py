"""Known vulnerabilities of what requirements/ pins, by pip-audit, from the advisories of PyPI.

Exit status 0: none is known; 1: pip-audit lists them; 2: the advisories cannot be reached from here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOOL = "pip-audit==2.10.1"
FOLDER = ROOT / "build" / "audit"


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


def found(locked: Path) -> list[dict[str, Any]] | None:
    """Return what pip-audit knows of each package of a lock file; None where it cannot look them up."""
    command = [str(installed()), "--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json"]
    done = subprocess.run([*command, "--requirement", str(locked)], capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stderr.strip().rpartition("\n")[2])
        return None
    return packages


def main() -> int:
    status = 0
    for locked in sorted((ROOT / "requirements").glob("*.txt")):
        packages = found(locked)
        skipped = [each["name"] for each in packages or () if "skip_reason" in each]
        if packages is None or skipped:
            which = f"{len(skipped)} of {len(packages)} packages" if packages else "its packages"
            print(
                f"requirements/{locked.name}: NOT AUDITED: PyPI has no advisories for {which} that can be reached here"
            )
            print("CI audits the lock files with every change: .github/workflows/test.yml")
            return 2
        holes = [(each, hole) for each in packages for hole in each["vulns"]]
        for package, hole in holes:
            fixed = ", ".join(hole["fix_versions"]) or "no version yet"
            print(f"requirements/{locked.name}: {package['name']} {package['version']}: {hole['id']}, fixed in {fixed}")
        print(f"requirements/{locked.name}: {len(packages)} packages, {len(holes)} known vulnerabilities")
        status = max(status, bool(holes))
    return status


if __name__ == "__main__":
    sys.exit(main())
