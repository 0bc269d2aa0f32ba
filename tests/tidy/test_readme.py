"""The commands that the documents show exist, and the code they show is the code in examples/."""

from __future__ import annotations

import re
import shlex
import tomllib

from tests.tidy.tree import Tree

from kohort.cli.main import parser_for

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^<!-- (examples/[\w./-]+) -->\n+```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def documents(tree: Tree) -> list[str]:
    return [path for path in tree.files if path.endswith(".md") and not path.startswith("changes/")]


def commands(tree: Tree, path: str) -> list[str]:
    """Return the shell commands of a document: the lines of `sh` blocks, and those after "$ " in `console` blocks."""
    found: list[str] = []
    for language, body in FENCE.findall(tree.text(path)):
        if language == "console":
            found += [line[2:] for line in body.splitlines() if line.startswith("$ ")]
        elif language == "sh":
            found += [line for line in body.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return found


def test_every_make_verb_that_a_document_names_is_in_the_makefile(tree: Tree) -> None:
    targets = set(re.findall(r"^([a-z]+):", tree.text("Makefile"), flags=re.MULTILINE))
    named = {
        (path, verb)
        for path in documents(tree)
        for verb in re.findall(r"`make ([a-z]+)", tree.text(path))
        + [word for line in commands(tree, path) for word in re.findall(r"^make ([a-z]+)", line)]
    }
    assert {(path, verb) for path, verb in named if verb not in targets} == set()


def test_forges_and_hooks_call_verbs_of_the_makefile(tree: Tree) -> None:
    targets = set(re.findall(r"^([a-z]+):", tree.text("Makefile"), flags=re.MULTILINE))
    for path in (".github/workflows/test.yml", ".pre-commit-config.yaml", ".ci/run"):
        text = tree.text(path)
        verbs = set(re.findall(r"\bmake ([a-z]+)", text)) | set(
            re.findall(r"\w+", "".join(re.findall(r"^ *verb: \[(.*)\]", text, flags=re.MULTILINE)))
        )
        assert verbs, f"{path} calls no verb"
        assert verbs <= targets, f"{path} calls {sorted(verbs - targets)}, which the Makefile does not have"


def test_every_kohort_command_of_a_document_can_be_parsed(tree: Tree) -> None:
    for path in documents(tree):
        for line in commands(tree, path):
            for part in re.split(r"\s(?:\||&&|>)\s", line.removesuffix(" &").removesuffix("\\")):
                words = shlex.split(part, comments=True)
                if words[:1] == ["kohort"] and "--help" not in words:
                    parser_for(words[1:]).parse_args(words[1:])  # exits, naming what is wrong, where it cannot


def test_every_extra_that_a_document_installs_exists(tree: Tree) -> None:
    extras = tomllib.loads(tree.text("pyproject.toml"))["project"]["optional-dependencies"].keys()
    for path in documents(tree):
        for listed in re.findall(r"kohort\[([\w,]+)\]", tree.text(path)):
            assert set(listed.split(",")) <= set(extras), f"{path}: kohort[{listed}]"


def test_code_in_a_document_is_the_file_it_names(tree: Tree) -> None:
    shown = {path: SHOWN.findall(tree.text(path)) for path in documents(tree)}
    assert shown["README.md"], "README.md shows no example"
    for path, examples in shown.items():
        for example, code in examples:
            assert code == tree.text(example), f"{path} shows an old {example}: run `make gen`"


def test_the_readme_names_every_top_level_directory(tree: Tree) -> None:
    readme = tree.text("README.md")
    directories = {path.split("/")[0] for path in tree.files if "/" in path and not path.startswith(".")}
    assert {name for name in directories if f"{name}/" not in readme} == set()
