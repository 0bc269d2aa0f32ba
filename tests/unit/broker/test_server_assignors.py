"""Server-side assignors are found by name, and what cannot be found is refused with what to do."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from tests.unit.assign.server_groups import group, member, texts

from kohort.assign import CapacityAssignor, GroupSpec
from kohort.assign.server.uniform import UniformAssignor
from kohort.broker.broker import Broker
from kohort.broker.server_assignors import ENTRY_POINTS, load_assignors
from kohort.model.ids import TopicPartition
from kohort.model.setting import SettingsError

OWN = """
from kohort import TopicPartition, assignor

NUMBER = 7


@assignor(name="to-the-first", cooperative=True, withhold=True)
def decorated(spec):
    every = [TopicPartition(topic, n) for topic, each in spec.topics.items() for n in range(each.partitions)]
    return {min(spec.members): every}


def to_the_last(spec):
    return {max(spec.members): [TopicPartition("t", 0)]}


class Idle:
    name = "idle"

    def assign(self, group):
        return {}


class Unnamed:
    def assign(self, group):
        return {}


def uniform(spec):
    return {}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of a user's own, on the path for one test."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_names_keep_their_order_and_the_first_is_the_default() -> None:
    assert list(load_assignors(["range", "uniform"])) == ["range", "uniform"]
    assert list(load_assignors(["org.apache.kafka.coordinator.group.assignor.UniformAssignor"])) == ["uniform"]


def test_a_function_an_assignor_and_a_class_come_from_a_module(module: str) -> None:
    own = [f"{module}:{name}" for name in ("decorated", "to_the_last", "Idle")]
    found = load_assignors(["uniform"], own)
    assert list(found) == ["uniform", "to-the-first", "to-the-last", "idle"]
    spec = group({"a": member("t", "t-1"), "b": member("t", "t-0")}, t=2)
    assert texts(found["to-the-first"].assign(spec)) == {"a": "t-0 t-1", "b": ""}
    assert texts(found["to-the-last"].assign(spec)) == {"a": "", "b": "t-0"}
    assert texts(found["idle"].assign(spec)) == {"a": "", "b": ""}


def test_assignors_themselves_may_be_given_by_a_program() -> None:
    def by_hand(_: GroupSpec) -> dict[str, list[TopicPartition]]:
        return {}

    assert list(load_assignors(["uniform"], [by_hand, CapacityAssignor(2)])) == ["uniform", "by-hand", "capacity"]


def test_an_installed_package_is_asked_for_a_name_that_is_not_built_in(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = EntryPoints([EntryPoint("spread", f"{module}:decorated", ENTRY_POINTS)])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.select(group=group))
    assert list(load_assignors(["spread"])) == ["to-the-first"]
    with pytest.raises(
        SettingsError, match=r"no server-side assignor 'spred'.*packages .*: spread\. .*MODULE:FUNCTION"
    ):
        load_assignors(["spred"])


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_such_package.assignors:fair", "there is no module no_such_package; install its package, or put"),
        ("MODULE:fair", "there is no 'fair' in it; it has Idle, NUMBER, "),
        ("MODULE:NUMBER", "int is neither an assignor (with `name` and `assign`) nor a function of a GroupSpec"),
        ("MODULE:Unnamed", "it has no name: give it the attribute `name`, which members ask for"),
        ("unknown", "there is no server-side assignor 'unknown'. Built in: uniform, range, standby."),
        ("MODULE:uniform", "two assignors are named 'uniform': uniform and MODULE:uniform"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(module: str, place: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message.replace("MODULE", module))):
        load_assignors(["uniform"], [place.replace("MODULE", module)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_package\n", "it imports no_such_package, which is not there"),
        ("1 / 0\n", "importing it raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    name = f"broken_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match=message):
        load_assignors([f"{name}:fair"])


def test_a_broker_has_the_assignors_of_its_setting_and_those_it_is_given(tmp_path: Path) -> None:
    broker = Broker(tmp_path, settings={"group.consumer.assignors": "range"}, assignors=["standby"])
    assert list(broker.assignors) == ["range", "standby"]
    assert isinstance(Broker(tmp_path).assignors["uniform"], UniformAssignor)
