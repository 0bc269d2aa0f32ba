"""What pages are made of: records as text, commands of actions and plans, and parts with any names in them."""

from __future__ import annotations

import shlex

import pytest
from tests.unit.console.looks import listed, look, member

from kohort.cli.main import parser_for
from kohort.console.command_runs import CommandRuns, command_words
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.web.group_actions import ACTIONS
from kohort.console.web.group_pages import group_page, groups_page
from kohort.console.web.plan_page import CHANGES, options_of
from kohort.console.web.record_views import RecordView, record_view
from kohort.console.web.site import Site
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import Record

SCRIPT = '"><script>alert(1)</script>\x1b[31m{{ 7 * 7001 }}'
FORM = {"aim": "shift-by", "value": "-100", "topic": "orders:0,1", "member": "-m", "reason": "deploy '118'"}


def shown(value: bytes | None) -> RecordView:
    return record_view(Record(0, 1000, b"k", value))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        (b"hello\tworld\n", "text", "hello\tworld\n"),
        (b'{"b":1,"a":[1,2]}', "JSON", '{\n  "b": 1,\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b"{not json", "text", "{not json"),
        (rb'{"half": "\udcff"}', "JSON", '{\n  "half": "\\udcff"'),
        (b"\xff\xfe", "bytes", "000000  ff fe"),
        (b"\x1b[31mred", "bytes", "000000  1b 5b 33"),
        (b"\x00\x00\x00\x00\x2a\x02x", "bytes, perhaps of schema 42 of a registry", "000000  00 00"),
    ],
)
def test_a_value_is_text_json_or_hex(value: bytes | None, kind: str, text: str) -> None:
    view = shown(value)
    assert view.kind == kind
    assert view.value.startswith(text)


def test_a_long_value_is_cut_also_within_a_character() -> None:
    view = shown("ü".encode() * 50_000)
    assert len(view.value) < 5_000
    assert view.value.endswith("100,000 bytes in all")
    assert shown(b"[" * 100_000).kind == "text"
    assert shown(b"[" * 3_000).kind == "text", "nested too deep to be read"


@pytest.mark.parametrize("name", sorted(ACTIONS))
@pytest.mark.parametrize("group_id", ["billing", "-x", "--all", "a b'c"])
def test_the_command_of_each_action_is_one_that_kohort_parses(name: str, group_id: str) -> None:
    words = ACTIONS[name].words(group_id, FORM)
    assert words is not None
    words = CommandRuns(["--bootstrap-server", "h:1"]).with_cluster(words)
    parsed = parser_for(words).parse_args(words)
    assert (parsed.group, parsed.bootstrap_server) == (group_id, "h:1")


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_the_command_of_each_plan_is_one_that_kohort_parses(change: str) -> None:
    value = {"add": "2", "partitions": "orders=48", "assignor": "range"}.get(change, "m-1")
    words = command_words(["what-if"], ["billing"], [*options_of(change, value), "--json"])
    assert parser_for(words).parse_args(words).group == "billing"


def test_a_form_that_lacks_a_value_has_no_command() -> None:
    assert ACTIONS["drain"].words("billing", {"member": " "}) is None
    assert ACTIONS["reset-offsets"].words("billing", {"aim": "to-offset"}) is None
    assert ACTIONS["reset-offsets"].words("billing", {"aim": "--execute"}) is None
    assert options_of("add", "") == []
    assert options_of("--execute", "1") == []


def test_a_command_is_shown_as_a_shell_reads_it() -> None:
    site = Site(WatchedCluster(), lambda: 0, "h:9092")
    text = site.command(*command_words(["explain"], ["-a'; rm -rf $HOME"], ["--verbose"]))
    assert shlex.split(text) == [
        "kohort",
        "explain",
        "--verbose",
        "--bootstrap-server",
        "h:9092",
        "--",
        "-a'; rm -rf $HOME",
    ]


def test_a_command_names_its_cluster_by_the_options_that_do() -> None:
    site = Site(WatchedCluster(), lambda: 0, "h:9092", cluster_options=("--context", "my prod"))
    assert site.command("explain", "a") == "kohort explain a --context 'my prod'"


def test_a_command_that_is_pasted_has_no_control_character() -> None:
    text = Site(WatchedCluster(), lambda: 0, "h:9092").command("explain", "a\n\x1b[2J'\\\u202e")
    assert text == r"kohort explain $'a\x0a\x1b[2J\'\\\u202e' --bootstrap-server h:9092"


@pytest.mark.parametrize("name", [SCRIPT, "g" * 249, "", "\u202egnp.exe", "a/b?c&d#e", "\udcff"])
def test_any_name_is_only_a_name_on_every_part(name: str) -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed(name)])
    client = f"{name}-{'0' * 36}"
    watched.fold_description(1000, name, look("Stable", member("a-1", 0), group_id=name))
    watched.fold_description(
        2000, name, look("Stable", member(client, 0, instance=name, topics=(name,)), group_id=name)
    )
    watched.fold_offsets(2000, name, {TopicPartition(name, 0): 1}, {TopicPartition(name, 0): 5})
    site = Site(watched, lambda: 5000, "h:9092")
    page = group_page(site, {"id": name})
    assert page is not None
    for part in [*page.parts.values(), *groups_page(site, {"q": "", "order": "recent"}).parts.values()]:
        assert "<script" not in part
        assert not {"\x1b", "\u202e", "\udcff"} & set(part)
        assert "49007" not in part


def test_a_page_is_bounded_whatever_the_cluster() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("big")])
    members = [member(f"m{number}-1", *range(number * 10, number * 10 + 10)) for number in range(1_000)]
    watched.fold_description(1000, "big", look("Stable", *members, group_id="big"))
    watched.fold_description(2000, "big", look("PreparingRebalance", group_id="big"))
    watched.fold_description(3000, "big", look("Stable", *reversed(members), group_id="big"))
    page = group_page(Site(watched, lambda: 5000, "h:9092"), {"id": "big"})
    assert page is not None
    assert sum(map(len, page.parts.values())) < 1_500_000
    assert "9,500 partitions more" in page.parts["partitions"]
