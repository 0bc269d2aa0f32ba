"""Compiled functions whose cache on disk is of an older program."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

IMPORTS = "from kohort.client.decode.numba_bytes import compiled\n"
CONSTANT = "ANSWER = {}\n"
FUNCTION = IMPORTS + "@compiled()\ndef ANSWER():\n    return {}\n"


@pytest.mark.parametrize(("used", "value"), [(CONSTANT, "ANSWER"), (FUNCTION, "ANSWER()")])
def test_a_function_is_compiled_anew_where_what_it_uses_of_another_module_has_changed(
    used: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    caller = f"{IMPORTS}from used import ANSWER\n@compiled()\ndef doubled():\n    return 2 * {value}\n"
    (tmp_path / "caller.py").write_text(caller)
    found = []
    for answer in (4, 42):  # of another length: Python's own cache compares times in seconds
        (tmp_path / "used.py").write_text(used.format(answer))
        importlib.invalidate_caches()
        found.append(importlib.import_module("caller").doubled())
        for name in ("caller", "used"):
            del sys.modules[name]
    assert found == [8, 84]
