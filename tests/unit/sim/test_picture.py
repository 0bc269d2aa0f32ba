"""A picture shows what members reported."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from kohort.member.member_state import NO_IDENTITY, Identity
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.picture import FAULTS, Picture, fault_text
from kohort.sim.scenario.fault_menu import MENU

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SVG = "{http://www.w3.org/2000/svg}"


class Participant(NamedTuple):
    name: str
    group_id: str = "g"
    kind: str = "eager"
    instance_id: str | None = None
    identity: Identity = NO_IDENTITY


class Drawn:
    """A picture of two members, one after the other."""

    def __init__(self) -> None:
        self.picture = Picture("a <world>")
        self.scheduler = Scheduler()
        self.picture.began(self.scheduler)

    def at(self, seconds: int) -> Picture:
        self.scheduler.now_us = seconds * 1_000_000
        return self.picture

    def texts(self) -> list[str]:
        root = ElementTree.fromstring(self.picture.svg())
        return [element.text or "" for element in root.iter() if element.tag in (f"{SVG}text", f"{SVG}title")]


def two_members() -> Drawn:
    drawn = Drawn()
    one, two = Participant("m1"), Participant("m2")
    drawn.at(0).member_started(one)
    drawn.at(0).member_started(two)
    drawn.at(1).owns(one, frozenset({T0, T1}))
    drawn.at(3).fault("kill", "m1", "down_us=5")
    drawn.at(3).owns(one, frozenset())
    drawn.at(5).owns(two, frozenset({T0}))
    drawn.at(9).healed()
    drawn.at(10)
    return drawn


def test_each_span_of_ownership_is_a_bar_that_shows_whose_it_is() -> None:
    texts = two_members().texts()
    assert texts.count("m1 (g): 1.000 s to 3.000 s, 2 s") == 2
    assert texts.count("m2 (g): 5.000 s to 10.000 s, 5 s") == 1


def test_members_partitions_faults_and_the_healing_are_named() -> None:
    texts = two_members().texts()
    assert {"a <world>", "m1 (g)", "m2 (g)", "t-0", "t-1", "group g"} <= set(texts)
    assert {"1  3.000 s  m1 is killed, and is back after", "under 0.1 s", "2  9.000 s  healed"} <= set(texts)


def test_a_world_in_which_nothing_happened_has_a_picture_too() -> None:
    assert ElementTree.fromstring(Drawn().picture.svg()).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("name", "subject", "detail", "text"),
    [
        ("kill node", "node", "down_us=12102632", "a broker is killed, and is back after 12 s"),
        ("bounce", "m3", "how=kill down_us=12102632", "m3 is restarted (kill), and stays away"),
        ("slow disk", "node", "flush_us=200000 for_us=5000000", "the broker's disk is slow for 5 s"),
        ("subscribe", "m1", "topics=t,u", "m1 subscribes to t,u"),
        ("frobnicate", "m1", "x={who}", "frobnicate m1"),
        ("freeze", "m1", "by hand", "m1 stops running"),
    ],
)
def test_a_fault_is_named_as_a_person_would(name: str, subject: str, detail: str, text: str) -> None:
    assert fault_text(name, subject, detail) == text


def test_every_fault_of_the_menu_has_a_name() -> None:
    steps = {"kill member": "kill", "close member": "close", "freeze member": "freeze"}
    assert {steps.get(each.name, each.name) for each in MENU} - FAULTS.keys() == {"burst", "packets", "drift"}
