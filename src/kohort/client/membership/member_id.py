"""The id that a member of the consumer protocol makes for itself, and keeps while its client lives (KIP-848)."""

from __future__ import annotations

from uuid import UUID

from kohort.model.ids import topic_id_text
from kohort.net.environment import randbytes


def new_member_id() -> str:
    """Return an id as members of the consumer protocol make their own: a random UUID in Kafka's text form."""
    while (text := topic_id_text(UUID(bytes=randbytes(16), version=4).bytes)).startswith("-"):
        pass  # a text that begins so is taken for an option by command lines
    return text
