"""Writes docs/interop.md from the outcomes that tests/interop left in build/interop/outcomes.json.

After a run of all tests the page is written anew; after runs of some of them, the other cells keep their text.

python -m interop.table
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple
from xml.etree import ElementTree

from interop import jars
from interop.brokers import NEWEST
from interop.gateways import GATEWAYS, WAYS
from interop.logins import WAYS as LOGINS
from interop.spark_versions import OF_TABLES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "interop" / "outcomes.json"
PAGE = ROOT / "docs" / "interop.md"
HEAD = """# Clients and tools of others

Written by `python -m interop.table` from the outcomes of `make interop`. Each cell is what the tests in
`tests/interop` saw: first with our broker, then with a real Apache Kafka {kafka}, which shows that the test itself is
right. `yes` means that every test of the cell passed, `–` that there is none.

Of each client, the protocols it has: three members start together, one more joins, one leaves, one is killed. Every
record is read once, but for what the killed one had not committed; no partition is held by two members at once, by
what they report and when; sticky assignors move no more than they must, and members of cooperative ones go on with
what stays theirs without a break. A static member, the leader, is killed and comes back within its session besides:
other members do not notice. With mixed groups it is the same, each library leading in turn. By the protocol `consumer`
(KIP-848) there is no leader, and a static member leaves and returns: a killed one keeps its name for its session.

Groups are rolled from one protocol to the other under load: members that give up only what they must read on without a
pause, and what is read again had not been committed when its next owner got the partition.

"""
FIGURES = ROOT / "docs" / "figures.md"
IN_REACH = "For how much of the time a heartbeat is parked"
THROUGH_GATEWAYS = "Java through the gateway"
CLIENTS_THROUGH_GATEWAYS = "Clients of others through the gateway"
VALUES_IN_TABLES = "Values in Delta and Iceberg tables"
LOCKED = "locked"
LOCKED_BROKER = "A locked broker"
TEXTS = {
    CLIENTS_THROUGH_GATEWAYS: """\
Unmodified clients on Apache Kafka {kafka}, directly and through `kohort gateway`. One node holds
data, one coordinates groups. Two members, one joins, one leaves, and under load one more joins and one is killed: every
record that was produced is read, no request times out, and no group falls back to being observed.

The figures are how long the join and the leave took until the group was at rest again, in one run, beside others on
two cores, with nothing to read and heartbeats at their default interval. `observed` is mode `listener` without
`--park`; sarama, kafkajs and kafka-go are not parked unless a policy lists them.

""",
    IN_REACH: """\
