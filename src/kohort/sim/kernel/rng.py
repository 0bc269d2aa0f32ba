"""Random numbers of a world: one independent stream for each subject, all derived from one seed.

Drawing more or less from one stream leaves the others as they were. So leaving a fault out of a world does not change
the random numbers of the rest, and a failure can be shrunk.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random


class Rng:
    """The random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, name: str) -> Random:
        """Return a new stream for a subject; the same name starts the same stream again."""
        digest = blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))
