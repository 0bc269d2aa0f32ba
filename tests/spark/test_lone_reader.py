"""The process of a query's reader outlives an application that is killed: it must leave the group by itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.spark.cluster import Topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


def test_a_reader_whose_application_is_killed_leaves_its_group_and_ends(topic: Topic) -> None:
    topic.fill(4)
    options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": topic.name, "group.id": topic.group_id}
    command = [sys.executable, "-m", "tests.spark.lone_reader", json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as application:
        assert application.stdout is not None
        assert application.stdout.readline() == b"joined\n"
        assert topic.members() == 1
        application.kill()
        assert application.stdout.read() == b"", "the reader holds this pipe until it has ended"
    assert topic.members() == 0
