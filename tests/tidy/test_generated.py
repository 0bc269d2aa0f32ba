"""What is generated and committed is what its generator writes today."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scripts import (
    authorization_table,
    conformance,
    decisions_index,
    invariants_table,
    lockstep_table,
    message_stubs,
    metrics_table,
    settings_table,
)
from tests.tidy.tree import Tree

GENERATED: dict[str, Callable[[], str]] = {
    "src/kohort/wire/messages.pyi": message_stubs.render,
    "docs/authorization.md": authorization_table.render,
    "docs/conformance.md": conformance.render,
    "docs/decisions/README.md": decisions_index.render,
    "docs/invariants.md": invariants_table.render,
    "docs/lockstep.md": lockstep_table.render,
    "docs/metrics.md": metrics_table.render,
    "docs/settings.md": settings_table.render,
}


@pytest.mark.parametrize("path", sorted(GENERATED))
def test_a_generated_file_is_fresh(tree: Tree, path: str) -> None:
    assert tree.text(path) == GENERATED[path](), f"{path} is stale: run `make gen`"


def test_make_gen_writes_every_generated_file(tree: Tree) -> None:
    """Each generator's module stands in the Makefile."""
    makefile = tree.text("Makefile")
    for generator in GENERATED.values():
        assert f"-m {generator.__module__}" in makefile, f"make gen does not run {generator.__module__}"
