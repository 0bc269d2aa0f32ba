"""Options in `sasl.jaas.config`: the one line of Java's login configuration that clients and brokers of Kafka have."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPTION = re.compile(r"""([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def jaas_options(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the options."""
    for found in _OPTION.finditer(text):
        name, double, single, bare = found.groups()
        quoted = double if double is not None else single
        yield name, bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
