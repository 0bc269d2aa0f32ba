"""What the documents point at exists, and every document can be reached from the README."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import normpath

from tests.tidy.test_words import prose_and_strings
from tests.tidy.tree import Tree

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|\bsrc(?:set)?=\"([^\"]+)\"")
NAMED = re.compile(r"(?<![\w./-])(?P<file>(?:[\w-]+/)*[\w-]+\.py)\b|[dD]ecisions?[/ ](?P<decision>\d+)")
"""A file of Python, or a page of docs/decisions, in a docstring or comment."""

OF_USERS = {"conftest.py"}
"""Files of users that docstrings name."""

STARTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


def without_code(text: str) -> str:
    """Return Markdown without its fenced blocks, where brackets mean something else."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+?) *$", without_code(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")).replace(" ", "-") for title in titles}


def links(tree: Tree, path: str) -> list[tuple[str, str]]:
    """Return (file, anchor) of every relative link of a document; an empty file is the document itself."""
    found = []
    for groups in LINK.findall(without_code(tree.text(path))):
        target = "".join(groups)
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        resolved = normpath(str(PurePosixPath(path).parent / file)) if file else path
        found.append((resolved, anchor))
    return found


def test_every_relative_link_resolves(tree: Tree) -> None:
    directories = {str(parent) for path in tree.files for parent in PurePosixPath(path).parents}
    offences = [
        f"{path} -> {target}"
        for path in tree.under("", suffix=".md")
        for target, _ in links(tree, path)
        if target not in tree.files and target not in directories
    ]
    assert not offences, "\n".join(offences)


def test_every_anchor_is_a_heading(tree: Tree) -> None:
    offences = [
        f"{path} -> {target}#{anchor}"
        for path in tree.under("", suffix=".md")
        for target, anchor in links(tree, path)
        if anchor and target.endswith(".md") and target in tree.files and anchor not in anchors(tree.text(target))
    ]
    assert not offences, "\n".join(offences)


def test_every_path_in_a_document_exists(tree: Tree) -> None:
    """A path of Python code in backticks, from the root, from src/kohort, or from the folder that the text is about."""
    offences = [
        f"{path}: {named}"
        for path in tree.under("", suffix=".md")
        if not path.startswith("changes/")
        for named in re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.pyi?)`", tree.text(path))
        if not any(file == named or file.endswith("/" + named) for file in tree.files)
    ]
    assert not offences, "moved or renamed? name the new place:\n" + "\n".join(offences)


def test_every_file_that_a_docstring_or_comment_names_exists(tree: Tree) -> None:
    """A path begins at the module's folder, at one around it, or at src/kohort; a decision has a page of its number."""
    pages = {int(PurePosixPath(path).name[:4]) for path in tree.under("docs/decisions/0", suffix=".md")}
    offences = []
    for path in tree.under("src/"):
        folders = [*PurePosixPath(path).parents, PurePosixPath("src/kohort")]
        if not NAMED.search(tree.text(path)):
            continue
        for line, is_prose, text in prose_and_strings(tree.text(path)):
            for match in NAMED.finditer(text) if is_prose else ():
                is_there = (
                    int(match["decision"]) in pages
                    if match["decision"]
                    else match["file"] in OF_USERS or any(str(each / match["file"]) in tree.files for each in folders)
                )
                if not is_there:
                    offences.append(f"{path}:{line + text[: match.start()].count(chr(10))}: {match.group()}")
    assert not offences, "moved, renamed or merged? name the new place:\n" + "\n".join(offences)


def test_the_maps_of_the_code_name_paths_from_the_root(tree: Tree) -> None:
    directories = {f"{parent}/" for path in tree.files for parent in PurePosixPath(path).parents}
    offences = [
        f"{path}: {named}"
        for path in ("ARCHITECTURE.md", "CONTRIBUTING.md")
        if path in tree.files
        for named in re.findall(r"`((?:src|tests|docs|scripts|\.github)/[\w./-]*)`", tree.text(path))
        if not named.endswith(".py") and named not in tree.files and named not in directories
    ]
    assert not offences, "moved or renamed? name the new place:\n" + "\n".join(offences)


def test_every_document_is_reachable_from_the_readme(tree: Tree) -> None:
    reached: set[str] = set()
    waiting = list(STARTS)
    while waiting:
        path = waiting.pop()
        if path in reached or path not in tree.files:
            continue
        reached.add(path)
        if path.endswith(".md"):
            waiting.extend(target for target, _ in links(tree, path))
    orphans = [path for path in tree.files if path.startswith("docs/") and path not in reached]
    assert not orphans, "link them from docs/README.md:\n" + "\n".join(orphans)


def test_kips_and_tickets_are_spelled_so_that_they_can_be_searched(tree: Tree) -> None:
    wrong = re.compile(
        r"\b(?:KIP(?!-\d{1,4}\b)[ _-]?\d+|Kip-\d+|kip-\d+(?!\.\w)|KAFKA(?!-\d{3,5}\b)[ -]\d+|Kafka-\d{3,5})\b"
    )
    offences = [
        f"{path}:{number}: {match.group()}"
        for path in tree.files
        if path.endswith((".py", ".md", ".txt", ".toml")) and not path.startswith(("tests/tidy/", "requirements/"))
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        for match in wrong.finditer(line)
    ]
    assert not offences, "\n".join(offences)


def test_every_changelog_fragment_is_named_and_says_one_thing(tree: Tree) -> None:
    offences = []
    for path in tree.under("changes/", suffix=".md"):
        name = PurePosixPath(path).name
        if name == "README.md":
            continue
        if not re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", name):
            offences.append(f"{path}: name it SUBJECT.added.md, .changed.md, .fixed.md or .removed.md")
        elif not tree.text(path).strip() or len(tree.text(path)) > 700:
            offences.append(f"{path}: one paragraph for a user")
    assert not offences, "\n".join(offences)


def test_every_boundary_of_the_threat_model_names_tests_that_exist(tree: Tree) -> None:
    boundaries = re.split(r"^## ", tree.text("docs/threat-model.md"), flags=re.MULTILINE)[1:]
    assert len(boundaries) >= 10
    for boundary in boundaries:
        named = re.findall(r"`(tests/[\w/]+\.py)`", boundary)
        assert named, boundary.partition("\n")[0]
        assert [path for path in named if path not in tree.files] == []
