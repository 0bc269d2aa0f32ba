"""Packages: a docstring that states what lives there, some twenty entries, and modules that are found by one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import PurePosixPath

from tests.tidy.tree import Tree

SHARED_NAMES = {
    "answer": "the answer of a heartbeat; one for each type of group that has a target",
    "apply": "folds an event into the state of a group; one for each type of group",
    "broker": "the broker process, and the verb that starts it",
    "clock": "the clock of a process, and the manual one for tests",
    "cluster": "one Kafka cluster as clients use it, and as commands name it",
    "committed_offsets": "the committed offsets of a group, in the coordinator and in the client",
    "commands": "what is asked of a coordinator, of groups or of transactions",
    "decisions": "what a coordinator decides, of groups or of transactions",
    "effects": "what a state machine decides, in the coordinators and in the member",
    "errors": "Kafka's error codes, and the exceptions of clients",
    "events": "what happened to a group; those of streams groups have a module of their own",
    "exit": "how a member leaves; one for each type of group",
    "explain": "why a group rebalanced, and the verb that prints it",
    "gateway": "the proxy of groups, and the verb that runs it",
    "group": "the state of a group; one for each type of group",
    "instance_links": "connections between instances of a gateway, over TCP and in the simulator",
    "invariants": "what holds of a group; one for each type of group",
    "join": "how members join; one for each type of group that has a target",
    "k18_api_versions": "the module of an API, in the broker and in the gateway",
    "k68_consumer_group_heartbeat": "the module of an API, in the broker and in the gateway",
    "machine": "the state machine of a group; one for each type of group",
    "plots": "plots of a report",
    "reconcile": "one step of a member towards its target; one for each type of group that has one",
    "range": "the range assignor, of leaders and of coordinators",
    "routes": "from an API key to its module, in the broker and in the gateway",
    "spec": "what an assignor gets, in leaders and in coordinators",
    "summary": "the summary of a report",
    "topics": "topics as a broker, a group, a client or the command line sees them",
    "target": "the target of a group; one for each type of group that has one",
}
"""Names of modules in more than one package, and the idea that they share."""

ENTRIES = 24
"""A folder with more than some twenty modules and packages wants rooms of its own."""


def test_two_modules_of_one_name_share_the_idea(tree: Tree) -> None:
    places = defaultdict(list)
    for path in tree.under("src/"):
        name = PurePosixPath(path).stem
        if not name.startswith("__") and name not in SHARED_NAMES:
            places[name].append(path)
    offences = [" ".join(paths) for paths in places.values() if len(paths) > 1]
    assert not offences, "rename one, or state the shared idea in SHARED_NAMES:\n" + "\n".join(offences)


def test_every_package_states_in_two_sentences_what_lives_there(tree: Tree) -> None:
    offences = []
    for path, module in tree.modules("src/"):
        if path.endswith("/__init__.py"):
            docstring = ast.get_docstring(module) or ""
            if "TODO" in docstring or len(re.findall(r"[.:](?=\s|$)", docstring)) < 2 or len(docstring) < 60:
                offences.append(f"{path}: {docstring!r}")
    assert not offences, "\n".join(offences)


def test_no_package_has_more_than_some_twenty_entries(tree: Tree) -> None:
    entries = defaultdict(set)
    for path in tree.under("src/"):
        parts = PurePosixPath(path).parts
        for depth in range(2, len(parts)):
            if parts[depth] not in ("__init__.py", "__main__.py"):
                entries["/".join(parts[:depth])].add(parts[depth])
    offences = [f"{package}: {len(found)}" for package, found in sorted(entries.items()) if len(found) > ENTRIES]
    assert not offences, "make rooms:\n" + "\n".join(offences)
