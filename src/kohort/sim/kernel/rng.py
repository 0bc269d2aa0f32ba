"""Where a world's luck comes from: one stream of random numbers for each subject, all from one seed.

Streams are independent: whoever draws more or less of one leaves the others as they were. So a fault that is left out
of a world does not change the luck of what stays, and a failure can be made smaller.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random


class Draw:
    """The luck of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, name: str) -> Random:
        """Return a new stream for a subject; the same name begins it anew."""
        digest = blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))
