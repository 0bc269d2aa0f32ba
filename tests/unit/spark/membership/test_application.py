"""A session is stopped when Spark has deleted the directory of its files, which must not grow old until then."""

from __future__ import annotations

import os
from pathlib import Path

from kohort.spark.membership.application import Application


def test_a_session_is_stopped_when_the_directory_of_its_files_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "userFiles-1"
    folder.mkdir()
    application = Application(folder)
    assert not application.is_stopped()
    assert not application.has_ended
    folder.rmdir()
    assert application.is_stopped()


def test_the_directory_of_a_running_session_gets_a_new_time(tmp_path: Path) -> None:
    """Programs that clean up temporary files would delete an old one, which is no stop."""
    os.utime(tmp_path, (0, 0))
    assert not Application(tmp_path).is_stopped()
    assert tmp_path.stat().st_mtime > 0


def test_a_process_without_a_session_has_none_that_is_stopped() -> None:
    assert not Application(None).is_stopped()
