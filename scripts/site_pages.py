"""mkdocs hook: pages may link to files of the repository outside docs/, and these become part of the site.

A Markdown file becomes a page under `repository/`, a folder a page that lists its files, others are copied as text.
So no link of the site leads to a forge, whose address is known only to the owner of the name.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FENCED = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'(\]\(|\bsrc(?:set)?=")([^)\s"]+)(\)|")')
"""A link or picture, the latter in HTML too."""
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:")


def tracked() -> frozenset[str]:
    """Return the path of each file that belongs to the repository."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return frozenset(path for path in listing.split("\0") if path and (ROOT / path).is_file())


def uri(path: str) -> str:
    """Return where a file or folder of the repository is among the sources of the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"repository/{path}/index.md"
    return f"repository/{path}" if path.endswith((".md", ".svg", ".png")) else f"repository/{path}.txt"


def targets(markdown: str, path: str) -> list[str]:
    """Return the files and folders that a document of the repository links to."""
    found = [link[1] for part in FENCED.split(markdown)[::2] for link in LINK.findall(part)]
    paths = [target.partition("#")[0] for target in found if not EXTERNAL.match(target)]
    return [normpath(str(PurePosixPath(path).parent / target)) for target in paths if target]


def text_of(path: str, files: frozenset[str]) -> str:
    """Return a file's text; of a folder, a page with a link to each of its files."""
    if not (ROOT / path).is_dir():
        return (ROOT / path).read_text(encoding="utf-8")
    inside = sorted(file for file in files if file.startswith(f"{path}/") and "/" not in file[len(path) + 1 :])
    return f"# {path}/\n\n" + "\n".join(
        f"- [{PurePosixPath(file).name}]({PurePosixPath(file).name})" for file in inside
    )


def relinked(markdown: str, path: str) -> str:
    """Return a document of the repository with its links as they are among the sources of the site."""
    here = PurePosixPath(uri(path)).parent

    def changed(link: re.Match[str]) -> str:
        target, mark, anchor = link[2].partition("#")
        if not target or EXTERNAL.match(target):
            return link[0]
        base = path if (ROOT / path).is_dir() else str(PurePosixPath(path).parent)
        there = normpath(str(PurePosixPath(base) / target))
        if there == "docs":
            there = "docs/README.md"
        return link[1] + relpath(uri(there), here) + mark + anchor + link[3]

    parts = FENCED.split(markdown)
    parts[::2] = [LINK.sub(changed, part) for part in parts[::2]]
    return "".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the documents link to, and what that links to."""
    from mkdocs.structure.files import File

    every = tracked()
    waiting = [f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    reached = set(waiting)
    while waiting:
        path = waiting.pop()
        text = text_of(path, every)
        if not path.startswith("docs/"):
            files.append(File.generated(config, uri(path), content=text))
        if not path.endswith(".md") and not (ROOT / path).is_dir():
            continue
        base = f"{path}/index" if (ROOT / path).is_dir() else path
        for target in set(targets(text, base)) - reached:
            if target in every or (ROOT / target).is_dir():
                reached.add(target)
                if not target.startswith("docs") or target.endswith(".md"):
                    waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rewrite the links of a page."""
    source = page.file.src_uri
    if source.startswith("repository/"):
        return relinked(markdown, source.removeprefix("repository/").removesuffix("/index.md"))
    return relinked(markdown, f"docs/{source}")
