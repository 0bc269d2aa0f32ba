"""What `explain` prints as the cause of a rebalance: real clients, each thing that can set one off, on our broker.

The table of all cells stands in docs/guide/rebalances.md, and is compared with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from interop.kohort_broker import KohortBroker
from tests.interop.conftest import SHORT_SESSIONS
from tests.interop.libraries import need
from tests.interop.steered_group import SteeredGroup, Topics

pytestmark = pytest.mark.timeout(600)
LIBRARIES = {"kohort": "`kohort.Consumer`", "java": "Java", "librdkafka": "librdkafka", "kafka_python": "kafka-python"}
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "rebalances.md"
BEGIN, END = "<!-- the table of tests/interop/test_causes.py -->\n", "<!-- its end -->"

NO_CALL = "— (the client has no such call)"
NO_PROTOCOL = "— (the client has no consumer protocol)"
NO_ASSIGNORS = "— (the client takes no assignors of its user)"
NO_REASON = "— (the client sends no reason)"

BARE = ("librdkafka", "kafka_python")
"""Clients that send no reason for a join or a leave."""
CLOSED = "m left (the consumer is being closed)"
LEFT = {**dict.fromkeys(BARE, "m left"), "kgo": "m left (client leaving group per normal operation)"}
"""What members print that are closed, where it is not `CLOSED`."""
TO_CONSUMER = "converted to the consumer protocol by m; the conversion itself revoked nothing"
TO_CLASSIC = "converted to the classic protocol, m was its last member; the conversion itself revoked nothing"


def expected(cause: str, library: str) -> str:
    """Return what must be printed, with `m` for each member."""
    left = LEFT.get(library, CLOSED)
    return {
        "start": "m joined",
        "graceful leave": left,
        "kill": "m evicted, no heartbeat for 6.0 s",
        "poll timeout": "m left" if library in BARE else "m left (consumer poll timeout has expired.)",
        "rolling restart": f"{left}, then m joined",
        "static restart": "m came back under a new member id",
        "other subscription": "m joined again with another subscription (+b)",
        "added partitions": "m joined again because its topics changed (a has 6 partitions, 4 were assigned)",
        "topic of a pattern created": "m joined again with another subscription (+p2)",
        "topic of a pattern deleted": "m joined again with another subscription (-p2)",
        "enforced": NO_CALL if library in BARE else "leader m rejoined (by hand)",
        "reason `blind`": NO_REASON if library in BARE else "no rebalance: counted as avoided",
        "reason `topic_metadata_change`": NO_REASON if library in BARE else "m joined again because its topics changed",
        "other assignors": "m came back under a new member id, then m offers other assignors "
        "(protocol range would become roundrobin)",
        "upgrade": NO_PROTOCOL if library == "kafka_python" else f"{left}, then m joined, then {TO_CONSUMER}",
        "downgrade": NO_PROTOCOL if library == "kafka_python" else f"m left, then {TO_CLASSIC}, then m joined",
        "failed assignment": {
            "kohort": "m joined, then leader m could not assign (RuntimeError: no rack for it)",
            "java": "m joined, then m evicted, no SyncGroup in generation 2, which it led, within 10000 ms",
            "librdkafka": NO_ASSIGNORS,
            "kafka_python": "m joined, then m evicted, no SyncGroup in generation 2, which it led, within 10000 ms",
        }.get(library, NO_ASSIGNORS),
    }[cause]


CAUSES = (
    "start", "graceful leave", "kill", "poll timeout", "rolling restart", "static restart", "other subscription",
    "added partitions", "topic of a pattern created", "topic of a pattern deleted", "enforced", "reason `blind`",
    "reason `topic_metadata_change`", "other assignors", "upgrade", "downgrade", "failed assignment",
)  # fmt: skip

FOLLOW_UP = re.compile(r"(leader )?m rejoined( \(.*\))?|m joined again (because its topics changed|with another sub).*")
"""What may follow: other members see the same change, and leaders of some clients join twice."""


def cell(printed: str) -> str:
    """Return what was printed with `m` for each member, each clause once, without what members do in consequence."""
    clauses = list(dict.fromkeys(re.sub(r"\bm-\d\b", "m", printed).split(", then ")))
    return ", then ".join(each for at, each in enumerate(clauses) if at == 0 or not FOLLOW_UP.fullmatch(each))


class Column:
    """The cells of one client: what was printed for each cause."""

    def __init__(self, library: str, bootstrap: str, folder: Path) -> None:
        self.library = library
        self.cells: dict[str, str] = {}
        self._bootstrap = bootstrap
        self._folder = folder
        self._topics = Topics(bootstrap)

    def fill(self) -> dict[str, str]:
        """Play every cause."""
        for name in ("a", "b", "p1"):
            self._topics.create(f"{self.library}-{name}")
        for part in (self._comings_and_goings, self._wishes, self._patterns, self._static, self._failures):
            part()
        self._protocols()
        return self.cells

    def _group(self, name: str) -> SteeredGroup:
        return SteeredGroup(self.library, self._bootstrap, f"{self.library}-{name}", self._folder)

    def _see(self, cause: str, group: SteeredGroup, act: Callable[[], object], members: int = 2) -> None:
        printed = group.step(act, members).replace(f"{self.library}-", "")
        print(f"{self.library} | {cause} | {printed}", flush=True)
        self.cells[cause] = cell(printed)

    def _comings_and_goings(self) -> None:
        with self._group("comes") as group:
            first = group.start("m-1")
            group.until(
                lambda explained: explained.members == 1 and explained.running is None and explained.total == 1,
                "one member",
            )
            self._see("start", group, lambda: group.start("m-2", poll_ms="6000"))
            second = group.members[1]
            self._topics.write(f"{self.library}-a")
            if self.library != "kgo":  # it leaves no group for want of a poll
                self._see("poll timeout", group, lambda: second.order("stall"), 1)

                def replace() -> None:
                    group.kill(second)
                    group.start("m-2")

                self._see_quietly(group, replace, 2)
                second = group.members[1]
            self._see("graceful leave", group, lambda: group.close(second), 1)
            self._see_quietly(group, lambda: group.start("m-2"), 2)
            second = group.members[1]

            def roll() -> None:
                group.close(second)
                group.start("m-2")

            self._see("rolling restart", group, roll)
            second = group.members[1]
            self._see("kill", group, lambda: group.kill(second), 1)
            group.close(first)

    def _see_quietly(self, group: SteeredGroup, act: Callable[[], object], members: int) -> None:
        group.step(act, members)

    def _wishes(self) -> None:
        topic = f"{self.library}-a"
        with self._group("wishes") as group:
            group.start("m-1")
            group.until(
                lambda explained: explained.members == 1 and explained.running is None and explained.total == 1,
                "one member",
            )
            self._see_quietly(group, lambda: group.start("m-2"), 2)
            first, second = group.members
            self._see("added partitions", group, lambda: self._topics.grow(topic, 6))
            wanted = f"subscribe {topic},{self.library}-b"
            self._see("other subscription", group, lambda: second.order(wanted))
            if self.library in ("librdkafka", "kafka_python"):
                for cause in ("enforced", "reason `blind`", "reason `topic_metadata_change`"):
                    self.cells[cause] = NO_CALL if cause == "enforced" else NO_REASON
                return
            self._see("enforced", group, lambda: first.order("enforce by hand"))
            self._see("reason `topic_metadata_change`", group, lambda: first.order("enforce topic_metadata_change"))
            before = group.explained()
            first.order("enforce blind")
            explained = group.until(lambda explained: explained.avoided > before.avoided, "a rebalance is avoided")
            assert explained.total == before.total, "nothing has changed, so nothing rebalances"
            self.cells["reason `blind`"] = "no rebalance: counted as avoided"

    def _patterns(self) -> None:
        with self._group("patterns") as group:
            group.start("m-1", pattern=f"{self.library}-p.*")
            group.until(
                lambda explained: explained.members == 1 and explained.running is None and explained.total == 1,
                "one member",
            )
            self._see_quietly(group, lambda: group.start("m-2", pattern=f"{self.library}-p.*"), 2)
            added = f"{self.library}-p2"
            self._see("topic of a pattern created", group, lambda: self._topics.create(added))
            self._see("topic of a pattern deleted", group, lambda: self._topics.delete(added))

    def _static_restart(self, and_then: Callable[[SteeredGroup], None] = lambda _: None) -> None:
        with self._group("static") as group:
            group.start("m-1", instance="m-1", session_ms="20000")
            group.until(
                lambda explained: explained.members == 1 and explained.running is None and explained.total == 1,
                "one member",
            )
            self._see_quietly(group, lambda: group.start("m-2", instance="m-2", session_ms="20000"), 2)

            def back(**settings: str) -> None:
                name = f"m-{len(group.members)}"
                group.close(group.members[-1])
                group.start(name, instance=name, session_ms="20000", **settings)

            self._see("static restart", group, back)
            and_then(group)

    def _static(self) -> None:
        def offer_others(group: SteeredGroup) -> None:
            # Another assignor can be chosen only once both offer it.
            self._see_quietly(group, lambda: back_as(group, "m-1", "roundrobin,range"), 2)
            self._see("other assignors", group, lambda: back_as(group, "m-2", "roundrobin,range"))

        self._static_restart(offer_others)

    def _failures(self) -> None:
        if self.library == "librdkafka":
            self.cells["failed assignment"] = NO_ASSIGNORS
            return
        failing = self._folder / f"{self.library}.failing"
        settings = {"assignor": "failing", "failing": str(failing), "poll_ms": "10000"}
        with self._group("fails") as group:
            group.start("m-1", **settings)
            group.until(
                lambda explained: explained.members == 1 and explained.running is None and explained.total == 1,
                "one member",
            )

            def fail() -> None:
                failing.touch()
                since = len(group.events())
                group.start("m-2", **settings)
                group.until(lambda _: any(map(_has_failed, group.events(since))), "an assignment fails", calm_s=0)
                failing.unlink()

            self._see("failed assignment", group, fail)

    def _protocols(self) -> None:
        if self.library == "kafka_python":
            self.cells |= {"upgrade": NO_PROTOCOL, "downgrade": NO_PROTOCOL}
            return
        with self._group("moves") as group:
            group.start("m-1")
            group.until(
                lambda explained: explained.members == 1 and explained.running is None and explained.total == 1,
                "one member",
            )
            self._see_quietly(group, lambda: group.start("m-2"), 2)
            for cause, protocol in (("upgrade", "consumer"), ("downgrade", "classic")):

                def bounce(protocol: str = protocol) -> None:
                    group.close(group.members[1])
                    group.start("m-2", protocol=protocol)

                self._see(cause, group, bounce)


def back_as(group: SteeredGroup, name: str, assignors: str) -> None:
    """Close the first member of the list, which is the instance of that name, and start it with other assignors."""
    group.close(group.members[0])
    group.start(name, instance=name, session_ms="20000", assignor=assignors)


def _has_failed(event: dict[str, object]) -> bool:
    if event["event"] == "assignment_failed":
        return True
    cause = event["cause"]
    return isinstance(cause, dict) and cause["kind"] in ("leader_rejoined", "sync_timeout")


@pytest.fixture(scope="module")
def columns(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[dict[str, str]]]]:
    """Play the columns of all clients that are asked for side by side."""
    chosen = {item.callspec.params.get("library") for item in request.session.items if hasattr(item, "callspec")}
    with KohortBroker(SHORT_SESSIONS) as broker, ThreadPoolExecutor(len(LIBRARIES)) as pool:
        found: dict[str, Future[dict[str, str]]] = {}
        for library in (each for each in LIBRARIES if each in chosen):
            try:
                need(library)
            except pytest.skip.Exception as reason:
                found[library] = Future()
                found[library].set_exception(reason)
                continue
            column = Column(library, broker.bootstrap, tmp_path_factory.mktemp(library))
            found[library] = pool.submit(column.fill)
        yield found


@pytest.mark.parametrize("library", list(LIBRARIES))
def test_cause_that_is_printed_is_what_was_done(library: str, columns: dict[str, Future[dict[str, str]]]) -> None:
    printed = columns[library].result()
    assert printed == {cause: expected(cause, library) for cause in printed}
    assert set(printed) == set(CAUSES)


def test_table_of_causes_in_the_guide_is_what_was_printed(columns: dict[str, Future[dict[str, str]]]) -> None:
    seen = {library: column.result() for library, column in columns.items() if column.exception() is None}
    print("\n" + table({library: seen[library] for library in LIBRARIES if library in seen}))
    guide = GUIDE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    for cause in CAUSES:
        (row,) = [line for line in guide.splitlines() if line.startswith(f"| {cause} |")]
        cells = dict(zip(LIBRARIES, (each.strip() for each in row.strip("|").split("|")[1:]), strict=True))
        assert {library: cells[library] for library in seen} == {library: seen[library][cause] for library in seen}


def table(seen: dict[str, dict[str, str]]) -> str:
    """Return the cells as Markdown."""
    lines = [f"| cause | {' | '.join(LIBRARIES[each] for each in seen)} |", "|---" * (len(seen) + 1) + "|"]
    lines += [f"| {cause} | {' | '.join(column[cause] for column in seen.values())} |" for cause in CAUSES]
    return "\n".join(lines) + "\n"
