"""The repository names no machine of ours: no home directory, no mirror, no registry."""

from __future__ import annotations

import re

from tests.tidy.tree import Tree

# Written in pieces, so that this file does not offend itself.
MACHINE_PATHS = re.compile(
    "|".join([r"(?<![\w.])/" + name for name in ("work/", r"home/\w", "root/", "Users/", "tmp/")])
)
REGISTRIES = re.compile(
    "|".join(
        [
            "py" + r"pi\.org/simple", "pyt" + r"honhosted\.org", "index" + r"[-_]url *=", "extra" + r"-index-url",
            "repo" + r"1?\.maven", "maven" + r"\.apache\.org/maven2", "registry" + r"\.npmjs", "proxy" + r"\.golang",
            r"\b10\.\d+\.\d+\.\d+\b", r"\b192\.168\.\d+\.\d+\b",
        ]
    )
)  # fmt: skip


def offences(tree: Tree, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{number}: {match.group()}"
        for path in tree.files
        if not path.endswith((".png", ".jpg", ".bin", ".gz", ".zip")) and pattern.search(tree.text(path))
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def test_no_machine_path_is_in_the_repository(tree: Tree) -> None:
    found = offences(tree, MACHINE_PATHS)
    assert not found, "\n".join(found[:50])


def test_no_registry_address_is_in_the_repository(tree: Tree) -> None:
    found = offences(tree, REGISTRIES)
    assert not found, "\n".join(found[:50])
