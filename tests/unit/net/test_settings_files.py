"""Files of settings: properties and TOML, environment variables in them, and the sentences about wrong ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.model.setting import SettingsError
from kohort.net.settings_files import read_file, read_properties, texts_of


def test_properties_have_comments_long_lines_and_both_separators() -> None:
    text = "# a comment\n! another\n\nlisteners = SSL://:1\nnode.id: 7\n"
    text += 'sasl.jaas.config=Login required \\\n    password="=:";'
    assert read_properties(text) == {
        "listeners": "SSL://:1",
        "node.id": "7",
        "sasl.jaas.config": 'Login required password="=:";',
    }


def test_a_table_of_toml_becomes_texts_by_dotted_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_OF_TEST", "ann")
    table = {"log": {"cleanup.policy": ["delete", "compact"], "dirs": "/${env:USER_OF_TEST}"}, "delete.topic": True}
    assert texts_of(table) == {"log.cleanup.policy": "delete,compact", "log.dirs": "/ann", "delete.topic": "true"}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.properties", "node.id", "a.properties: 'node.id'… is no line of the form name=value"),
        ("a.properties", "b=${env:NOT_THERE}", "a.properties: b: the environment variable NOT_THERE is not set"),
        ("a.toml", "b = ", "a.toml: Invalid value"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        read_file(file, is_toml=name.endswith("toml"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*none\.toml: No such file"):
        read_file(tmp_path / "none.toml", is_toml=True)
