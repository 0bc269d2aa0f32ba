"""Builds the manual into build/site/VERSION and checks every link of what was built: `make site`.

Beside the version's folder are `versions.json` and a page that leads to the newest, as mike lays them out: copy the
folders of earlier releases back before building, and the menu of versions lists them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kohort import __version__

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
"""What a browser requests without a click."""


class Links(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[tuple[str, bool]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def read_tag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element is called, and what it leads to or fetches."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.targets.append((value, (tag, name) in FETCHED and ("rel", "canonical") not in attrs))

    handle_starttag = read_tag


def faults(site: Path) -> Iterator[str]:
    """Yield a sentence for each link without a target, each missing anchor, and each file of another server."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for page, links in pages.items():
        if page.name == "404.html":
            continue  # its links begin at the root of the server, which only `site_url` knows
        for target, is_fetched in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if is_fetched and parts.scheme != "data":
                    yield f"{page.relative_to(site)} fetches {target} from another server"
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if file.is_dir():
                file /= "index.html"
            if not file.is_file():
                yield f"{page.relative_to(site)} -> {target}: there is no such file"
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                yield f"{page.relative_to(site)} -> {target}: there is no such heading"


def list_versions(version: str) -> None:
    """Add a version to the menu, and lead from the site's root to it."""
    menu = SITE / "versions.json"
    known = json.loads(menu.read_text(encoding="utf-8")) if menu.exists() else []
    others = [each for each in known if each["version"] != version and (SITE / each["version"]).is_dir()]
    listed = [{"version": version, "title": version, "aliases": []}, *others]
    menu.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    start = f"{version}/index.html"
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={start}"><a href="{start}">kohort</a>'
    (SITE / "index.html").write_text(page + "\n", encoding="utf-8")


def main() -> int:
    """Build and check; return the exit code."""
    folder = SITE / __version__
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if built.returncode:
        return built.returncode
    list_versions(__version__)
    found = list(faults(SITE))
    for fault in found:
        print(fault, file=sys.stderr)
    print(f"{folder.relative_to(ROOT)}: {len(list(folder.rglob('*.html')))} pages, {len(found)} faults of links")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
