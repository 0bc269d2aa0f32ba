"""Build and try a release: wheel, source distribution, SBOMs and checksums in dist/.

Each extra is installed from the wheel into an empty environment of each Python on this machine, where the README's
programs run in an empty directory, as for a user who has no clone. Nothing is published: a tag does that.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MOST_SDIST_BYTES = 2_000_000
"""Sources and the recorded fleet of `kohort fleet demo`; tests would be as much again, and the fuzzers' inputs too."""

CORE = ""
"""In place of an extra: the package alone."""


class ReleaseFailed(Exception):
    """A step failed; the text is a sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=__doc__)
    parser.add_argument(
        "--draft", action="store_true", help="build what is committed, whatever the tags and changelog are"
    )
    parser.add_argument("--extra", action="append", help="try this extra only; may be repeated, '' is the core alone")
    parser.add_argument("--python", action="append", help=f"try this version only (default: {', '.join(PYTHONS)})")
    chosen = parser.parse_args(arguments)
    try:
        release(chosen.draft, chosen.extra, chosen.python or PYTHONS)
    except ReleaseFailed as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


def release(is_draft: bool, wanted: Sequence[str] | None, pythons: Sequence[str]) -> None:
    """Make the release of HEAD. Raises ReleaseFailed."""
    version = version_of(ROOT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "urls" not in project:
        say("pyproject.toml has no [project.urls]: links on the package's page are plain text (docs/release.md)")
    extras = [CORE, *project["optional-dependencies"]]
    if unknown := set(wanted or ()) - set(extras):
        raise ReleaseFailed(f"there is no extra {sorted(unknown)[0]!r}: there are {', '.join(extras[1:])}")
    for fault in faults_of(ROOT, version):
        if not is_draft:
            raise ReleaseFailed(f"{fault} (--draft builds all the same)")
        say(f"draft: {fault}")
    with step("wheel and source distribution"):
        wheel, sdist = build(version)
        check_wheel(wheel, version, tracked(ROOT))
        check_sdist(sdist)
        run("twine", sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    say(f"{wheel.name} {size_text(wheel.stat().st_size)}, {sdist.name} {size_text(sdist.stat().st_size)}")
    tried = list(interpreters(pythons))
    if not tried:
        raise ReleaseFailed(f"none of Python {', '.join(pythons)} is on the PATH: nothing can be tried")
    for number, (name, python) in enumerate(tried):
        for extra in extras if wanted is None else wanted:
            with step(f"Python {name}, {extra or 'without extras'}"):
                try_extra(wheel, python, extra, DIST / "sbom" if number == 0 else None)
    try_runners(wheel)
    write_checksums(DIST)
    say(f"dist/ is complete: 'git tag -s v{version} && git push origin v{version}' has the workflow release publish it")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"release: {text}", flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print a step before it begins, and how long it took."""
    say(f"{name} …")
    began = time.monotonic()
    yield
    say(f"{name}: {time.monotonic() - began:.0f} s")


