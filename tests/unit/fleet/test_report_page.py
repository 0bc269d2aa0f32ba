"""The page: nothing in it comes from elsewhere, no name of a group becomes a part of it, and its size is bounded."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape

import pytest
from tests.unit.fleet.reports import HOSTILE, IMAGE, LONG, SCRIPT, TURNED, report

from kohort.fleet.report.fleet_report import FleetReport, columns_of, document
from kohort.fleet.report.page import page
from kohort.fleet.schema import HOUR_MS

INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]")


RAW = re.compile(r"<(script|style)([^>]*)>(.*?)</\1>", re.DOTALL)
TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:\s+[\w-]+(?:=\"[^\"<>]*\")?)*)\s*(/?)>")
ATTRIBUTE = re.compile(r"([\w-]+)(?:=\"([^\"]*)\")?")


class Reader:
    """Reads a page strictly: every < begins an element, every element is closed in its order."""

    def __init__(self, text: str) -> None:
        self.scripts = [body for name, _, body in RAW.findall(text) if name == "script"]
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        opened: list[str] = []
        reached = 0
        self.texts = ""
        text = RAW.sub(r"<\1\2></\1>", text.removeprefix("<!doctype html>"))
        for found in TAG.finditer(text):
            self.texts += unescape(text[reached : found.start()])
            assert not set("<>") & set(text[reached : found.start()]), "what is not an element is escaped"
            reached = found.end()
            is_end, name, attributes, is_whole = found.groups()
            if is_end:
                assert opened.pop() == name, "elements are closed in their order"
                continue
            self.elements.append(name)
            self.attributes += [(key, unescape(value)) for key, value in ATTRIBUTE.findall(attributes)]
            if not is_whole:
                opened.append(name)
        assert opened == []
        assert text[reached:].strip() == ""

    def values(self, *names: str) -> list[str]:
        """Return what attributes say."""
        return [value for name, value in self.attributes if name in names]


@pytest.fixture(scope="module")
def made() -> FleetReport:
    return report(groups=120)


@pytest.fixture(scope="module")
def text(made: FleetReport) -> str:
    return page(made)


def test_a_page_refers_to_nothing_outside_of_itself(text: str) -> None:
    read = Reader(text)
    references = read.values("src", "href", "action", "data", "poster", "srcset")
    assert [each for each in references if not each.startswith("#") and each != "data:,"] == []
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_every_link_of_a_page_leads_to_a_part_of_it(made: FleetReport, text: str) -> None:
    read = Reader(text)
    ids = read.values("id")
    assert len(set(ids)) == len(ids)
    listed = {f"group-{place}" for place in range(len(made.groups))}  # the script makes what is not listed without it
    assert {each[1:] for each in read.values("href") if each.startswith("#")} <= {*ids, *listed}


def test_names_never_become_elements(text: str) -> None:
    read = Reader(text)
    assert read.elements.count("script") == 2
    assert not {"img", "iframe", "object"} & set(read.elements)
    assert [name for name, _ in read.attributes if name.startswith("on")] == []
    assert SCRIPT in read.texts
    assert IMAGE in read.texts


def test_no_invisible_character_of_a_name_reaches_a_page(text: str) -> None:
    assert TURNED in HOSTILE
    assert INVISIBLE.search(text.replace("\n", "")) is None
    assert "billing\\u202egnillib" in text


def test_long_names_are_cut_and_stay_apart() -> None:
    made = report(groups=2, hostile=False)
    twins = [
        replace(line, key=line.key._replace(group=LONG + name)) for line, name in zip(made.groups, "ab", strict=True)
    ]
    text = page(replace(made, groups=tuple(twins), rules=(), heat=(), ranking=(), timelines=()))
    assert LONG not in text
    assert len(set(re.findall(r"characters, [0-9a-f]{6}", text))) == 2


def test_the_script_of_a_page_is_the_one_that_its_policy_names(text: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    figures, script = Reader(text).scripts
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy
    assert "default-src &#x27;none&#x27;" in policy
    assert json.loads(figures)["fields"][0] == "name"


def test_every_plot_has_the_same_as_a_table(made: FleetReport, text: str) -> None:
    plots = text.count("data-plot=")
    assert plots == 3 + len(made.timelines)
    assert text.count("The same as a table") == plots


def test_three_times_the_groups_make_no_page_of_three_times_the_size() -> None:
    small, large = (len(page(report(groups=groups)).encode()) for groups in (4_000, 12_000))
    assert large < 1.2 * small < 3_000_000


def test_what_is_left_out_is_counted() -> None:
    text = page(report(groups=5_000))
    assert "1,000 groups without anything remarkable left out" in text
    assert re.search(r"\d[\d,]* more groups had [\d,]+ rebalances together", text)


def test_a_fleet_without_groups_has_a_page() -> None:
    text = page(report(groups=0))
    assert "No group was found" in text
    assert Reader(text).scripts


def test_the_document_is_json_with_names_as_they_are(made: FleetReport) -> None:
    written = json.loads(json.dumps(document(made)))
    assert {line["key"]["group"] for line in written["groups"]} >= set(HOSTILE)
    assert written["totals"]["severities"] == dict(made.totals.severities)
    assert written["todo"][0]["title"] == "Rebalance storm"


@pytest.mark.parametrize("hours", [1, 24, 168, 169, 400, 744, 20_000])
def test_a_time_axis_has_whole_steps_and_not_too_many(hours: int) -> None:
    columns = columns_of(1_793_664_000_000 + 5 * HOUR_MS, 1_793_664_000_000 + (5 + hours) * HOUR_MS)
    assert columns.count <= 168
    assert columns.from_ms % columns.step_ms == 0
    assert columns.from_ms <= 1_793_664_000_000 + 5 * HOUR_MS
    assert columns.until_ms >= 1_793_664_000_000 + (5 + hours) * HOUR_MS
    assert columns.start_ms(columns.count - 1) < 1_793_664_000_000 + (5 + hours) * HOUR_MS
