"""Many buffers to one transport, and the flow control that must survive it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from kohort.wire.codec import Buffer

IS_UNPAUSED = (3, 12, 0) <= sys.version_info < (3, 12, 9) or (3, 13, 0) <= sys.version_info < (3, 13, 2)
"""Whether asyncio's own `writelines` never pauses its protocol, so that a slow reader fills the memory
(CVE-2024-12254). uvloop's transports do not come from there."""


def write(transport: asyncio.WriteTransport, buffers: Sequence[Buffer]) -> None:
    """Write buffers in order; they must not change afterwards. The protocol is paused as for a single one."""
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif IS_UNPAUSED and type(transport).__module__ == "asyncio.selector_events":
        for buffer in buffers:
            transport.write(buffer)
    else:
        transport.writelines(buffers)
