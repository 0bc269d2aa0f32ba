"""Prose in plain words: a member sends, requests and owns; it does not say, tell or hear. No persons, no riddles."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import PurePosixPath

from tests.tidy.tree import Tree, nodes

REPLACEMENTS = {
    "said|told|tells?|telling|hears?|heard": "sends, reports, returns, requests, receives, learns",
    "whoever|whom|nobody|somebody|anybody|everybody": "the client, the caller, no member, each member",
    "luck|door|doors|ills|heed|heeds|heeded|heeding": "random numbers, socket, faults, checks",
    "put out|puts out|goes away|keeps quiet|makes do": "evict, fence, leave",
    "nameless|hurry|hurries|hurried|rouse|rouses|rousing": "without a member id, unresolved, expedited, woken",
}
"""Words that hide the industry's term, and what may be meant instead."""

VERBS_OF_THE_WIRE = {
    "held|hold|holds|holding|kept|keep|keeps|keeping": "parked, delayed, withheld, owned, buffered, stored, retained",
    "say|says|saying": "sends, reports, claims",
    "goes on|go on|going on|went on|gives up|give up|giving up|given up|gave up": "continues, rises, revokes, abandons",
    "lets in|let in|lets through|news|silent|silence|sound|stranger|strangers": "admits, forwards, valid, unknown",
    "at rest|out of reach": "stable, not open, not parked",
}
"""As `REPLACEMENTS`, where prose is free of them already: in `PACKAGES_OF_WIRE_VERBS`."""

PACKAGES_OF_WIRE_VERBS = tuple(
    f"src/kohort/{name}/"
    for name in (
        "assign",
        "broker",
        "cli",
        "client",
        "console",
        "drawing",
        "fleet",
        "gateway",
        "group",
        "log",
        "member",
        "model",
        "net",
        "node",
        "parking",
        "sim",
        "spark",
        "testing",
        "transaction",
        "what_if",
        "wire",
    )
)

BANNED = re.compile(rf"\b(?:{'|'.join(REPLACEMENTS)})\b", re.IGNORECASE)

CODE = ("src/", "demo/", "tests/", "bench/", "examples/", "interop/", "scripts/")

SAMPLES = ("tests/tidy/test_tidy.py",)
"""Strings with offences, by which each test of tidy is tested."""

USER_NAMES = {"interop/postgres.py"}
"""`nobody` is a user of the operating system."""

OF_THE_TEST = "tests/tidy/test_words.py"


@cache
def prose_and_strings(text: str) -> list[tuple[int, bool, str]]:
    """Return line, whether it is a docstring or comment, and text of every comment and string of a module."""
    documented = {
        statement.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    middle = getattr(tokenize, "FSTRING_MIDDLE", None)
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found.append((token.start[0], True, token.string))
        elif token.type in (tokenize.STRING, middle):
            found.append((token.start[0], token.start[0] in documented, token.string))
    return found


def offences(tree: Tree, *, is_prose: bool, but: tuple[str, ...]) -> list[str]:
    """Return the banned words in the docstrings and comments, or in the other strings, of our code."""
    return [
        f"{path}:{line + text[: match.start()].count(chr(10))}: {match.group()!r}"
        for path in tree.under(*CODE)
        if not path.startswith(but) and path != OF_THE_TEST and path not in USER_NAMES
        if BANNED.search(tree.text(path))
        for line, prose, text in prose_and_strings(tree.text(path))
        if prose is is_prose
        for match in BANNED.finditer(text)
    ]


def advice(found: list[str]) -> str:
    return "\n".join([*found, *(f"instead of {words}: {better}" for words, better in REPLACEMENTS.items())])


def test_docstrings_and_comments_use_plain_words(tree: Tree) -> None:
    found = offences(tree, is_prose=True, but=())
    assert not found, advice(found)


def test_docstrings_and_comments_use_the_verbs_of_the_wire(tree: Tree) -> None:
    """A name in backticks stays: it is a field of an event, or Kafka's."""
    banned = re.compile(rf"\b(?:{'|'.join(VERBS_OF_THE_WIRE)})\b", re.IGNORECASE)
    found = [
        f"{path}:{line}: {match.group()!r}"
        for path in tree.under(*PACKAGES_OF_WIRE_VERBS)
        for line, is_prose, text in prose_and_strings(tree.text(path))
        if is_prose
        for match in banned.finditer(re.sub(r"`[^`]*`", "", text))
    ]
    assert not found, "\n".join([*found, *(f"{words}: {better}" for words, better in VERBS_OF_THE_WIRE.items())])


def test_messages_use_plain_words(tree: Tree) -> None:
    found = offences(tree, is_prose=False, but=SAMPLES)
    assert not found, advice(found)


def test_names_of_modules_functions_and_tests_use_plain_words(tree: Tree) -> None:
    found = [
        f"{path}: {name}"
        for path, module in tree.modules(*CODE)
        for name in [
            PurePosixPath(path).stem,
            *(
                node.name
                for node in nodes(module)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            ),
        ]
        if BANNED.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name))
    ]
    assert not found, advice(found)


def test_documents_use_plain_words(tree: Tree) -> None:
    """Code and quoted output are left out: they show what a program prints."""
    found = [
        f"{path}: {match.group()!r}"
        for path in tree.under("", suffix=".md")
        for match in BANNED.finditer(re.sub(r"```.*?```|`[^`\n]*`", "", tree.text(path), flags=re.DOTALL))
    ]
    assert not found, advice(found)
