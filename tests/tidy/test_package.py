"""The package as a stranger gets it: a page without dead links, one version, a sentence for old Pythons."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib

import pytest
from scripts.long_description import long_description
from tests.tidy.tree import Tree

from kohort.model.extras import MEGABYTES, install_command

URLS = {"Source": "https://forge.example/kohort", "Documentation": "https://docs.example/"}
README = """\
![a picture](docs/one.svg) [The guide](docs/guide/clients.md#metrics), [all](docs/README.md), [`x[0]`](SECURITY.md),
[elsewhere](https://kafka.apache.org), [below](#below)
<picture><source srcset="docs/dark.svg"><img src="docs/two.svg"></picture>
```python
print(names["a"](docs))
```
"""


def test_links_of_the_packages_page_lead_to_the_site_and_to_the_tag() -> None:
    assert long_description(README, "1.2.3", URLS) == README.replace(
        "(docs/one.svg)", "(https://forge.example/kohort/raw/v1.2.3/docs/one.svg)"
    ).replace("(docs/guide/clients.md#metrics)", "(https://docs.example/guide/clients.html#metrics)").replace(
        "(docs/README.md)", "(https://docs.example/index.html)"
    ).replace("(SECURITY.md)", "(https://forge.example/kohort/blob/v1.2.3/SECURITY.md)").replace(
        '"docs/', '"https://forge.example/kohort/raw/v1.2.3/docs/'
    )


def test_without_addresses_the_page_has_no_link_that_leads_nowhere(tree: Tree) -> None:
    assert long_description(README, "1.2.3", {}).startswith(" The guide, all, `x[0]`,\n[elsewhere](https://kafka")
    page = long_description(tree.text("README.md"), "1.2.3", {})
    outside = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\]\((?![a-z]+:|#)[^)]*\)|(?:src|srcset)=.(?!https:)", outside) == []


def test_the_version_is_written_in_one_place(tree: Tree) -> None:
    project = tomllib.loads(tree.text("pyproject.toml"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"] == {"path": "src/kohort/__init__.py"}


def test_a_python_that_is_too_old_reads_the_first_module_and_ends_with_a_sentence(tree: Tree) -> None:
    first = ast.parse(tree.text("src/kohort/__init__.py"), feature_version=(3, 7)).body
    assert [type(each).__name__ for each in first[:3]] == ["Expr", "Import", "If"], "before anything else is imported"
    old = next(filter(None, map(shutil.which, ("python3.10", "python3.9", "python3.8"))), None)
    if old is None:
        pytest.skip("this machine has no Python before 3.11")
    command = [old, "-B", "-c", "import sys; sys.path.insert(0, 'src'); import kohort"]
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, timeout=30, check=False)
    if "pyenv" in done.stderr:
        pytest.skip("pyenv has that Python, and does not offer it here")
    assert re.search(
        r"^ImportError: kohort needs Python 3\.11 or newer; this is 3\.(8|9|10)", done.stderr, re.MULTILINE
    )


def test_every_extra_has_its_size_in_the_readme_and_in_the_sentence_that_names_it(tree: Tree) -> None:
    extras = tomllib.loads(tree.text("pyproject.toml"))["project"]["optional-dependencies"]
    shown = re.findall(r"^\| `(\w+)` \| .* \| (\d+) MB \|$", tree.text("README.md"), re.MULTILINE)
    assert {name: int(size) for name, size in shown} == MEGABYTES
    assert extras.keys() == MEGABYTES.keys()
    assert install_command("fast") == "in a clone of kohort run: pip install '.[fast]' (50 MB)"
