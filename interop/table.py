"""Writes docs/interop.md from the outcomes that the last run of tests/interop left in build/interop/results.json.

python -m interop.table
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

from interop import jars
from interop.gateways import GATEWAYS, WAYS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "interop" / "results.json"
PAGE = ROOT / "docs" / "interop.md"
PACKAGES = {"librdkafka": "confluent-kafka", "kafka_python": "kafka-python", "aiokafka": "aiokafka"}
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
GATEWAY_HEAD = """## Java through the gateway

Unmodified programs that come to an Apache Kafka through `kohort gateway --park '*'`, by the mode of the gateway and the
version of Kafka. 4.3.1 has three nodes, but for TLS one; of 4.4.0 one node holds data, and one coordinates groups.

"""
MATRIX = "matrix: "
MATRIX_HEAD = """| protocol | dynamic, kohort | dynamic, Apache Kafka | static, kohort | static, Apache Kafka |
|---|---|---|---|---|
"""
CLIENTS = "through the gateway"
CLIENTS_HEAD = """Unmodified clients on Apache Kafka {kafka}, directly and through `kohort gateway`. One node holds
data, one coordinates groups. Two members, one joins, one leaves, and under load one more joins and one is killed: every
record that was produced is read, no request times out, and no group falls back to being observed.

The figures are how long the join and the leave took until the group was at rest again, in one run, beside others on
two cores, with nothing to read and heartbeats at their default interval. `observed` is mode `listener` without
`--park`; kafkajs, kafka-go and aiokafka are not parked unless a policy lists them.

"""
Outcomes = list[dict[str, str]]
Capabilities = dict[str, dict[str, Outcomes]]  # by name, then by broker


def kafka_version() -> str:
    """Return the version of Apache Kafka that the pom names."""
    tree = ElementTree.parse(jars.HERE / "pom.xml")
    found = tree.find(".//{http://maven.apache.org/POM/4.0.0}kafka.version")
    return "" if found is None else str(found.text)


def client_name(client: str) -> str:
    """Return a client's name with the version that ran."""
    if client in ("java", "Java tools"):
        return f"{'Java consumer' if client == 'java' else client} {kafka_version()}"
    if client == "kohort":
        return "kohort's own Consumer and Producer"
    package = PACKAGES.get(client)
    if package is None:
        return client
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def cell(outcomes: Outcomes) -> str:
    """Return one cell: yes, or what went wrong, or why nothing ran."""
    if not outcomes:
        return "–"
    if failed := sum(each["outcome"] == "failed" for each in outcomes):
        return f"**no** ({failed} of {len(outcomes)})"
    skipped = [each["reason"] for each in outcomes if each["outcome"] == "skipped"]
    if skipped:
        return f"skipped: {skipped[0]}"
    figures = ", ".join(each["figures"] for each in outcomes if each.get("figures"))
    return f"yes, {figures}" if figures else "yes"


def matrix(capabilities: Capabilities) -> str:
    """Return the table of a client's protocols, where it has one: their names read `matrix: PROTOCOL, MEMBERSHIP`."""
    protocols: dict[str, list[str]] = defaultdict(list)
    for name in capabilities:
        if name.startswith(MATRIX):
            protocol, _, membership = name.removeprefix(MATRIX).partition(", ")
            protocols[protocol].append(membership)
    rows = [
        f"| {protocol} | "
        + " | ".join(
            cell(capabilities.get(f"{MATRIX}{protocol}, {membership}", {}).get(broker, []))
            for membership in ("dynamic", "static")
            for broker in ("kohort", "apache")
        )
        + " |\n"
        for protocol in protocols
    ]
    return MATRIX_HEAD + "".join(rows) + "\n" if rows else ""


def of_clients(capabilities: Capabilities) -> str:
    """Return the table of clients in front of which a gateway stands, by the way that they take."""
    rows = [
        f"| {name} | " + " | ".join(cell(ways.get(way, [])) for way in WAYS) + " |\n"
        for name, ways in capabilities.items()
    ]
    names = " | ".join("observed" if way == "observe" else way for way in WAYS)
    head = f"| joins / leaves | {names} |\n|{'---|' * (1 + len(WAYS))}\n"
    title = "## Clients of others through the gateway\n\n" + CLIENTS_HEAD.format(kafka=kafka_version())
    return f"{title}{head}{''.join(rows)}\n"


def by_client(cells: Outcomes) -> dict[str, Capabilities]:
    """Return the outcomes in the order in which they came."""
    clients: dict[str, Capabilities] = defaultdict(dict)
    for each in cells:
        brokers = clients[each["client"]].setdefault(each["capability"], defaultdict(list))
        brokers[each["broker"]].append(each)
    return clients


def through_the_gateway(cells: Outcomes) -> str:
    """Return the section of the tests whose broker is a gateway, a column for each kind of gateway."""
    if not cells:
        return ""
    parts = [GATEWAY_HEAD, f"| | {' | '.join(map(str, GATEWAYS.values()))} |\n", "|---" * (len(GATEWAYS) + 1), "|\n"]
    for client, capabilities in sorted(by_client(cells).items()):
        for name, kinds in sorted(capabilities.items()):
            outcomes = " | ".join(cell(kinds[kind]) for kind in GATEWAYS)
            parts.append(f"| {client_name(client)}: {name.removeprefix(MATRIX)} | {outcomes} |\n")
    return "".join(parts)


def page(cells: Outcomes) -> str:
    """Return the page for the outcomes of a run."""
    parts = [HEAD.format(kafka=kafka_version())]
    clients = by_client([each for each in cells if each["broker"] not in GATEWAYS])
    if capabilities := clients.pop(CLIENTS, None):
        parts.append(of_clients(capabilities))
    for client, capabilities in clients.items():
        parts.append(f"## {client_name(client)}\n\n{matrix(capabilities)}| | kohort | Apache Kafka |\n|---|---|---|\n")
        parts += [
            f"| {name} | {cell(brokers['kohort'])} | {cell(brokers['apache'])} |\n"
            for name, brokers in sorted(capabilities.items())
            if not name.startswith(MATRIX)
        ]
        parts.append("\n")
    parts.append(through_the_gateway([each for each in cells if each["broker"] in GATEWAYS]))
    return "".join(parts).rstrip("\n") + "\n"


def main() -> int:
    """Write the page, or say what to run first."""
    if not RESULTS.exists():
        print("nothing to write: run make interop first", file=sys.stderr)
        return 1
    PAGE.write_text(page(list(json.loads(RESULTS.read_text()).values())))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
