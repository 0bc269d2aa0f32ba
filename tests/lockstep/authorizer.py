"""Kafka's `StandardAuthorizer` and ours on the same random rules, changes of them, and questions.

A step is a JSON object, as AuthorizerLockstep.java takes it: rules are added and removed, and between the changes
principals from hosts ask what they may do. Names are few and share prefixes, so that most questions meet several rules.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from interop.java_lines import JavaLines
from tests.lockstep.run import fewest

from kohort.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, Principal, ResourceType
from kohort.node.authorization.authorizer import Acls, Authorizer

STEPS = 120
"""Steps of one seed."""

QUESTIONS = 15
"""Questions of one step."""

KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER, ResourceType.USER)
OPERATIONS = tuple(AclOperation)[3:]
NAMES = ("a", "ab", "abc", "abd", "b", "orders", "orders.eu", "orders.eu-1", "order", "*", "*a", "!", "é", "日本", "")
PRINCIPALS = ("User:alice", "User:bob", "User:a:b", "Group:staff", "User:ANONYMOUS", "User:*", "User:alic")
HOSTS = ("192.0.2.1", "192.0.2.2", "2001:db8:0:0:0:0:0:1")
"""Addresses as Java writes them."""

Step = dict[str, Any]


class Kafkas:
    """Kafka's authorizer."""

    def __init__(self) -> None:
        self._lines = JavaLines("AuthorizerLockstep")

    def close(self) -> None:
        """End the process."""
        self._lines.close()

    def do(self, step: Step) -> str:
        """Take a step."""
        return self._lines.ask(json.dumps(step))


class Ours:
    """Our authorizer."""

    def __init__(self) -> None:
        self.acls = Acls()
        self._authorizer = Authorizer(self.acls)

    def do(self, step: Step) -> str:
        """Take a step."""
        match step["op"]:
            case "open":
                self.acls = Acls()
                super_users = step["super_users"].split(";")
                self._authorizer = Authorizer(self.acls, super_users, allows_without_acl=step["default"] == "true")
            case "add":
                self.acls.change(added=[binding(step["acl"])])
            case "remove":
                self.acls.change(removed=[binding(step["acl"])])
            case "filter":
                return str(len(self.acls.selected(_filter(step["filter"]))))
            case "some":
                operation, kind = AclOperation(step["operation"]), ResourceType(step["type"])
                return str(int(self._authorizer.allows_some(*_client(step), operation, kind)))
            case "ask":
                return "".join(
                    str(int(self._authorizer.allows(*_client(step), AclOperation(operation), ResourceType(kind), name)))
                    for operation, kind, name in step["questions"]
                )
        return "ok"


def binding(values: list[Any]) -> AclBinding:
    """Return the rule that a step names."""
    kind, name, pattern, principal, host, operation, permission = values
    return AclBinding(
        ResourceType(kind), name, PatternType(pattern), principal, host, AclOperation(operation),
        AclPermission(permission),
    )  # fmt: skip


def _filter(values: list[Any]) -> AclFilter:
    kind, name, pattern, principal, host, operation, permission = values
    return AclFilter(
        ResourceType(kind), name, PatternType(pattern), principal, host, AclOperation(operation),
        AclPermission(permission),
    )  # fmt: skip


def _client(step: Step) -> tuple[Principal, str]:
    return Principal(*step["principal"]), step["host"]


# -- random steps


def steps(random: Random) -> Iterator[Step]:
    """Yield the steps of a run."""
    supers = random.choice(("", "", "User:root", "User:root;User:bob"))
    yield {"op": "open", "super_users": supers, "default": random.choice(("true", "false"))}
    rules: list[list[Any]] = []
    for _ in range(random.choice((0, 3, 20, 60))):
        yield _added(random, rules)
    for _ in range(STEPS - 1):
        draw = random.random()
        if draw < 0.2:
            yield _added(random, rules)
        elif draw < 0.4 and rules:
            yield {"op": "remove", "acl": rules.pop(random.randrange(len(rules)))}
        elif draw < 0.45:
            yield {"op": "filter", "filter": _random_filter(random)}
        elif draw < 0.55:
            yield _asking(random, "some", operation=random.choice(OPERATIONS), type=random.choice(KINDS))
        else:
            questions = [
                [random.choice(OPERATIONS), random.choice(KINDS[:3]), random.choice(NAMES)] for _ in range(QUESTIONS)
            ]
            yield _asking(random, "ask", questions=questions)


def _added(random: Random, rules: list[list[Any]]) -> Step:
    acl = [
        random.choice(KINDS[: random.choice((1, 3, 5))]),
        random.choice(NAMES[:-1]),
        random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        random.choice(PRINCIPALS),
        random.choice(("*", *HOSTS)),
        random.choice(OPERATIONS if random.random() < 0.7 else (AclOperation.ALL,)),
        random.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    ]
    if acl not in rules:
        rules.append(acl)
    return {"op": "add", "acl": acl}


def _random_filter(random: Random) -> list[Any]:
    return [
        random.choice((ResourceType.ANY, *KINDS)),
        random.choice((None, *NAMES[:-1])),
        random.choice((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
        random.choice((None, None, *PRINCIPALS)),
        random.choice((None, None, "*", *HOSTS)),
        random.choice((AclOperation.ANY, *OPERATIONS)),
        random.choice((AclPermission.ANY, AclPermission.ALLOW, AclPermission.DENY)),
    ]


def _asking(random: Random, op: str, **rest: Any) -> Step:
    principal = random.choice([*(each for each in PRINCIPALS if each != "User:*"), "User:root"])
    return {"op": op, "principal": principal.split(":", 1), "host": random.choice(HOSTS), **rest}


# -- runs


@dataclass
class Run:
    """What became of a seed."""

    seed: int
    steps: list[Step] = field(default_factory=list)
    asked: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    failure: str | None = None


def run(theirs: Kafkas, seed: int) -> Run:
    """Take the steps of a seed; the run ends at the first difference."""
    return _take(theirs, seed, list(steps(Random(f"authorizer {seed}"))))


def shrink(theirs: Kafkas, failed: Run) -> Run:
    """Leave out whatever the failure does not need; return the shortest run that still fails."""
    return fewest(failed.steps[1:], failed, lambda fewer: _take(theirs, failed.seed, [failed.steps[0], *fewer]))


def _take(theirs: Kafkas, seed: int, wanted: list[Step]) -> Run:
    ours, found = Ours(), Run(seed)
    for step in wanted:
        if step["op"] == "remove" and binding(step["acl"]) not in ours.acls:
            continue  # shrunk away
        found.steps.append(step)
        kafkas, own = theirs.do(step), ours.do(step)
        if step["op"] in ("ask", "some"):
            found.asked += len(own)
            found.answers.update(own)
        if kafkas != own:
            found.failure = f"Kafka answers {kafkas}, we {own}, to {step}; rules: {[*map(str, ours.acls)]}"
            break
    return found