A member with a parked heartbeat is notified of a rebalance at once. Measured by the row `parked` of `python -m bench`:
a settled eager group of one client of each, on our broker, all times at their defaults. What each client does with a
commit is in [the guide](guide/gateway.md#which-clients-gain-what), and what no client gains just after a rebalance.

""",
    LOCKED_BROKER: """\
Each client logs in to our broker by each mechanism over TLS, lists the topics, sees the one that an ACL lets its
principal describe and not the other, and is refused with wrong credentials: a password, a token that has expired, a
certificate of another authority, an authority that did not sign the broker's.

""",
    VALUES_IN_TABLES: """\
Every type that Spark writes, with null, empty and odd values, the first and last ones, NaN, -0.0 and infinity, as a
column and as a partition: all rows are read, and each value is looked for by `=`, `<`, `>` and `IS NULL`, where a
reader skips files and partitions. Where a cell begins with `as Spark's own`, a reader does not return, or find, all
of it out of the table of Delta's or Iceberg's own writer for Spark either.

{readers}

""",
    THROUGH_GATEWAYS: """\
Unmodified programs that come to an Apache Kafka through `kohort gateway --park '*'`, by the mode of the gateway and the
version of Kafka. 4.3.1 has three nodes, but for TLS one; of 4.4.0 one node holds data, and one coordinates groups.

""",
}
MATRIX = "matrix: "
CLIENTS = "through the gateway"
NAMES = {
    "java": "Java consumer",
    "librdkafka": "confluent-kafka",
    "kafka_python": "kafka-python",
    "kohort": "kohort's own Consumer and Producer",
}
READERS = ("deltalake", "pyiceberg", "duckdb", "polars")
PACKAGES = ("confluent-kafka", "kafka-python", "aiokafka")
OF_KAFKA = ("Java consumer", "Java tools")
BROKER_NAMES = {"kohort": "kohort", "apache": "Apache Kafka"}
"""Of the newest Apache Kafka too the row says that it is that one."""
Outcomes = list[dict[str, str]]


class Columns(NamedTuple):
    """The head of a table."""

    first: str
    names: tuple[str, ...]
    is_sorted: bool = True


OF_PROTOCOLS = Columns(
    "protocol", tuple(f"{kind}, {broker}" for kind in ("dynamic", "static") for broker in BROKER_NAMES.values()), False
)
OF_BROKERS = Columns("", tuple(BROKER_NAMES.values()))
OF_WAYS = Columns("joins / leaves", tuple("observed" if way == "observe" else way for way in WAYS), False)
OF_REACH = Columns("client", ("at rest", "auto-commit", "commit after each batch"), False)
OF_GATEWAYS = Columns("", tuple(map(str, GATEWAYS.values())))
OF_LOGINS = Columns("logs in", tuple(LOGINS), False)
OF_READERS = Columns(
    "type",
    (
        *("Delta: Spark", "Delta: delta-rs", "Delta: DuckDB", "Delta: Polars"),
        *("Iceberg: Spark", "Iceberg: pyiceberg", "Iceberg: DuckDB", "Iceberg: Polars"),
    ),
    False,
)
TABLES = (OF_READERS, OF_LOGINS, OF_PROTOCOLS, OF_BROKERS, OF_WAYS, OF_REACH, OF_GATEWAYS)


class Place(NamedTuple):
    """Where a cell is: names are without versions, which change from run to run."""

    section: str
    table: Columns
    row: str
    column: str


Cells = dict[Place, str]


def kafka_version() -> str:
    """Return the version of Apache Kafka that the pom names."""
    tree = ElementTree.parse(jars.HERE / "pom.xml")
    found = tree.find(".//{http://maven.apache.org/POM/4.0.0}kafka.version")
    return "" if found is None else str(found.text)


def reader_versions() -> str:
    """Return the names and versions of what reads tables: Spark with the jars of a pom, and libraries of Python."""
    tree = ElementTree.parse(jars.HERE / "spark-tables-pom.xml")
    names = "{http://maven.apache.org/POM/4.0.0}"
    jar = {
        each.findtext(f"{names}artifactId"): each.findtext(f"{names}version")
        for each in tree.iter(f"{names}dependency")
    }
    spark = [f"{name} {jar[name]}" for name in ("delta-spark_4.1_2.13", "iceberg-spark-runtime-4.1_2.13")]
    others = [f"{name} {version(name)}" for name in READERS]
    return fill(f"The readers: Spark {OF_TABLES} with {' and '.join(spark)}, {', '.join(others)}.", 118)


def with_version(name: str) -> str:
    """Return the title of a section, or of a row that begins with a client and a colon, with the client's version."""
    client, colon, rest = name.partition(": ")
    if client in OF_KAFKA:
        return f"{client} {kafka_version()}{colon}{rest}"
    if client not in PACKAGES:
        return name
    try:
        return f"{client} {version(client)}{colon}{rest}"
    except PackageNotFoundError:
        return name


def without_version(name: str) -> str:
    """Return what `with_version` was given."""
    return re.sub(rf"^({'|'.join(PACKAGES + OF_KAFKA)}) [\d.]+", r"\1", name)


def place(outcome: dict[str, str]) -> Place:
    """Return the cell of a test, or raise KeyError where no table has its column."""
    broker, _, variant = outcome["broker"].partition(", ")
    broker = "apache" if broker == NEWEST else broker
    name = f"{outcome['capability']}, {variant}" if variant else outcome["capability"]
    client = NAMES.get(outcome["client"], outcome["client"])
    if broker in GATEWAYS:
        row = f"{client}: {name.removeprefix(MATRIX)}"
        return Place(THROUGH_GATEWAYS, OF_GATEWAYS, row, str(GATEWAYS[broker]))
    if broker in OF_READERS.names:
        return Place(VALUES_IN_TABLES, OF_READERS, name, broker)
    if client == LOCKED:
        return Place(LOCKED_BROKER, OF_LOGINS, NAMES.get(name, name), OF_LOGINS.names[OF_LOGINS.names.index(broker)])
    if client == CLIENTS:
        return Place(CLIENTS_THROUGH_GATEWAYS, OF_WAYS, name, OF_WAYS.names[WAYS.index(broker)])
    if name.startswith(MATRIX):
        protocol, _, membership = name.removeprefix(MATRIX).partition(", ")
        return Place(client, OF_PROTOCOLS, protocol, f"{membership}, {BROKER_NAMES[broker]}")
    return Place(client, OF_BROKERS, name, BROKER_NAMES[broker])


def text(outcomes: Outcomes) -> str:
    """Return one cell: yes, or what went wrong, or why nothing ran."""
    if failed := sum(each["outcome"] == "failed" for each in outcomes):
        return f"**no** ({failed} of {len(outcomes)})"
    skipped = [each["reason"] for each in outcomes if each["outcome"] == "skipped"]
    if skipped:
        return f"skipped: {skipped[0]}"
    if "cell" in outcomes[0]:
        return outcomes[0]["cell"]
    figures = ", ".join(each["figures"] for each in outcomes if each.get("figures"))
    return f"yes, {figures}" if figures else "yes"


def cells_of_run(outcomes: Outcomes) -> Cells:
    """Return the cells of a run, in the order in which they came."""
    places: dict[Place, Outcomes] = defaultdict(list)
    for each in outcomes:
        places[place(each)].append(each)
    return {where: text(each) for where, each in places.items()}


def cells_of_figures(figures: str) -> Cells:
    """Return the cells of what the row `parked` of the bench has measured."""
    found = re.findall(r"^\| heartbeat parked, ([^,|]+), ([^,|]+) \| ([\d.]+ %) \|", figures, re.MULTILINE)
    return {Place(IN_REACH, OF_REACH, client, commits): share for client, commits, share in found}


def cells_of_page(page: str) -> Cells:
    """Return the cells that a page has."""
    cells: Cells = {}
    section, table = "", OF_BROKERS
    for line in page.splitlines():
        if line.startswith("## "):
            section = without_version(line.removeprefix("## "))
        elif line.startswith("| "):
            first, *texts = (each.strip() for each in line.strip("|").split("|"))
            heads = [each for each in TABLES if each.first == first and each.names == tuple(texts)]
            if heads:
                table = heads[0]
                continue
            row = without_version(first)
            cells |= {Place(section, table, row, name): text for name, text in zip(table.names, texts, strict=True)}
    return {where: text for where, text in cells.items() if text != "–"}


def lines_of_table(table: Columns, cells: Cells) -> Iterable[str]:
    """Yield a table of these cells."""
    yield f"| {' | '.join((table.first, *table.names))} |".replace("|  |", "| |") + "\n"
    yield "|---" * (1 + len(table.names)) + "|\n"
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for where, found in cells.items():
        rows[where.row][where.column] = found
    for row in sorted(rows) if table.is_sorted else rows:
        yield f"| {' | '.join((with_version(row), *(rows[row].get(name, '–') for name in table.names)))} |\n"
    yield "\n"


def text_of(section: str) -> str:
    """Return what a section begins with."""
    readers = reader_versions() if section == VALUES_IN_TABLES else ""
    return TEXTS.get(section, "").format(kafka=kafka_version(), readers=readers)


def page(cells: Cells) -> str:
    """Return the page of these cells."""
    sections = dict.fromkeys([CLIENTS_THROUGH_GATEWAYS, IN_REACH, *(where.section for where in cells)])
    sections[THROUGH_GATEWAYS] = sections.pop(THROUGH_GATEWAYS, None)  # to the end
    parts = [HEAD.format(kafka=kafka_version())]
    for section in sections:
        of_section = {where: found for where, found in cells.items() if where.section == section}
        if of_section:
            parts.append(f"## {with_version(section)}\n\n{text_of(section)}")
        for table in TABLES:
            of_table = {where: found for where, found in of_section.items() if where.table == table}
            parts += lines_of_table(table, of_table) if of_table else ()
    return "".join(parts).rstrip("\n") + "\n"


def main() -> int:
    """Write the page."""
    results: dict[str, Any] = {"is_whole": False, "cells": {}}
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text())
    earlier = {} if results["is_whole"] else cells_of_page(PAGE.read_text())
    cells = cells_of_run(list(results["cells"].values())) | cells_of_figures(FIGURES.read_text())
    PAGE.write_text(page(earlier | cells))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
