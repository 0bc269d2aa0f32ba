"""Loads what requests need at their first use, in steps: what is loaded later delays all clients.

The first request for a group would load the coordinator, the first of each API its module and its decoder, and the
garbage collector would go through all of it in each full collection. `kohort broker` does this after it is ready; an
embedded broker, which shares its process, does not.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from kohort.node.apis.routes import MODULES, served
from kohort.node.node import Node
from kohort.wire.apis import VERSIONS
from kohort.wire.compression import Compression, CompressionUnavailable, compress

_PARTS = (
    "kohort.group.classic.machine",
    "kohort.group.consumer.machine",
    "kohort.group.migration.conversion",
    "kohort.group.decisions",
    "kohort.log.offsets_topic",
    "kohort.node.groups.event_topic",
    "kohort.node.groups.coordinator",
    "kohort.transaction.decisions",
    "kohort.node.transactions.transaction_coordinator",
)


def prepare(node: Node) -> Iterator[None]:
    """Load in steps what the node has not loaded yet; then exempt all that is there from garbage collection."""
    for name in (*_PARTS, *(f"kohort.node.apis.{module}" for module in dict.fromkeys(MODULES.values()))):
        import_module(name)
        yield
    for api in served():
        node.connections.routes.get(api, VERSIONS[api].highest)
        yield
    for codec in Compression:
        with suppress(CompressionUnavailable):
            compress(codec, b"")
        yield
    gc.freeze()
