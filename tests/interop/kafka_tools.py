"""Apache Kafka's own command line tools: how they are run, and how their tables are read."""

from __future__ import annotations

from typing import Protocol

from interop import jars

TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIG = "kafka.admin.ConfigCommand"


class Reached(Protocol):
    """A broker, or a gateway."""

    bootstrap: str


def tool(
    broker: Reached, name: str, *arguments: str, text: str | None = None, option: str = "--bootstrap-server"
) -> str:
    """Run one tool against a broker and return what it printed."""
    main = name if name.startswith(("org.", "kafka.")) else f"{TOOLS}.{name}"
    return jars.run(main, option, broker.bootstrap, *arguments, text=text)


def attempt(broker: Reached, name: str, *arguments: str) -> str:
    """Run one tool that may well fail, and return what it printed."""
    return jars.attempt(name, "--bootstrap-server", broker.bootstrap, *arguments)


def table(text: str) -> list[dict[str, str]]:
    """Read the rows of a ConsumerGroupCommand table by its header."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    header = next(i for i, words in enumerate(lines) if words[0] in ("GROUP", "TOPIC"))
    return [dict(zip(lines[header], words, strict=False)) for words in lines[header + 1 :]]