def run(what: str, *command: str, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed. Raises ReleaseFailed with the end of its output."""
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise ReleaseFailed(f"{what} failed with status {done.returncode}:\n{done.stdout.strip()[-3_000:]}")
    return done.stdout


def git(root: Path, *words: str) -> str:
    """Return what git prints; an empty text where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def version_of(root: Path) -> str:
    """Return the version, from the one place where it is written. Raises ReleaseFailed."""
    text = (root / "src/kohort/__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseFailed('src/kohort/__init__.py has no line such as __version__ = "0.1.0"')
    return found[1]


def faults_of(root: Path, version: str) -> Iterator[str]:
    """Yield a sentence for each reason why HEAD cannot be released as this version."""
    if changed := git(root, "status", "--porcelain"):
        files = [line.strip().partition(" ")[2].strip() for line in changed.splitlines()]
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        yield f"{', '.join(files[:3])}{more}: changed and not committed; a release is built of what is committed"
    tagged = git(root, "rev-parse", "--verify", "--quiet", f"refs/tags/v{version}^{{commit}}")
    if tagged and tagged != git(root, "rev-parse", "HEAD"):
        advice = "raise __version__ in src/kohort/__init__.py"
        yield f"{version} is released already, as the tag v{version} at {tagged[:8]}: {advice}"
    waiting = [path.name for path in (root / "changes").glob("*.*.md")]
    if waiting:
        advice = f"run `make changelog VERSION={version}`, and commit"
        yield f"changes/ has {len(waiting)} fragments, such as {min(waiting)}: {advice}"
    page = root / "CHANGELOG.md"
    if f"\n## {version} (" not in (page.read_text(encoding="utf-8") if page.exists() else ""):
        yield f"CHANGELOG.md has no section {version}: run `make changelog VERSION={version}`, and commit"


def tracked(root: Path) -> set[str]:
    """Return the files of the package that are committed, by their names in a wheel."""
    listed = git(root, "ls-tree", "-r", "--name-only", "HEAD", "src/").splitlines()
    return {path.removeprefix("src/") for path in listed}


def build(version: str) -> tuple[Path, Path]:
    """Build what is committed, the wheel out of the source distribution. Raises ReleaseFailed."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "head.tar")
        run("git archive", "git", "archive", "--output", str(archive), "HEAD")
        with tarfile.open(archive) as opened:
            opened.extractall(Path(folder, "head"), filter="data")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": git(ROOT, "log", "-1", "--format=%ct")}
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, "-m", "build", "--outdir", str(DIST), str(Path(folder, "head"))]
        run("the build", *command, environment=environment)
    return DIST / f"kohort-{version}-py3-none-any.whl", DIST / f"kohort-{version}.tar.gz"


def check_wheel(wheel: Path, version: str, expected: set[str]) -> None:
    """Compare a wheel with the files that it should have. Raises ReleaseFailed."""
    try:
        with zipfile.ZipFile(wheel) as opened:
            broken = opened.testzip()
            names = {name for name in opened.namelist() if ".dist-info/" not in name}
            metadata = opened.read(f"kohort-{version}.dist-info/METADATA").decode()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ReleaseFailed(f"{wheel.name} is no whole wheel of {version}: {error}; build it again") from error
    if broken:
        raise ReleaseFailed(f"{wheel.name}: {broken} is damaged; build it again")
    for files, what in ((expected - names, "lacks"), (names - expected, "has, though it is not committed,")):
        if files:
            raise ReleaseFailed(f"{wheel.name} {what} {min(files)} ({len(files)} files): look at [tool.hatch.build]")
    if f"\nVersion: {version}\n" not in metadata:
        raise ReleaseFailed(f"{wheel.name}: its metadata is of another version than {version}")


def check_sdist(sdist: Path) -> None:
    """Check that a source distribution has the sources and no tests. Raises ReleaseFailed."""
    if sdist.stat().st_size > MOST_SDIST_BYTES:
        raise ReleaseFailed(
            f"{sdist.name} has {size_text(sdist.stat().st_size)}, at most {size_text(MOST_SDIST_BYTES)}"
        )
    with tarfile.open(sdist) as opened:
        tops = {name.split("/")[1] for name in opened.getnames() if "/" in name}
    if wrong := tops & {"tests", "changes", "bench", "interop", "requirements", ".github"}:
        raise ReleaseFailed(f"{sdist.name} has {', '.join(sorted(wrong))}: look at [tool.hatch.build.targets.sdist]")


def interpreters(versions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield version and path of each Python that is on the PATH; say which is not."""
    for version in versions:
        code = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
        found = shutil.which(f"python{version}")
        command = [found or "false", "-c", code]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        if found and printed[:1] == [version]:
            yield version, printed[1]
        else:
            say(f"Python {version} is not on this machine: not tried")


def try_extra(wheel: Path, python: str, extra: str, sbom: Path | None) -> None:
    """Install the wheel with one extra into an empty environment and run programs there. Raises ReleaseFailed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "venv")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KOHORT"))}
        run("venv", python, "-m", "venv", "--without-pip", str(home), environment=environment)
        own = str(home / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", own, "install", "--quiet"]
        run("pip install", *pip, f"{wheel}[{extra}]" if extra else str(wheel), environment=environment)
        say(f"  installed: {size_text(bytes_below(home / 'lib'))}")
        if sbom is not None:
            sbom.mkdir(exist_ok=True)
            write_sbom(wheel, own, sbom / f"{wheel.name.split('-py3')[0]}{'-' if extra else ''}{extra}.cdx.json")
        empty = Path(folder, "empty")
        empty.mkdir()
        run("kohort --version", str(home / "bin" / "kohort"), "--version", cwd=empty, environment=environment)
        for number, program in enumerate(programs_of(wheel)):
            (empty / f"readme_{number}.py").write_text(program, encoding="utf-8")
            run(f"program {number + 1} of the README", own, f"readme_{number}.py", cwd=empty, environment=environment)
        if extra == "all":
            run("pip install", *pip, "pytest", "opentelemetry-sdk", environment=environment)
        if extra in (CORE, "all"):
            run_examples(own, extra, Path(folder, "examples"), environment)
        if extra == "all":
            tests = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kohort-seeds", "3", "."]
            run("tests of examples/", *tests, cwd=Path(folder, "examples"), environment=environment)


def programs_of(wheel: Path) -> list[str]:
    """Return the whole programs of the README, as the wheel has it: those that are shown from examples/."""
    with zipfile.ZipFile(wheel) as opened:
        text = next(opened.read(name).decode() for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
    found = re.findall(r"<!-- examples/[\w.]+ -->\n+```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    if not found:
        raise ReleaseFailed("the README has no program from examples/")
    return found


def run_examples(python: str, extra: str, folder: Path, environment: dict[str, str]) -> None:
    """Run the examples that need no Spark in a folder, and compare what they print. Raises ReleaseFailed."""
    shutil.copytree(ROOT / "examples", folder)
    others = []
    for script in sorted(folder.glob("*.py")):
        text = script.read_text(encoding="utf-8")
        if script.name.startswith("test_") or "kohort.spark" in text or (extra == CORE and "kohort[" in text):
            continue  # the docstring names an extra that the program needs
        printed = run(f"examples/{script.name}", python, script.name, cwd=folder, environment=environment)
        if printed != script.with_suffix(".txt").read_text(encoding="utf-8"):
            others.append(f"examples/{script.name} prints something else than {script.stem}.txt:\n{printed[-2_000:]}")
    if others:
        raise ReleaseFailed("\n".join(others))


def write_sbom(wheel: Path, python: str, target: Path) -> None:
    """Write the bill of materials of an environment (CycloneDX, JSON) about kohort. Raises ReleaseFailed."""
    tool = str(Path(sys.executable).with_name("cyclonedx-py"))
    options = ["--output-reproducible", "--of", "JSON", "-o", str(target), "--validate"]
    run("cyclonedx-py", tool, "environment", *options, python)
    listed = json.loads(target.read_text(encoding="utf-8"))
    own = next(each for each in listed["components"] if each["name"] == "kohort")
    own.pop("externalReferences", None)  # the path of the wheel on this machine
    own["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    listed["components"].remove(own)
    listed["metadata"]["component"] = {**own, "type": "library"}
    target.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def try_runners(wheel: Path) -> None:
    """Run the command by uvx and pipx, where they are on the PATH. Raises ReleaseFailed."""
    with tempfile.TemporaryDirectory() as folder:
        homes = {"UV_TOOL_DIR": f"{folder}/uv", "PIPX_HOME": f"{folder}/pipx", "PIPX_BIN_DIR": f"{folder}/bin"}
        environment = {**os.environ, **homes}
        environment.pop("PYTHONPATH", None)
        for name, options in (("uvx", ["--from", str(wheel)]), ("pipx", ["run", "--spec", str(wheel)])):
            if shutil.which(name) is None:
                say(f"{name} is not on this machine: not tried")
                continue
            with step(f"{name} … kohort --help"):
                printed = run(name, name, *options, "kohort", "--help", cwd=Path(folder), environment=environment)
                if "usage: kohort" not in printed:
                    raise ReleaseFailed(f"{name} … kohort --help prints:\n{printed}")


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS of all files below a folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files)
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def bytes_below(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def size_text(size: int) -> str:
    """Return a size in MB."""
    return f"{size / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
