"""Where a setting stands in a file of TOML: the line that a refusal names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.model.setting import SettingsError
from kohort.net.settings_files import line_of, located

FILE = """\
# a gateway
mode = "listener"
"drain_ms" = 5
node_ports = { 1 = 9201 }

[listener_tls]
key = "a"

[[policies]]
groups = "a-*"
treatment = "park"

[[ policies ]]   # the second
treatment = "hold"
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("mode",), 2),
        (("drain_ms",), 3),
        (("node_ports", "1"), 4),
        (("listener_tls",), 6),
        (("listener_tls", "key"), 7),
        (("listener_tls", "certificate"), 6),
        (("policies",), 9),
        (("policies", 1, "treatment"), 11),
        (("policies", 2, "treatment"), 14),
        (("policies", 2), 13),
        (("policies", 3, "treatment"), None),
        (("metrics",), None),
    ],
)
def test_a_setting_is_found_in_its_table_and_row(keys: tuple[str | int, ...], line: int | None) -> None:
    assert line_of(FILE, keys) == line


def test_an_error_without_keys_is_found_by_its_first_word(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(FILE)
    assert str(located(file, SettingsError("listener_tls: cannot read a"))) == (
        f"{file}, line 6: listener_tls: cannot read a"
    )
    assert str(located(file, SettingsError("advertised is empty"))) == f"{file}: advertised is empty"
