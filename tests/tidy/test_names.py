"""Names say what a thing is in Kafka's words; some words say nothing and are refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from tests.tidy.tree import Tree, nodes

EMPTY_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "common", "misc"}
"""Words that may be no part of any name."""

EMPTY_ENDINGS = {"data", "info"}
"""Words that may not be a module or a function, nor end the name of a class."""

EMPTY_VERBS = ("process_", "do_", "handle_")
"""A function that starts like this does not say what it does."""

NOT_OUR_WORDS = {"assigner", "assigners", "balancer", "balancers", "kick", "kicked", "fuzz", "servers_list"}
"""The vocabulary says assignor, evict and fence, world and seed."""

CODE = ("src/", "tests/", "bench/", "examples/", "interop/", "scripts/")


def words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word.lower() for word in spaced.split("_") if word]


def defined(module: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and name of everything that a module names itself."""
    for node in nodes(module):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, "class", node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, "function", node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, "argument", node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, "variable", node.id


@cache
def offence(kind: str, name: str) -> str | None:
    if kind == "function" and name.startswith("test_"):
        return None  # a test's name is a sentence
    parts = words(name)
    if found := (EMPTY_WORDS | NOT_OUR_WORDS) & set(parts):
        return f"{name} holds {found.pop()!r}"
    if kind == "function" and name.lstrip("_").startswith(EMPTY_VERBS):
        return f"{name} does not say what it does"
    if kind == "function" and parts and parts[-1:] == parts and parts[0] in EMPTY_ENDINGS:
        return f"{name} says nothing"
    if kind == "class" and parts and parts[-1] in EMPTY_ENDINGS:
        return f"{name} ends in {parts[-1]!r}"
    if kind in {"variable", "argument"} and name == "info":
        return f"{name} says nothing"
    return None


def test_no_name_uses_a_word_that_says_nothing(tree: Tree) -> None:
    offences = [
        f"{path}:{line} {kind} {fault}"
        for path, module in tree.modules(*CODE)
        for line, kind, name in defined(module)
        if (fault := offence(kind, name))
    ]
    assert not offences, "\n".join(offences)


def test_no_module_is_named_after_nothing(tree: Tree) -> None:
    offences = [
        path
        for path in tree.under(*CODE)
        if set(words(PurePosixPath(path).stem)) & (EMPTY_WORDS | NOT_OUR_WORDS)
        or PurePosixPath(path).stem in EMPTY_ENDINGS
    ]
    assert not offences, "\n".join(offences)


def test_no_function_is_named_handle(tree: Tree) -> None:
    offences = [
        f"{path}:{line}"
        for path, module in tree.modules("src/")
        for line, kind, name in defined(module)
        if kind == "function" and name == "handle"
    ]
    assert not offences, "\n".join(offences)


def test_units_come_last(tree: Tree) -> None:
    """`session_timeout_ms`, never `ms_timeout`; and a timeout, interval or deadline of ours has its unit."""
    offences = [
        f"{path}:{line} {name}"
        for path, module in tree.modules("src/")
        for line, kind, name in defined(module)
        if kind in {"argument", "variable"} and re.match(r"(ms|seconds|bytes)_[a-z]+$", name)
    ]
    assert not offences, "\n".join(offences)


DEFINED_TWICE = {
    "POLL_MS",
    "START_TIMEOUT_MS",
    "TIMEOUT_MS",
    "_FIRST_WAIT_MS",
    "_WAIT_MS",
}
"""Times that have one name and two meanings, for now. A name leaves the list with its second definition."""


def times(tree: Tree) -> dict[str, list[str]]:
    """Return where each constant in milliseconds is defined, by name."""
    found: dict[str, list[str]] = {}
    for path, module in tree.modules("src/"):
        for statement in module.body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                continue
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name) and node.id.isupper() and node.id.endswith("_MS"):
                        found.setdefault(node.id, []).append(f"{path}:{node.lineno}")
    return found


def test_a_time_in_milliseconds_has_one_definition(tree: Tree) -> None:
    offences = [
        f"{name}: {', '.join(places)}"
        for name, places in sorted(times(tree).items())
        if len(places) > 1 and name not in DEFINED_TWICE
    ]
    assert not offences, "import it, or name what it is the time of:\n" + "\n".join(offences)


def test_times_that_are_listed_as_defined_twice_are(tree: Tree) -> None:
    found = times(tree)
    stale = sorted(name for name in DEFINED_TWICE if len(found.get(name, ())) < 2)
    assert not stale, f"take them out of DEFINED_TWICE: {', '.join(stale)}"


SHARED_CLASSES = {
    "the asyncio client, and the same for callers that block": "Admin Consumer Delivery Producer Transaction",
    "a request of Kafka's, as a command of the coordinator and as an effect of a member or a parked one": (
        "ConsumerHeartbeat Heartbeat Join Leave Sync"
    ),
    "the machines of groups and of transactions, in one shape": "Append Arm Disarm Loaded Reply State Why",
    "a member, an assignment or a round, on the coordinator's side and on the client's": (
        "AssignmentFailed ConsumerMember Identity OpenRound Round"
    ),
    "the parts of a connection, at a client, at the broker and inside a gateway": (
        "Client Connection Connections Link Request Timers"
    ),
    "Kafka's own word, for what runs and for what a client knows of it": (
        "Broker ClientSettings RangeReader ResourceType"
    ),
    "schemas of records, of messages and of tables": "Column Field Program Record Table",
    "plans of a gateway, and of commits to a table": "LiveGroup Plan Result Step",
}
"""Classes that share their name with one of another package, by why they may."""


def test_no_two_classes_share_a_name_unless_listed(tree: Tree) -> None:
    """A name that begins with an underscore is its module's own."""
    listed = {name for names in SHARED_CLASSES.values() for name in names.split()}
    found: dict[str, list[str]] = {}
    for path, module in tree.modules("src/"):
        for statement in module.body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                found.setdefault(statement.name, []).append(f"{path}:{statement.lineno}")
    offences = [f"{name}: {', '.join(at)}" for name, at in sorted(found.items()) if len(at) > 1 and name not in listed]
    assert not offences, "give it the noun of its owner (`ReconcileStep`, `ParkedGroup`):\n" + "\n".join(offences)
