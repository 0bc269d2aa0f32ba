"""A principal: who a client is after its authentication, as authorizers and quotas of Kafka name it (`User:alice`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """The type of a principal, nearly always `User`, and its name. Its text is Kafka's: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @staticmethod
    def parse(text: str) -> Principal:
        """Return the principal of a text such as `User:alice`. Raises ValueError."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"{text!r} is no principal: expected TYPE:NAME, such as User:alice")
        return Principal(kind, name)


ANONYMOUS = Principal("User", "ANONYMOUS")
"""A client that did not authenticate."""
