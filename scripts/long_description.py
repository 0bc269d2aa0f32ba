"""The long description of the package: README.md, with links that work outside of the repository.

A metadata hook of hatchling. `[project.urls]` decides: links into docs/ lead to `Documentation`, all others and
pictures to the tag of this version at `Source`. Without an address the text of a link stays, and a picture is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only builds have it
    MetadataHookInterface = object

_FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(r"<picture>.*?</picture>\n?|<img [^>]*>\n?", re.DOTALL)
_ADDRESS = re.compile(r"""\b(src|srcset)=(["'])(?![a-z]+:)([^"']+)""")


def long_description(readme: str, version: str, urls: Mapping[str, str]) -> str:
    """Return README.md for a page elsewhere."""
    source, site = (urls.get(name, "").rstrip("/") for name in ("Source", "Documentation"))

    def link(found: re.Match[str]) -> str:
        is_picture, text, path, anchor = found[1], found[2], found[3], found[4] or ""
        if is_picture:
            return f"![{text}]({source}/raw/v{version}/{path})" if source else ""
        if site and path.startswith("docs/") and path.endswith(".md"):
            page = PurePosixPath(path).relative_to("docs").with_suffix(".html")
            return f"[{text}]({site}/{page.with_name('index.html') if page.stem == 'README' else page}{anchor})"
        return f"[{text}]({source}/blob/v{version}/{path}{anchor})" if source else text

    def outside(text: str) -> str:
        text = _ADDRESS.sub(rf"\1=\2{source}/raw/v{version}/\3", text) if source else _PICTURE.sub("", text)
        return _LINK.sub(link, text)

    return "".join(part if part.startswith("```") else outside(part) for part in _FENCED.split(readme))


class LongDescription(MetadataHookInterface):  # type: ignore[misc]
    """What hatchling calls for a build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the package."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = long_description(readme, metadata["version"], metadata.get("urls", {}))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
