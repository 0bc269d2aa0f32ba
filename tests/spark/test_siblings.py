"""Readers of one application that are members of the same group, seen through their control sockets."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.spark.bare_query import Job
from tests.spark.cluster import Topic

from kohort.model.errors import KafkaError
from kohort.spark.membership.application import Calls
from kohort.spark.membership.control_socket import ControlSocket, directory, make_private, report_ended, socket_path
from kohort.spark.membership.sibling_readers import Siblings
from kohort.spark.membership.stream_offset import StreamOffset

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


class Unreachable:
    """A member that gets no request."""

    async def finish(self, end: StreamOffset) -> None:
        raise AssertionError(f"{end} is not reported")

    async def leave(self, reason: str) -> None:
        raise AssertionError(f"{reason}: no end is reported")

    def describe(self) -> Mapping[str, Any]:
        raise AssertionError("no reader asks")


WARNING = "two queries of this application read"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of this test alone."""
    made = tmp_path_factory.mktemp("run")
    made.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(made))
    return made


def test_queries_that_share_a_group_and_a_topic_are_named_in_a_warning(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Job(topic) as first, Job(topic) as second:
            await second.member.check_siblings()
            assert f"group {topic.group_id}: {WARNING} {topic.name}" in caplog.text
            caplog.clear()
            await second.member.check_siblings()
            await first.member.leave("the test is over")
        assert WARNING not in caplog.text

    topic.run(scenario())


def test_queries_of_other_groups_or_topics_are_no_siblings(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with Topic(topic.bootstrap_servers, f"{topic.name}-other", partitions=1) as other:
            options = {"subscribe": other.name}
            async with (
                Job(topic) as job,
                Job(topic, **options),
                Job(topic, **{"group.id": "another"}),
            ):
                await job.member.check_siblings()
        assert WARNING not in caplog.text

    topic.run(scenario())


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        (Calls(10, 30, True), Calls(20, 40), True),
        (Calls(10, 30, False), Calls(20, 40), False),  # Spark has come back for what it planned
        (Calls(10, 15, True), Calls(20, 40), False),  # it was called before the other was made
    ],
)
def test_sources_of_one_query_are_known_by_the_order_of_sparks_calls(
    topic: Topic, first: Calls, second: Calls, is_refused: bool
) -> None:
    async def scenario() -> None:
        async with Job(topic) as one, Job(topic) as other:
            one.member._calls, other.member._calls = first, second
            check = Siblings().check(other.member.reader, patience_s=0.0)
            if is_refused:
                with pytest.raises(KafkaError, match=f"loads {topic.name} more than once"):
                    await check
            else:
                await check

    topic.run(scenario())


def test_control_sockets_are_in_the_runtime_directory_where_only_this_user_may_enter(topic: Topic, home: Path) -> None:
    async def scenario() -> None:
        async with Job(topic) as job:
            assert socket_path(job.member.socket.name).parent == home / "kohort"
            assert stat.S_IMODE((home / "kohort").stat().st_mode) == 0o700

    topic.run(scenario())


@pytest.mark.parametrize("kind", ["open to others", "a link", "of another user"])
def test_a_directory_that_others_control_is_not_used(
    topic: Topic, home: Path, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "kohort"
    if kind == "a link":
        (home / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(home / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777 if kind == "open to others" else 0o700)
    control, user = ControlSocket(), os.getuid()

    async def scenario() -> None:
        if kind == "of another user":
            monkeypatch.setattr(os, "getuid", lambda: user + 1)
            monkeypatch.setattr("tempfile.gettempdir", lambda: str(home))
            folder.rename(home / f"kohort-{user + 1}")
        await control.open(Unreachable())
        assert "remove it" in caplog.text
        assert not list(directory().glob("*.socket"))
        assert not report_ended(control.name)

    topic.run(scenario())


def test_a_runtime_directory_of_another_user_is_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.chmod(0o755)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(home))
    assert directory() == home / f"kohort-{os.getuid()}"
    make_private(directory())
    assert stat.S_IMODE(directory().stat().st_mode) == 0o700
