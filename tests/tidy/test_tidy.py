"""Tidy finds what it forbids: each ban is shown a repository that offends it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tidy import test_dependencies as dependencies
from tests.tidy import test_docs as docs
from tests.tidy import test_names as names
from tests.tidy import test_packages as packages
from tests.tidy import test_places as places
from tests.tidy import test_purity as purity
from tests.tidy import test_sizes as sizes
from tests.tidy import test_structure as structure
from tests.tidy import test_words as plain
from tests.tidy.tree import Tree

GROUP = "src/kohort/group/"

OFFENCES: list[tuple[Callable[[Tree], None], str, str]] = [
    (purity.test_inner_layers_import_no_clock_chance_thread_or_socket, GROUP + "a.py", "from time import monotonic\n"),
    (
        purity.test_inner_layers_import_no_clock_chance_thread_or_socket,
        GROUP + "a.py",
        "def f():\n    import os.path\n",
    ),
    (purity.test_inner_layers_open_no_file, "src/kohort/log/a.py", "open('x')\n"),
    (purity.test_the_core_imports_with_the_standard_library_alone, "src/kohort/a.py", "import uvloop\n"),
    (names.test_no_name_uses_a_word_that_says_nothing, GROUP + "a.py", "class GroupManager: pass\n"),
    (names.test_no_name_uses_a_word_that_says_nothing, GROUP + "a.py", "def process_join(): pass\n"),
    (names.test_no_name_uses_a_word_that_says_nothing, GROUP + "a.py", "class TopicInfo: pass\n"),
    (names.test_no_name_uses_a_word_that_says_nothing, GROUP + "a.py", "def f(info): pass\n"),
    (names.test_no_module_is_named_after_nothing, GROUP + "utils.py", "x = 1\n"),
    (names.test_no_function_is_named_handle, GROUP + "a.py", "def handle(): pass\n"),
    (names.test_a_time_in_milliseconds_has_one_definition, GROUP + "a.py", "PARK_MS = 1\nPARK_MS, B = 2, 3\n"),
    (names.test_units_come_last, GROUP + "a.py", "ms_timeout = 1\n"),
    (names.test_no_two_classes_share_a_name_unless_listed, GROUP + "a.py", "class A: ...\nclass A: ...\n"),
    (sizes.test_no_function_is_longer_than_70_lines, GROUP + "a.py", "def f():\n" + "    x = 1\n" * 70),
    (sizes.test_every_module_opens_with_at_most_ten_lines_of_docstring, GROUP + "a.py", "x = 1\n"),
    (
        sizes.test_every_module_opens_with_at_most_ten_lines_of_docstring,
        "src/kohort/a.py",
        '"""' + "a\n" * 11 + '"""\n',
    ),
    (sizes.test_no_python_file_is_empty, GROUP + "a.py", "\n"),
    (structure.test_a_package_init_only_reexports, GROUP + "__init__.py", "def f(): pass\n"),
    (structure.test_a_package_init_only_reexports, GROUP + "__init__.py", "table = dict()\n"),
    (structure.test_no_test_sleeps, "tests/a.py", "import asyncio\nasyncio.sleep(0.1)\n"),
    (structure.test_no_test_mocks_our_code, "tests/a.py", "from unittest.mock import patch\n"),
    (structure.test_no_error_is_swallowed_bare, GROUP + "a.py", "try:\n    f()\nexcept:\n    pass\n"),
    (structure.test_no_debugging_is_left_behind, "tests/a.py", "breakpoint()\n"),
    (docs.test_every_relative_link_resolves, "README.md", "[gone](docs/gone.md)\n"),
    (docs.test_every_anchor_is_a_heading, "README.md", "# Here\n[there](README.md#there)\n"),
    (docs.test_every_path_in_a_document_exists, "README.md", "see `kohort/gone.py`\n"),
    (docs.test_every_file_that_a_docstring_or_comment_names_exists, GROUP + "a.py", '"""As `gone.py`."""\n'),
    (docs.test_every_file_that_a_docstring_or_comment_names_exists, GROUP + "a.py", "x = 1  # decision 999\n"),
    (docs.test_the_maps_of_the_code_name_paths_from_the_root, "ARCHITECTURE.md", "see `src/kohort/gone/`\n"),
    (docs.test_every_document_is_reachable_from_the_readme, "docs/lost.md", "# Lost\n"),
    (docs.test_kips_and_tickets_are_spelled_so_that_they_can_be_searched, "README.md", "see KIP" + " 848\n"),
    (docs.test_every_changelog_fragment_is_named_and_says_one_thing, "changes/thing.md", "A thing.\n"),
    (packages.test_every_package_states_in_two_sentences_what_lives_there, "src/a/__init__.py", '"""a"""\n'),
    (plain.test_docstrings_and_comments_use_plain_words, "scripts/a.py", '"""Tell the member."""\n'),
    (plain.test_docstrings_and_comments_use_plain_words, "scripts/a.py", "x = 1  # nobody\n"),
    (plain.test_messages_use_plain_words, "scripts/a.py", "print(f'{1} was told')\n"),
    (plain.test_names_of_modules_functions_and_tests_use_plain_words, "scripts/a.py", "def tell_member(): pass\n"),
    (plain.test_documents_use_plain_words, "README.md", "whoever reads\n"),
    (places.test_no_machine_path_is_in_the_repository, "README.md", "cd /" + "home/me\n"),
    (places.test_no_registry_address_is_in_the_repository, "Makefile", "pip --index" + "-url=x\n"),
]


@pytest.mark.parametrize(
    ("check", "path", "text"), OFFENCES, ids=[f"{check.__name__}-{path}" for check, path, _ in OFFENCES]
)
def test_a_planted_offence_is_found(check: Callable[[Tree], None], path: str, text: str, tmp_path: Path) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    with pytest.raises(AssertionError):
        check(Tree(tmp_path))


def test_a_dependency_without_its_line_is_found(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / dependencies.PAGE).write_text("| `numpy` | spark |\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(tree.text("pyproject.toml"), encoding="utf-8")
    with pytest.raises(AssertionError, match="does not say why"):
        dependencies.test_every_dependency_has_its_line_and_every_line_its_dependency(Tree(tmp_path))


def test_two_modules_of_one_name_and_a_crowded_package_are_found(tmp_path: Path) -> None:
    for number in range(packages.ENTRIES + 1):
        (tmp_path / f"src/a/room{number}").mkdir(parents=True)
        (tmp_path / f"src/a/room{number}/same.py").write_text("x = 1\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    with pytest.raises(AssertionError, match="rename one"):
        packages.test_two_modules_of_one_name_share_the_idea(Tree(tmp_path))
    with pytest.raises(AssertionError, match="make rooms"):
        packages.test_no_package_has_more_than_some_twenty_entries(Tree(tmp_path))
