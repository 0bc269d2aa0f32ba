"""What brokers and gateways serve under `/metrics`: read for a page, by Prometheus' text format."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import NamedTuple

from kohort.console.history.gateway_lines import GatewayLook
from kohort.console.history.watched_cluster import WatchedCluster

TIMEOUT_S = 2.0
WATCH_S = 5.0
"""Between two looks at gateways for the feed."""
MOST_BYTES = 8 << 20

Samples = Mapping[str, list[tuple[Mapping[str, str], float]]]
"""By the name of the metric: labels and value."""

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \S+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class MetricsOf(NamedTuple):
    """What an endpoint serves; `failure` is why nothing is known of it."""

    url: str
    kind: str
    figures: list[tuple[str, str, float | None]]
    """Name, unit (empty, bytes, or s) and value, None where there is none yet."""
    failure: str


class _Figure(NamedTuple):
    name: str
    unit: str
    value: Callable[[Samples], float | None]


def _sum(name: str) -> Callable[[Samples], float | None]:
    return lambda samples: sum(value for _, value in samples[name]) if name in samples else None


def _mean(name: str) -> Callable[[Samples], float | None]:
    total, count = _sum(f"{name}_sum"), _sum(f"{name}_count")
    return lambda samples: (total(samples) or 0.0) / n if (n := count(samples)) else None


def _below(name: str, share: float) -> Callable[[Samples], float | None]:
    """Return the bound below which a share of a histogram's durations is; infinite beyond the last one."""

    def bound(samples: Samples) -> float | None:
        buckets: dict[float, float] = {}
        for labels, value in samples.get(f"{name}_bucket", ()):
            upper = _number(labels.get("le", "inf"))
            if upper is None:
                continue
            buckets[upper] = buckets.get(upper, 0.0) + value
        wanted = share * max(buckets.values(), default=0.0)
        return next((upper for upper, count in sorted(buckets.items()) if wanted and count >= wanted), None)

    return bound


_G, _B = "kohort_gateway", "kohort_broker"

_WATCHED = "heartbeats parked now", "groups fallen back now", "times that a group fell back"

FIGURES: dict[str, list[_Figure]] = {
    "gateway": [
        _Figure("heartbeats parked now", "", _sum(f"{_G}_heartbeats_held")),
        _Figure("times that a group fell back", "", _sum(f"{_G}_fallbacks_total")),
        _Figure("groups fallen back now", "", _sum(f"{_G}_groups_fallen_back")),
        _Figure("latency added, mean", "s", _mean(f"{_G}_passing_seconds")),
        _Figure("latency added, 99 of 100 below", "s", _below(f"{_G}_passing_seconds", 0.99)),
        _Figure("event loop late, 99 of 100 below", "s", _below(f"{_G}_loop_lag_seconds", 0.99)),
        _Figure("connections", "", _sum(f"{_G}_connections")),
        _Figure("connections refused", "", _sum(f"{_G}_connections_refused_total")),
        _Figure("groups observed", "", _sum(f"{_G}_groups")),
    ],
    "broker": [
        _Figure("requests", "", _sum(f"{_B}_requests_total")),
        _Figure("work on a request, mean", "s", _mean(f"{_B}_handling_seconds")),
        _Figure("event loop late, 99 of 100 below", "s", _below(f"{_B}_loop_lag_seconds", 0.99)),
        _Figure("connections", "", _sum(f"{_B}_connections")),
        _Figure("open logs", "bytes", _sum(f"{_B}_log_bytes")),
        _Figure("free on its disk", "bytes", _sum(f"{_B}_disk_free_bytes")),
        _Figure("groups", "", _sum(f"{_B}_groups")),
    ],
}


async def watch_gateways(urls: tuple[str, ...], watched: WatchedCluster, now_ms: Callable[[], int]) -> None:
    """Put what happens to gateways into the feed of a cluster, until it is cancelled."""
    gateways: set[str] = set()
    while urls:
        for each in await read_metrics(urls):
            figures = {name: int(value or 0) for name, _, value in each.figures}
            if each.kind == "gateway":
                gateways.add(each.url)
                watched.fold_gateway(now_ms(), each.url, GatewayLook(*(figures[name] for name in _WATCHED)))
            elif each.url in gateways:
                watched.fold_gateway(now_ms(), each.url, None)
        await asyncio.sleep(WATCH_S)


async def read_metrics(urls: tuple[str, ...]) -> list[MetricsOf]:
    """Return what endpoints serve, all at the same time."""
    return list(await asyncio.gather(*[asyncio.to_thread(_read, url) for url in urls]))


def _read(url: str) -> MetricsOf:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            text = answer.read(MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        return MetricsOf(url, "", [], f"cannot be read: {getattr(reason, 'strerror', None) or reason}")
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for name, labels, sample in _samples(text):
        samples.setdefault(name, []).append((labels, sample))
    for kind, figures in FIGURES.items():
        found = [(each.name, each.unit, each.value(samples)) for each in figures]
        if any(value is not None for _, _, value in found):
            return MetricsOf(url, kind, found, "")
    return MetricsOf(url, "", [], "serves no metrics of a kohort broker or gateway")


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line) if line.startswith("kohort_") else None
        if found is not None and (value := _number(found[3])) is not None:
            yield found[1], dict(_LABEL.findall(found[2] or "")), value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
