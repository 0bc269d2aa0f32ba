"""What the metrics of a gateway show between two looks, as lines of the feed: parking, fallbacks, its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kohort.drawing.display_text import counted


class GatewayLook(NamedTuple):
    """What a gateway measures: heartbeats parked now, groups fallen back now, and fallbacks since its start."""

    parked: int
    fallen_back: int
    fallbacks: int


class GatewayLine(NamedTuple):
    """A line; `is_alarm`: a group fell back, or the gateway does not answer."""

    text: str
    is_alarm: bool = False


class GatewayLines:
    """Compares each look at one gateway with the one before; the first one gives no line."""

    def __init__(self) -> None:
        self._last: GatewayLook | None = None
        self._is_gone = False

    def fold(self, look: GatewayLook | None) -> Iterator[GatewayLine]:
        """Yield what has changed; None where its metrics cannot be read."""
        before, was_gone, self._is_gone = self._last, self._is_gone, look is None
        if look is None:
            if before is not None and not was_gone:
                yield GatewayLine("its metrics cannot be read any more", is_alarm=True)
            return
        self._last = look
        if before is None:
            return
        if was_gone:
            yield GatewayLine("its metrics can be read again")
        if look.fallbacks < before.fallbacks:
            yield GatewayLine("was started again")
            before = GatewayLook(0, 0, 0)
        if fell := look.fallbacks - before.fallbacks:
            text = f"{counted(fell, 'time')} a group fell back: its heartbeats are forwarded, and not parked"
            yield GatewayLine(text, is_alarm=True)
        if before.fallen_back and not look.fallen_back:
            yield GatewayLine("no group is fallen back any more")
        if bool(look.parked) is not bool(before.parked):
            yield GatewayLine(
                f"parks heartbeats: {look.parked:,} now" if look.parked else "parks no heartbeats any more"
            )
